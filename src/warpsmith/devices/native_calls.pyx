# cython: language_level=3, boundscheck=False, wraparound=False
"""The fast path of calls, and the launches of kernels, without the overhead of Python and PyTorch calls.

`native_tensors` reads and makes tensors. Kernels are launched by the driver's `cuLaunchKernelEx`, with arguments on this thread's stack.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from warpsmith.devices.native_tensors cimport CurrentStream, NewTensors, TensorReader

from warpsmith.devices import native_tensors as tensors
from warpsmith.devices.arrays import stream_handle
from warpsmith.devices.module import Allocation

cdef enum:
    MOST = 32
    SCRATCH_ALIGNMENT = 256  # ALIGNMENT of steps.py
    MOST_MAPS_ = 2
    MAP_BYTES = 128
    MAP_ALIGNMENT = 64
    OF_ADDRESS = 1  # ArgumentKind of native.py
    OF_MAP = 2
    BEGINS_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h

MOST_ARGUMENTS = MOST
"""Maximum number of arguments of a kernel, and of arrays of a call."""
MOST_MAPS = MOST_MAPS_
"""Maximum number of tensor maps of a kernel."""

cdef struct LaunchAttribute:  # CUlaunchAttribute of cuda.h
    int kind
    int padding
    int value[16]

cdef struct LaunchConfig:  # CUlaunchConfig of cuda.h
    unsigned int grid[3]
    unsigned int block[3]
    unsigned int shared_bytes
    void* stream
    LaunchAttribute* attributes
    unsigned int attribute_count

ctypedef int (*ReplaceAddress)(void* map, void* address) noexcept nogil
ctypedef int (*LaunchKernel)(LaunchConfig* config, void* function, void** arguments, void** extra) noexcept nogil

cdef struct Kernel:
    LaunchConfig config
    void* function
    int argument_count
    int kinds[MOST]
    int places[MOST]
    uint64_t offsets[MOST]
    int map_numbers[MOST]
    unsigned char maps[MOST_MAPS_][MAP_BYTES]
    LaunchAttribute early


cdef class FixedValues:
    """Returns the by-value operands of a program that takes none from its caller."""

    cdef tuple values

    def __cinit__(self, tuple values):
        self.values = values

    def __call__(self, tuple inputs):
        return self.values


cdef class ArrayValues:
    """Reads the only by-value operand from a NumPy array of the expected dtype and shape; else calls `otherwise`."""

    cdef Py_ssize_t _place
    cdef object _kind, _dtype, _otherwise
    cdef tuple _shape

    def __cinit__(self, place, kind, dtype, tuple shape, otherwise):
        self._place, self._kind, self._dtype, self._shape, self._otherwise = place, kind, dtype, shape, otherwise

    def __call__(self, tuple inputs):
        return self.read(inputs)

    cdef tuple read(self, tuple inputs):
        x = inputs[self._place]
        if type(x) is self._kind and x.dtype is self._dtype and x.shape == self._shape:
            return (x.tobytes(),)  # without a copy, a change in place would go unnoticed
        return (self._otherwise(x),)


cdef class KernelLauncher:
    """Launches the kernels of one program, in order, with the arguments of each call.

    Args:
        address: address of the driver's `cuLaunchKernelEx`.
        kernels: a `NativeKernel` for each launch.
        contents_of: makes the byte arguments of kernels from a call's values.
        scratch_bytes: bytes of workspace that each call passes after its arrays; 0 for none.
        replace: address of the driver's `cuTensorMapReplaceAddress`; 0 if no kernel takes tensor maps.
    """

    cdef LaunchKernel _launch_kernel
    cdef ReplaceAddress _replace
    cdef Kernel* _kernels
    cdef int _count
    cdef object _contents_of
    cdef tuple _last  # values of the latest call, and the byte arguments made from them
    cdef uint64_t scratch_bytes

    def __cinit__(self, address, kernels, contents_of, scratch_bytes, replace):
        self._launch_kernel = <LaunchKernel><uintptr_t>address
        self._replace = <ReplaceAddress><uintptr_t>replace
        self._contents_of, self._last = contents_of, (None, ())
        self._count, self.scratch_bytes = len(kernels), scratch_bytes
        self._kernels = <Kernel*>calloc(self._count, sizeof(Kernel))
        if self._kernels is NULL:
            raise MemoryError
        for number, each in enumerate(kernels):
            self._fill(&self._kernels[<int>number], each)

    def __dealloc__(self):
        free(self._kernels)

    def queue(self, tuple addresses, tuple values, stream, int first):
        """Queues the kernels from number `first` on.

        Returns None, or the driver's status and the number of the kernel that it refused.
        """
        cdef uint64_t words[MOST]
        cdef int status, number = first
        if len(addresses) > MOST:
            raise ValueError(f"{len(addresses)} addresses")
        for place in range(len(addresses)):
            words[place] = addresses[place]
        status = self.launch(words, values, <void*><uintptr_t>stream, &number)
        return None if status == 0 else (status, number)

    cdef _fill(self, Kernel* kernel, description):
        if len(description.arguments) > MOST:
            raise ValueError(f"a kernel of {len(description.arguments)} arguments")
        kernel.function = <void*><uintptr_t>description.function
        kernel.config.grid = description.grid
        kernel.config.block = description.block
        kernel.config.shared_bytes = description.shared_bytes
        if description.begins_early:
            kernel.early.kind, kernel.early.value[0] = BEGINS_EARLY, 1
            kernel.config.attributes, kernel.config.attribute_count = &kernel.early, 1
        kernel.argument_count = len(description.arguments)
        cdef int maps = 0
        for place, argument in enumerate(description.arguments):
            kernel.kinds[<int>place], kernel.places[<int>place] = argument.kind, argument.place
            kernel.offsets[<int>place] = argument.offset
            if argument.kind == OF_MAP:
                if maps == MOST_MAPS_ or len(argument.map) != MAP_BYTES:
                    raise ValueError(f"map {maps} of a kernel, of {len(argument.map)} bytes")
                kernel.map_numbers[<int>place] = maps
                memcpy(kernel.maps[maps], PyBytes_AS_STRING(argument.map), MAP_BYTES)
                maps += 1

    cdef int launch(self, uint64_t* addresses, tuple values, void* stream, int* next_kernel) except -1:
        """Queues the kernels from number `next_kernel[0]` on, which it counts up. Returns the first status of the
        driver that is no success, else 0.
        """
        cdef LaunchConfig config
        cdef void* arguments[MOST]
        cdef uint64_t words[MOST]
        cdef unsigned char room[MOST_MAPS_ * MAP_BYTES + MAP_ALIGNMENT]
        cdef unsigned char* aligned = room + (MAP_ALIGNMENT - <uintptr_t>room % MAP_ALIGNMENT)
        cdef unsigned char* moved
        cdef Kernel* kernel
        cdef int status, place
        cdef tuple contents, last = self._last  # a single read: another thread may replace the tuple
        if last[0] == values:
            contents = last[1]
        else:
            contents = self._contents_of(values)
            self._last = (values, contents)
        while next_kernel[0] < self._count:
            kernel = &self._kernels[next_kernel[0]]
            config = kernel.config
            config.stream = stream
            for place in range(kernel.argument_count):
                if kernel.kinds[place] != OF_ADDRESS and kernel.kinds[place] != OF_MAP:
                    arguments[place] = PyBytes_AS_STRING(contents[kernel.places[place]])
                    continue
                words[place] = addresses[kernel.places[place]] + kernel.offsets[place]
                arguments[place] = &words[place]
                if kernel.kinds[place] == OF_MAP:
                    moved = aligned + kernel.map_numbers[place] * MAP_BYTES
                    memcpy(moved, kernel.maps[kernel.map_numbers[place]], MAP_BYTES)
                    status = self._replace(moved, <void*>words[place])
                    if status != 0:
                        return status
                    arguments[place] = moved
            with nogil:  # the driver waits if its queue is full, perhaps for a host function that runs Python
                status = self._launch_kernel(&config, kernel.function, arguments, NULL)
            if status != 0:
                return status
            next_kernel[0] += 1
        return 0


cdef uint64_t address_of(reader, x) except? 0:
    return (<TensorReader>reader).address(x) if type(reader) is TensorReader else reader(x)


cdef class NativeCalls:
    """Calls of one plan with arrays of one library: reads them, launches, and returns the results."""

    cdef Py_ssize_t _count, _pointers, _results
    cdef tuple _readers, _readers_of_results, _empty, _states
    cdef Py_ssize_t _places[MOST]
    cdef uint64_t _spans[MOST]  # of the inputs that kernels point to, then of the results
    cdef bint _written[MOST]
    cdef object _values_of, _mark_written, _current_stream, _launch, _new_scratch
    cdef KernelLauncher _launcher
    cdef bint _on_host

    def __cinit__(self, access, count, pointed, results, launcher, launch):
        if len(pointed) + len(results) + 1 > MOST:  # plus a workspace
            raise ValueError(f"{len(pointed) + len(results)} arrays")
        self._count, self._pointers, self._results = count, len(pointed), len(results)
        for number, (place, _, span, is_written) in enumerate(pointed):
            self._places[<int>number], self._spans[<int>number] = place, span
            self._written[<int>number] = is_written
        for number, (_, span) in enumerate(results, len(pointed)):
            self._spans[<int>number], self._written[<int>number] = span, True
        self._readers = tuple([reader for _, reader, _, _ in pointed])
        self._readers_of_results = tuple([reader for reader, _ in results])
        self._states = tuple([place for place, _, _, is_written in pointed if is_written])
        self._values_of, self._empty = access.values_of, access.empty
        self._mark_written, self._current_stream = access.mark_written, access.current_stream
        self._launcher, self._launch, self._on_host = launcher, launch, access.on_host
        self._new_scratch = None
        if launcher is not None and access.memory is not None and (<KernelLauncher>launcher).scratch_bytes:
            self._new_scratch = access.memory((<KernelLauncher>launcher).scratch_bytes)

    def __call__(self, tuple inputs, out, stream, scratch=None):
        """See `fast_calls.FastCalls`."""
        return self._called(inputs, out, stream, scratch)

    def new(self, tuple inputs):
        """Calls with new results, and on a GPU with a workspace that the arrays' library allocates: other work reuses
        it after the call. None as for other calls, and if such a workspace cannot be passed on.
        """
        if self._launcher is None and not self._on_host:
            return None
        if self._new_scratch is None:
            return self._called(inputs, None, None, None)
        array, address = self._new_scratch()  # the array must outlive the call, so that no result lies in it
        return self._called(inputs, None, None, Allocation(address, self._launcher.scratch_bytes))

    cdef _called(self, tuple inputs, out, stream, scratch):
        cdef uint64_t addresses[MOST]
        cdef uint64_t address
        cdef Py_ssize_t number
        cdef int first = 0
        cdef tuple values, targets = None
        cdef void* handle = NULL
        if len(inputs) != self._count:
            return None
        chosen = None
        if type(self._current_stream) is CurrentStream:
            handle = (<CurrentStream>self._current_stream).handle()
        else:
            chosen = self._current_stream()
            handle = <void*><uintptr_t>(0 if chosen is None else chosen)
        if stream is not None and (stream_handle(stream) != <uintptr_t>handle):
            return None  # the launch must wait for the stream of the arrays' owner
        if type(self._values_of) is FixedValues:
            values = (<FixedValues>self._values_of).values
        elif type(self._values_of) is ArrayValues:
            values = (<ArrayValues>self._values_of).read(inputs)
        else:
            values = self._values_of(inputs)
        try:
            if out is not None:
                targets = self._targets(out)
                if targets is None:
                    return None
                for number in range(self._results):
                    address = address_of(self._readers_of_results[number], targets[number])
                    if address == 0:
                        return None
                    addresses[self._pointers + number] = address
            for number in range(self._pointers):
                address = address_of(self._readers[number], inputs[self._places[number]])
                if address == 0:
                    return None
                addresses[number] = address
            if not self._are_apart(addresses, self._pointers + (0 if targets is None else self._results)):
                return None
            self._mark(inputs, targets)
            if targets is None:
                out = self._made(addresses)
        except RuntimeError:
            return None
        # `_launch` retries a refused launch in the program's own context, or raises the error.
        if not self._finds_scratch(addresses, scratch) or self._launcher.launch(addresses, values, handle, &first) != 0:
            if chosen is None and type(self._current_stream) is CurrentStream:
                chosen = <uintptr_t>handle
            count = self._pointers + self._results
            self._launch(tuple([addresses[number] for number in range(count)]), values, chosen, scratch)
        return out

    cdef tuple _targets(self, out):
        """The caller's arrays for the results; None if their number is another one."""
        if self._results == 1:
            return (out,)
        return tuple(out) if isinstance(out, (tuple, list)) and len(out) == self._results else None

    cdef _made(self, uint64_t* addresses):
        """A new array, or a tuple of them, for the results."""
        cdef Py_ssize_t number
        cdef list made = []
        for number in range(self._results):
            make = self._empty[number]
            if type(make) is NewTensors:
                array = (<NewTensors>make).made(&addresses[self._pointers + number])
            else:
                array, address = make()
                addresses[self._pointers + number] = address
            made.append(array)
        return made[0] if self._results == 1 else tuple(made)

    cdef _mark(self, tuple inputs, tuple targets):
        """Tells the library which of the caller's arrays are written to."""
        cdef tuple marked = () if targets is None else targets
        if self._mark_written is None:
            return
        if self._states:
            marked = marked + tuple([inputs[place] for place in self._states])
        if marked:
            self._mark_written(marked)

    cdef bint _are_apart(self, uint64_t* addresses, Py_ssize_t count) noexcept:
        """True if no array that is written shares memory with another one of the first `count`."""
        cdef Py_ssize_t one, other
        for one in range(count):
            if not self._written[one]:
                continue
            for other in range(count):
                if other != one and addresses[other] < addresses[one] + self._spans[one]:
                    if addresses[one] < addresses[other] + self._spans[other]:
                        return False
        return True

    cdef bint _finds_scratch(self, uint64_t* addresses, scratch) except -1:
        """Sets the address of the call's workspace, if any. Returns True if the launcher has all that it needs."""
        cdef uint64_t address
        if self._launcher is None:
            return False
        if self._launcher.scratch_bytes == 0:
            return True
        if scratch is None:
            return False  # `_launch` provides the plan's own workspace
        address = scratch.address
        addresses[self._pointers + self._results] = address
        return address % SCRATCH_ALIGNMENT == 0 and <uint64_t>scratch.nbytes >= self._launcher.scratch_bytes
