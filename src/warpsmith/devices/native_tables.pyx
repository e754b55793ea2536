# cython: language_level=3, boundscheck=False, wraparound=False
"""Finds what was stored for calls of the same kind: operands that lie alike, and equal further arguments.

Tensors are read through DLPack's C exchange API, as in `native_calls`.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int64_t

from warpsmith.devices.dlpack cimport MOST_DIMENSIONS, DLTensor, ExchangeTable, table_of

cdef enum:
    MOST_OPERANDS = 4
    HEAD = 3  # numbers of an operand before its shape
    MOST_NUMBERS = MOST_OPERANDS * (HEAD + 2 * MOST_DIMENSIONS)


cdef class CallTable:
    """Entries by the dtypes, devices, shapes and strides of operands, and by further arguments.

    Args:
        capsule: `__dlpack_c_exchange_api__` of the operands' type.
        entries: the dictionary that holds the entries. Clearing it empties the table.
    """

    cdef ExchangeTable* _table
    cdef dict _entries

    def __cinit__(self, capsule, dict entries):
        self._table = table_of(capsule)
        self._entries = entries

    def find(self, tuple operands, tuple words):
        """The entry of a call; None if there is none, and for a call that no entry can be stored for."""
        key = self._key(operands, words)
        return None if key is None else self._entries.get(key)

    def store(self, tuple operands, tuple words, entry):
        """Stores the entry of a call, unless an operand has no memory of its own, or an argument is not a string, an
        int, a tuple of ints or None: others equal one of these, such as True and 1.0.
        """
        key = self._key(operands, words)
        if key is not None:
            self._entries[key] = entry

    cdef _key(self, tuple operands, tuple words):
        cdef DLTensor tensor
        cdef int64_t numbers[MOST_NUMBERS]
        cdef int place = 0, depth
        if len(operands) > MOST_OPERANDS or not are_plain(words):
            return None
        for x in operands:
            if x is None:
                numbers[place] = -1
                place += 1
                continue
            if self._table.tensor_from_object(<void*>x, &tensor) != 0:
                PyErr_Clear()  # no memory of its own, or a kind that DLPack lacks
                return None
            if tensor.ndim > MOST_DIMENSIONS or (tensor.ndim > 0 and tensor.strides is NULL):
                return None
            numbers[place] = (<int64_t>tensor.dtype.code << 32) + (tensor.dtype.bits << 16) + tensor.dtype.lanes
            numbers[place + 1] = (<int64_t>tensor.device.kind << 32) + tensor.device.ordinal
            numbers[place + 2] = tensor.ndim
            place += HEAD
            for depth in range(tensor.ndim):
                numbers[place] = tensor.shape[depth]
                numbers[place + 1] = tensor.strides[depth]
                place += 2
        return PyBytes_FromStringAndSize(<char*>numbers, place * sizeof(int64_t)), words


cdef bint are_plain(tuple words) except -1:
    """True if no other values equal these ones."""
    for word in words:
        kind = type(word)
        if kind is tuple:
            for each in <tuple>word:
                if type(each) is not int:
                    return False
        elif kind is not str and kind is not int and word is not None:
            return False
    return True
