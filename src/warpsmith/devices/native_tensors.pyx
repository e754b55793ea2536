# cython: language_level=3, boundscheck=False, wraparound=False
"""Reads and makes tensors through DLPack's C exchange API (DLPack 1.3, `DLPackExchangeAPI` in dlpack.h), which PyTorch
has since 2.10.
"""

from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int32_t, uint64_t, uintptr_t

from warpsmith.devices.dlpack cimport (
    DLPACK_CPU,
    DLPACK_CUDA,
    DLDataType,
    DLDevice,
    DLTensor,
    MOST_DIMENSIONS,
    table_of,
)


cdef class ExchangeApi:
    """C functions of an array library: the table in `__dlpack_c_exchange_api__` of its array type."""

    def __cinit__(self, capsule):
        self._table = table_of(capsule)

    def reader_of(self, kinds, ordinal, dtype, shape, strides, alignment, methods, records):
        """Makes a `TensorReader`."""
        return TensorReader(self, kinds, ordinal, dtype, shape, strides, alignment, methods, records)

    def stream_of(self, ordinal):
        """Makes a `CurrentStream`."""
        return CurrentStream(self, ordinal)

    def new_tensors(self, current, ordinal, make, shape, strides, dtype, otherwise):
        """Makes a `NewTensors`."""
        return NewTensors(self, current, ordinal, make, shape, strides, dtype, otherwise)


cdef class TensorReader:
    """Reads the address of a tensor that matches one of two types, and the expected device, dtype, shape and strides;
    else 0. A tensor that requires a gradient matches while `records()` is false.
    """

    def __cinit__(
        self,
        ExchangeApi api,
        tuple kinds,
        ordinal,
        tuple dtype,
        tuple shape,
        tuple strides,
        alignment,
        tuple methods,
        records,
    ):
        self._api, self._methods, self._records = api, methods, records
        self._kind, self._other_kind = kinds
        self._device = DLDevice(DLPACK_CPU, 0) if ordinal is None else DLDevice(DLPACK_CUDA, ordinal)
        self._dtype = DLDataType(dtype[0], dtype[1], 1)
        self._misaligned = alignment - 1  # alignments are powers of two
        self._ndim = len(shape)
        if self._ndim > MOST_DIMENSIONS:
            raise ValueError(f"tensors of {self._ndim} dimensions")
        for depth in range(self._ndim):
            self._shape[depth], self._strides[depth] = shape[depth], strides[depth]

    def __call__(self, x):
        return self.address(x)

    cdef uint64_t address(self, x) except? 0:
        cdef DLTensor tensor
        cdef uint64_t address
        if type(x) is not self._kind and type(x) is not self._other_kind:
            return 0
        if self._api._table.tensor_from_object(<void*>x, &tensor) != 0:
            PyErr_Clear()  # no memory of its own, or a kind that DLPack lacks
            return 0
        if not self._is_expected(&tensor):
            return 0
        if x.requires_grad and self._records():
            return 0
        for method in self._methods:
            if method(x):
                return 0
        address = <uint64_t>tensor.data + tensor.byte_offset
        return 0 if address & self._misaligned else address

    cdef bint _is_expected(self, DLTensor* tensor) noexcept:
        if tensor.device.kind != self._device.kind or tensor.device.ordinal != self._device.ordinal:
            return False
        if tensor.dtype.code != self._dtype.code or tensor.dtype.bits != self._dtype.bits or tensor.dtype.lanes != 1:
            return False
        if tensor.ndim != self._ndim or tensor.data is NULL or tensor.strides is NULL:
            return False
        for depth in range(self._ndim):
            if tensor.shape[depth] != self._shape[depth]:
                return False
            # One element has no stride.
            if tensor.strides[depth] != self._strides[depth] and self._shape[depth] != 1:
                return False
        return True


cdef class CurrentStream:
    """Reads the handle of a library's current stream on one GPU."""

    def __cinit__(self, ExchangeApi api, ordinal):
        self._api, self._ordinal = api, ordinal

    def __call__(self):
        return <uintptr_t>self.handle()

    cdef void* handle(self) except? NULL:
        cdef void* handle = NULL
        self._api._table.current_stream(DLPACK_CUDA, self._ordinal, &handle)  # an exception, if any, is set by then
        return handle


cdef class NewTensors:
    """Makes uninitialised tensors of one kind on a GPU, and returns each with its address.

    Args:
        api: the library's functions.
        current: returns the number of the current GPU.
        ordinal: the number of the GPU on which `make` makes a tensor, if it is the current one.
        make: makes a tensor from the following three arguments.
        shape, strides, dtype: of the tensors.
        otherwise: makes a tensor, and returns it with its address, if another GPU is current.
    """

    def __cinit__(self, ExchangeApi api, current, ordinal, make, shape, strides, dtype, otherwise):
        self._api, self._current, self._ordinal, self._make = api, current, ordinal, make
        self._shape, self._strides, self._dtype, self._otherwise = shape, strides, dtype, otherwise

    def __call__(self):
        cdef uint64_t address = 0
        return self.made(&address), address

    cdef made(self, uint64_t* address):
        cdef DLTensor tensor
        if self._current() == self._ordinal:
            x = self._make(self._shape, self._strides, self._dtype)
            if self._api._table.tensor_from_object(<void*>x, &tensor) == 0:
                address[0] = <uint64_t>tensor.data + tensor.byte_offset
                return x
            PyErr_Clear()
        x, address[0] = self._otherwise()
        return x
