# cython: language_level=3, boundscheck=False, wraparound=False
"""Calls of convolutions by compiled code, if a call of the same kind was made before: operands that lie alike, and
equal further arguments. A look-up finds the layer, and a few conditions decide that its plans compute the call.

Everything unusual is left to the code in Python, which computes the same. Backward passes run on a thread of PyTorch's,
whose core finds nothing in its cache: what they touch counts more than what they compute.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int64_t

from warpsmith.devices.dlpack cimport DLPACK_CPU, DLPACK_CUDA, MOST_DIMENSIONS, DLTensor, ExchangeTable, table_of

from torch import Tensor, channels_last, get_autocast_dtype, is_autocast_enabled, is_grad_enabled
from torch._C import _are_functorch_transforms_active as transforms
from torch._C import _dispatch_tls_is_dispatch_key_included as included
from torch._C import _get_tracing_state as tracing
from torch._C import _is_any_autocast_enabled as casts
from torch._C import _len_torch_dispatch_stack as modes
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch.bilinear import Forward, InputGradient
from warpsmith.torch.layer_spec import cast
from warpsmith.torch.tensors import VMAP

cdef enum:
    MOST_OPERANDS = 3
    HEAD = 3  # numbers of an operand before its shape
    MOST_NUMBERS = MOST_OPERANDS * (HEAD + 2 * MOST_DIMENSIONS)

cdef tuple NOT_CHANNELS = (0, 2, 3)


cdef class PlannedPass:
    """A pass of a layer, by the plan that is stored for it.

    Args:
        plan_of: finds the plan; None if PyTorch computes the pass, or a part of it.
    """

    cdef object _plan_of, _fast
    cdef int64_t _writes

    def __cinit__(self, plan_of):
        self._plan_of, self._writes = plan_of, -1

    cdef run(self, tuple operands):
        """The result; None if no plan computes the pass, or if the plan cannot take these operands as they lie."""
        cdef int64_t writes = OWN_WRITES.count  # read before the look-up: a write during it is seen at the next call
        if self._writes != writes:
            plan = self._plan_of()
            self._fast = None if plan is None else plan.fast
            self._writes = writes
        fast = self._fast
        if fast is not None:
            fast = (<dict>fast).get(Tensor)
        return None if fast is None else fast.new(operands)


cdef class DirectCall:
    """Calls of a convolution whose operands have the same dtypes each time.

    Args:
        layer: a `layers.ConvLayer`.
        forward, input_gradient, weight_gradient: find the plan of each pass, as for `PlannedPass`.
        are_planned: finds whether a plan computes a pass that is needed if both x and w require a gradient, or x alone,
            or w alone, or neither.
        is_cast: whether operands must be cast to the layer's dtype.
        is_transposed: whether the call is that of a transposed convolution, whose result is the gradient of the layer's
            image. A separate step adds its bias.
    """

    cdef object _layer, _are_planned
    cdef PlannedPass _forward, _input_gradient, _weight_gradient
    cdef tuple _planned
    cdef int64_t _writes
    cdef bint _is_cast, _is_transposed, _is_last

    def __cinit__(self, layer, forward, input_gradient, weight_gradient, are_planned, is_cast, is_transposed):
        self._layer, self._are_planned, self._writes = layer, are_planned, -1
        self._forward, self._input_gradient = PlannedPass(forward), PlannedPass(input_gradient)
        self._weight_gradient = PlannedPass(weight_gradient)
        self._is_cast, self._is_transposed = is_cast, is_transposed
        self._is_last = layer.memory_format is channels_last

    cdef result(self, x, w, b):
        """Computes the result, and records its gradients if they may be needed; None if PyTorch computes the layer."""
        cdef bint for_x = False, for_w = False, for_b = False
        cdef int64_t writes = OWN_WRITES.count
        if self._writes != writes:
            self._planned = self._are_planned()
            self._writes = writes
        if is_grad_enabled():
            for_x, for_w = x.requires_grad, w.requires_grad
            for_b = b is not None and b.requires_grad
        if not self._planned[(0 if for_w else 1) if for_x else (2 if for_w else 3)]:
            return None
        if self._is_cast:
            x, w, b = cast(self._layer.dtype, x, w, b)
        if self._is_transposed:
            y = record_transposed(x, w, self) if for_x or for_w else self.image(x, w)
            return y if b is None else y + b.view(-1, 1, 1)
        return record(x, w, b, self) if for_x or for_w or for_b else self.computed(x, w, b)

    cdef computed(self, x, w, b):
        result = self._forward.run((x, w) if b is None else (x, w, b))
        return self._layer.forward(x, w, b) if result is None else result

    cdef image(self, dy, w):
        """The gradient of the layer's image."""
        result = self._input_gradient.run((dy, w))
        return self._layer.input_gradient(dy, w) if result is None else result

    cdef weights(self, x, dy):
        """The gradient of the weights."""
        result = self._weight_gradient.run((x, dy))
        return self._layer.weight_gradient(x, dy) if result is None else result

    cdef gradients(self, ctx, g):
        """Gradients of all arguments of a recorded call, None for each one that is not needed."""
        cdef tuple needed = ctx.needs_input_grad
        cdef bint for_x = needed[0], for_w = needed[1]
        if is_grad_enabled() or forward_ad._current_level >= 0 or modes() or transforms() or included(VMAP):
            return (InputGradient if self._is_transposed else Forward).backward(ctx, g)
        x, w = ctx.saved_tensors
        if for_x or for_w:
            g = g.contiguous(memory_format=channels_last) if self._is_last else g.contiguous()
        dx = dw = None
        if self._is_transposed:
            if for_x:
                dx = self.computed(g, w, None)
            return dx, self.weights(g, x) if for_w else None, None
        dx = self.image(g, w) if for_x else None
        dw = self.weights(x, g) if for_w else None
        return dx, dw, g.sum(NOT_CHANNELS) if needed[2] else None, None


