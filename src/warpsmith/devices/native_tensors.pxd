# cython: language_level=3
"""Classes of `native_tensors`, as other compiled modules see them."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from warpsmith.devices.dlpack cimport DLDataType, DLDevice, DLTensor, ExchangeTable, MOST_DIMENSIONS


cdef class ExchangeApi:
    cdef ExchangeTable* _table


cdef class TensorReader:
    cdef ExchangeApi _api
    cdef object _kind, _other_kind, _records
    cdef DLDevice _device
    cdef DLDataType _dtype
    cdef int32_t _ndim
    cdef int64_t _shape[MOST_DIMENSIONS]
    cdef int64_t _strides[MOST_DIMENSIONS]
    cdef uint64_t _misaligned
    cdef tuple _methods

    cdef uint64_t address(self, x) except? 0
    cdef bint _is_expected(self, DLTensor* tensor) noexcept


cdef class CurrentStream:
    cdef ExchangeApi _api
    cdef int32_t _ordinal

    cdef void* handle(self) except? NULL


cdef class NewTensors:
    cdef ExchangeApi _api
    cdef object _current, _ordinal, _make, _shape, _strides, _dtype, _otherwise

    cdef made(self, uint64_t* address)
