# cython: language_level=3
"""The part of dlpack.h (DLPack 1.3) that compiled code reads, and the table of a library's exchange functions."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    DLPACK_MAJOR = 1
    DLPACK_CPU = 1
    DLPACK_CUDA = 2
    MOST_DIMENSIONS = 8

cdef struct DLDevice:
    int32_t kind
    int32_t ordinal

cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset

cdef struct ExchangeHeader:
    uint32_t major
    uint32_t minor
    ExchangeHeader* older

cdef struct ExchangeTable:
    ExchangeHeader header
    void* allocate
    void* managed_from_object
    void* object_from_managed
    int (*tensor_from_object)(void* x, DLTensor* tensor) noexcept
    int (*current_stream)(int32_t kind, int32_t ordinal, void** handle) noexcept

cdef inline ExchangeTable* table_of(capsule) except NULL:
    """The functions in a library's `__dlpack_c_exchange_api__`. Raises ValueError for another version of DLPack."""
    cdef ExchangeHeader* header = <ExchangeHeader*>PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
    while header is not NULL and header.major != DLPACK_MAJOR:
        header = header.older
    if header is NULL or (<ExchangeTable*>header).tensor_from_object is NULL:
        raise ValueError("a library without the exchange API of DLPack 1")
    return <ExchangeTable*>header