class Recorded(Function):
    """A call outside of forward mode and of function transforms, with its gradients.

    Tools that trace a backward pass see the one in Python. The engine calls `gradients_of_call`, since
    `BackwardCFunction.apply` looks for the function at each call, in two calls of Python code.
    """

    @staticmethod
    def forward(ctx, x, w, b, DirectCall call):
        keep(ctx, x, w, call)
        return call.computed(x, w, b)

    backward = staticmethod(Forward.backward)


class RecordedTransposed(Function):
    """The same for a transposed convolution, without its bias."""

    @staticmethod
    def forward(ctx, dy, w, DirectCall call):
        keep(ctx, dy, w, call)
        return call.image(dy, w)

    backward = staticmethod(InputGradient.backward)


cdef keep(ctx, x, w, DirectCall call):
    cdef tuple needed = ctx.needs_input_grad
    ctx.save_for_backward(x if needed[1] else None, w if needed[0] else None)
    ctx.call, ctx.layer = call, call._layer


def gradients_of_call(ctx, g):
    return (<DirectCall>ctx.call).gradients(ctx, g)


Recorded._backward_cls.apply = RecordedTransposed._backward_cls.apply = gradients_of_call
# `Function.apply` looks for function transforms, and for remains of them: 2.5 us of 8 on a Xeon.
record, record_transposed = super(Function, Recorded).apply, super(Function, RecordedTransposed).apply


cdef class CallTable:
    """Calls by the dtypes, devices, shapes and strides of operands, and by further arguments.

    Args:
        entries: the dictionary that holds the calls. Clearing it empties the table.
        make: makes the `DirectCall` of a layer, with a bias or without.
    """

    cdef ExchangeTable* _table
    cdef dict _entries
    cdef object _make

    def __cinit__(self, dict entries, make):
        self._table = table_of(Tensor.__dlpack_c_exchange_api__)
        self._entries, self._make = entries, make

    def result(self, x, w, b, tuple words):
        """Computes the result, and records its gradients if they may be needed; None for a call that must be looked up,
        and if PyTorch computes the layer.
        """
        if tracing() is not None or modes() or transforms() or forward_ad._current_level >= 0:
            return None
        key = self._key(x, w, b, words)
        call = None if key is None else self._entries.get(key)
        return None if call is None else (<DirectCall>call).result(x, w, b)

    def store(self, x, w, b, tuple words, layer):
        """Stores a call, unless an operand has no memory of its own, or an argument is not a string, an int, a tuple of
        ints or None: others equal one of these, such as True and 1.0.
        """
        key = self._key(x, w, b, words)
        if key is not None and key not in self._entries:
            is_cast = any([each is not None and each.dtype is not layer.dtype for each in (x, w, b)])
            self._entries[key] = self._make(layer, b is not None, is_cast)

    cdef _key(self, x, w, b, tuple words):
        cdef int64_t numbers[MOST_NUMBERS]
        cdef int count = 0, own, place
        if not are_plain(words):
            return None
        for place in range(MOST_OPERANDS):
            operand = x if place == 0 else w if place == 1 else b
            if operand is None:
                break
            own = self._describe(operand, &numbers[count])
            if own == 0:
                return None
            count += own
        described = PyBytes_FromStringAndSize(<char*>numbers, count * sizeof(int64_t))
        return (described, words, cast_of(numbers[1] >> 32)) if casts() else (described, words)

    cdef int _describe(self, x, int64_t* numbers):
        """Writes down how a tensor lies. Returns how many numbers that took, 0 for anything but a plain tensor."""
        cdef DLTensor tensor
        cdef int depth
        if type(x) is not Tensor and type(x) is not Parameter:
            return 0
        if self._table.tensor_from_object(<void*>x, &tensor) != 0:
            PyErr_Clear()  # no memory of its own, or a kind that DLPack lacks
            return 0
        if tensor.ndim > MOST_DIMENSIONS or (tensor.ndim > 0 and tensor.strides is NULL):
            return 0
        numbers[0] = (<int64_t>tensor.dtype.code << 32) + (tensor.dtype.bits << 16) + tensor.dtype.lanes
        numbers[1] = (<int64_t>tensor.device.kind << 32) + tensor.device.ordinal
        numbers[2] = tensor.ndim
        for depth in range(tensor.ndim):
            numbers[HEAD + 2 * depth] = tensor.shape[depth]
            numbers[HEAD + 2 * depth + 1] = tensor.strides[depth]
        return HEAD + 2 * tensor.ndim


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


cdef cast_of(int64_t kind):
    """The dtype of autocast on a kind of device; None if it is off there."""
    if kind != DLPACK_CPU and kind != DLPACK_CUDA:
        return None
    name = "cpu" if kind == DLPACK_CPU else "cuda"
    return get_autocast_dtype(name) if is_autocast_enabled(name) else None
