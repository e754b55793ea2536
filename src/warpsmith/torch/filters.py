"""Image filters with gradients, by tuned plans and by PyTorch's own operations."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.padding import Outside, warn_of_reflect
from warpsmith.generator.problem import member
from warpsmith.torch import arguments, bilinear
from warpsmith.torch.answers import Answer, CachedAnswer, new_cache
from warpsmith.torch.arguments import Fallback, LeftToTorch, Source
from warpsmith.torch.bilinear import register_flop_formulas
from warpsmith.torch.tensors import call, goes_direct, is_for_torch, usable_image

_ADJOINT = (Border.VALID, Border.CONSTANT, Border.WRAP)
"""Borders for which the gradient of the image is a filter too. For the others, one pixel's gradient adds values from
several places.
"""


class FilterLayer:
    """A filter of images of one shape, as `bilinear.Bilinear`: images (P, H, W), weights (F, R, S).

    Args:
        problem: the filter.
        source: device, fallback and store of the plans.
    """

    memory_format = torch.contiguous_format
    records_itself = False

    def __init__(self, problem: Filter2d, source: Source) -> None:
        self._problem, self._source = problem, source
        self._by_torch = Bordered(problem)
        self._answer = CachedAnswer(problem, source)
        adjoint = _adjoint(problem)
        self._adjoint = None if adjoint is None else CachedAnswer(adjoint, source)
        self._has_warned = False

    @functools.cached_property
    def linear(self) -> FilterLayer:
        """The same filter with zeros outside the image, if the border is another constant."""
        if not self._problem.cval:
            return self
        return FilterLayer(dataclasses.replace(self._problem, cval=0.0), self._source)

    @property
    def by_torch(self) -> Bordered:
        return self._by_torch

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:  # noqa: ARG002 - filters have no bias
        """The result, (P, F, rows, columns)."""
        problem = self._problem
        answer = self._answer.get()
        if answer.plan is None:
            self._warn(answer)
            return self._by_torch.forward(x, w)
        # `resize_` makes no view: autograd lets nothing change a custom function's result in place that is one.
        return _filtered(answer, x, w).resize_(problem.planes, problem.filters, *problem.output_shape)

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        """Computes the gradient of the image: by the filter rotated by 180 degrees if the border allows it, else by
        PyTorch.
        """
        problem = self._problem
        answer = None if self._adjoint is None else self._adjoint.get()
        if answer is None or answer.plan is None:
            return self._by_torch.input_gradient(dy, w)
        dy = dy[:, 0]
        if problem.border is Border.VALID:
            dy = torch.nn.functional.pad(dy, (0, problem.filter[1] - 1, 0, problem.filter[0] - 1))
        return _filtered(answer, dy, w).resize_(problem.planes, *problem.image)

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        """Computes the gradient of the weights, a correlation of the image with dy, by PyTorch."""
        return self._by_torch.weight_gradient(x, dy)

    def _warn(self, answer: Answer) -> None:
        if not self._has_warned:
            self._has_warned = True
            remedy = "tune it with warpsmith.tune, or take fallback='default'"
            text = f"PyTorch computes {self._problem.key()}: {answer.why_not}; {remedy}"
            warnings.warn(text, LeftToTorch, stacklevel=3)


def filter2d(
    image: Tensor,
    weights: Tensor,
    border: str = "valid",
    *,
    cval: float = 0.0,
    convolve: bool = False,
    anchor: tuple[int, int] | None = None,
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """Filters images as `warpsmith.Filter2d` does, with gradients of any order; `border` has SciPy's names and meaning.

    The gradient of the image runs a plan too if there is one filter and the border is `valid`, `constant` or `wrap`:
    the plan of the filter rotated by 180 degrees. PyTorch computes it for other borders and for banks. PyTorch always
    computes the gradient of the weights.

    Args:
        image: (..., rows, columns), float32.
        weights: (R, S), or (F, R, S) for a bank, float32. Up to 32 KB of them are passed as kernel parameters. Give
            them as a CPU tensor for images on a GPU: otherwise they are copied to the host, which waits, and which no
            graph can capture.
        border: how pixels outside the image are made, as for `warpsmith.Filter2d`. `reflect` repeats the pixel at the
            edge, as in SciPy, and gives the warning `warpsmith.AmbiguousBorder`; PyTorch's `reflect` is `mirror`.
        cval: the value outside the image, for `constant`.
        convolve: rotate the filter by 180 degrees.
        anchor: row and column of the tap that lies on the output pixel; None for (R//2, S//2).
        fallback: `default`, which runs a plan's default configuration if nothing is stored, or `torch`.
        store: as for `warpsmith.plan`.

    Returns:
        (..., rows, columns), or (..., F, rows, columns) for a bank, on the image's device; `valid` leaves R-1 rows and
        S-1 columns out.

    Raises:
        BadArgument: another dtype, device or dimension, or as for `warpsmith.Filter2d`.
    """
    _check(image, weights)
    planes = image.shape[:-2]
    bank = weights if weights.dim() == 3 else weights[None]
    words = _name_of(border), float(cval), bool(convolve), None if anchor is None else _anchor(anchor)
    choice = str(member(Fallback, fallback, "fallback")), store
    x = image.reshape(planes.numel(), *image.shape[-2:])
    if weights.requires_grad and weights.device != image.device:
        bank = bank.to(image.device)
    if goes_direct(image, weights):
        y = bilinear.forward(x, bank, None, _layer(x.shape, bank.shape, x, *words, *choice))
    else:
        y = _elsewhere(x, bank, words, choice)
    return y.reshape(*planes, *y.shape[1 if weights.dim() == 3 else 2 :])


def _elsewhere(x: Tensor, bank: Tensor, words: tuple[Any, ...], choice: tuple[Any, ...]) -> Tensor:
    if is_for_torch(x, bank):
        return Bordered(_problem(x.shape, bank.shape, *words)).forward(x, bank)
    register_flop_formulas()
    return FILTER2D.forward(x, bank, None, *words, *choice)  # type: ignore[no-any-return]


def _name_of(border: str) -> str:
    if not torch.compiler.is_compiling():  # Dynamo would trace the warning, and warn of its cache
        warn_of_reflect(border, Outside.SYMMETRIC)
    return str(Border.of(border))


def _check(image: Tensor, weights: Tensor) -> None:
    for name, x in (("image", image), ("weights", weights)):
        if x.dtype is not torch.float32:
            dtype = str(x.dtype).removeprefix("torch.")
            raise BadArgument(
                f"{name}: this operator takes float32, got {dtype}; a plan takes float16 and uint8 images"
            )
    if image.dim() < 2 or weights.dim() not in (2, 3):
        shapes = f"{tuple(image.shape)} and {tuple(weights.shape)}"
        raise BadArgument(f"filter2d takes an image (..., rows, columns) and weights (R, S) or (F, R, S); got {shapes}")
    if 0 in image.shape:
        raise BadArgument(f"image: has no elements, its shape is {tuple(image.shape)}")


def _anchor(anchor: Any) -> list[int]:
    numbers = arguments.integers(anchor)
    if numbers is None or len(numbers) != 2:
        raise BadArgument(f"anchor: takes the row and the column of a tap, two integers; got {anchor!r}")
    return list(numbers)


def _problem(
    size: Sequence[int], weights: Sequence[int], border: str, cval: float, convolve: bool, anchor: Sequence[int] | None
) -> Filter2d:
    (planes, rows, columns), (filters, r, s) = size, weights
    return Filter2d(
        image=(rows, columns),
        filter=(r, s),
        planes=planes,
        filters=filters,
        border=Border.of(border),
        cval=cval,
        convolve=convolve,
        anchor=None if anchor is None else (anchor[0], anchor[1]),
    )


def _adjoint(problem: Filter2d) -> Filter2d | None:
    """The filter that computes the gradient of the image; None if no filter does. The one for `valid` reads padded
    gradients.
    """
    if problem.filters > 1 or problem.border not in _ADJOINT:
        return None
    if problem.border is Border.VALID:
        (r, s), convolves = problem.filter, problem.convolve
        anchor = (r - 1, s - 1) if convolves else (0, 0)
        return dataclasses.replace(problem, border=Border.CONSTANT, convolve=not convolves, anchor=anchor)
    return dataclasses.replace(problem, cval=0.0, convolve=not problem.convolve)


def _filtered(answer: Answer, x: Tensor, w: Tensor) -> Tensor:
    plan = answer.plan
    assert plan is not None
    image, weights, _ = plan.problem.operands
    by_value = weights.name in plan.match.program.by_value
    given = w.detach().cpu() if by_value else usable_image(w.to(x.device))
    return call(plan, usable_image(x).view(image.shape), given.reshape(weights.shape))


_LAYERS: dict[Any, FilterLayer] = new_cache()


def _layer(size: Sequence[int], weights: Sequence[int], x: Tensor, *words: Any) -> FilterLayer:
    """The layer of a call, cached. The arguments after `x` are those of the operator."""
    border, cval, convolve, anchor, fallback, store = words
    numbers = border, cval, convolve, None if anchor is None else tuple(anchor)
    key = (size, weights, x.device, *numbers, fallback, store)
    found = _LAYERS.get(key)
    if found is None:
        source = Source.of(x.device, fallback, store)
        if source is None:
            raise BadArgument(f"filter2d computes on CUDA GPUs and the CPU; the image is on {x.device}")
        found = _LAYERS[key] = FilterLayer(_problem(size, weights, *numbers), source)
    return found


def _result_shape(size: Sequence[Any], weights: Sequence[Any], border: str, *_: Any) -> tuple[Any, ...]:
    (planes, rows, columns), (filters, r, s) = size, weights
    is_valid = Border(border) is Border.VALID
    return (planes, filters, rows - r + 1, columns - s + 1) if is_valid else (planes, filters, rows, columns)


def _linear(border: str, cval: float, *others: Any) -> tuple[Any, ...]:  # noqa: ARG001
    return border, 0.0, *others


FILTER2D = bilinear.Operators(
    "filter2d",
    "str border, float cval, bool convolve, SymInt[]? anchor, str fallback, str? store",
    _layer,
    _result_shape,
    _linear,
)
"""`warpsmith::filter2d` and its two gradients."""


_CONVOLUTION = (1, 1), (0, 0), (1, 1), False, (0, 0), 1
"""Stride, padding, dilation, transposed, output padding and groups of `aten.convolution`."""


class Bordered:
    """The three computations of a filter, for images (P, H, W), weights (F, R, S) and results (P, F, rows, columns).

    It is a `bilinear.Bilinear` whose operations record derivatives themselves.

    Args:
        problem: the filter.
    """

    memory_format = torch.contiguous_format
    records_itself = True

    def __init__(self, problem: Filter2d) -> None:
        self._problem = problem
        rows, columns = problem.image
        if problem.border in (Border.VALID, Border.CONSTANT):
            self._sources = None
            return
        self._sources = tuple(
            _sources(problem.border, size, before, taps)
            for size, before, taps in zip((rows, columns), problem.before, problem.filter, strict=True)
        )

    @property
    def linear(self) -> Bordered:
        """The same filter with zeros outside the image, if the border is another constant."""
        return Bordered(dataclasses.replace(self._problem, cval=0.0)) if self._problem.cval else self

    @property
    def by_torch(self) -> Bordered:
        return self

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:  # noqa: ARG002 - filters have no bias
        """Computes the filtered images."""
        w = w.to(x.device)
        padded, layer_weights = self._padded(x)[:, None], self._layer_weights(w)
        return torch.ops.aten.convolution(padded, layer_weights, None, *_CONVOLUTION)  # type: ignore[no-any-return]

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        """Computes the gradient of the image."""
        w = w.to(dy.device)
        x = dy.new_empty(1).expand(dy.shape[0], 1, *self._padded_size)
        back = torch.ops.aten.convolution_backward
        dx: Tensor = back(dy, x, self._layer_weights(w), None, *_CONVOLUTION, (True, False, False))[0][:, 0]
        (above, left), (rows, columns) = self._problem.before, self._problem.image
        if self._problem.border is Border.VALID:
            return dx.contiguous()
        if self._sources is None:
            return dx[:, above : above + rows, left : left + columns].contiguous()
        for axis, own in enumerate(self._sources, 1):
            shape = list(dx.shape)
            shape[axis] = self._problem.image[axis - 1]
            dx = dx.new_zeros(shape).index_add_(axis, torch.tensor(own, device=dx.device), dx)
        return dx

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        """Computes the gradient of the weights."""
        w = dy.new_empty(1).expand(dy.shape[1], 1, *self._problem.filter)
        back = torch.ops.aten.convolution_backward
        dw: Tensor = back(dy, self._padded(x)[:, None], w, None, *_CONVOLUTION, (False, True, False))[1]
        return self._layer_weights(dw[:, 0])[:, 0].contiguous()

    @property
    def _padded_size(self) -> tuple[int, int]:
        if self._problem.border is Border.VALID:
            return self._problem.image
        rows, columns = (n + taps - 1 for n, taps in zip(self._problem.image, self._problem.filter, strict=True))
        return rows, columns

    def _padded(self, x: Tensor) -> Tensor:
        if self._problem.border is Border.VALID:
            return x
        if self._sources is None:
            (above, left), (r, s) = self._problem.before, self._problem.filter
            pads = (left, s - 1 - left, above, r - 1 - above)
            return torch.nn.functional.pad(x, pads, value=self._problem.cval)
        for axis, own in enumerate(self._sources, 1):
            x = x.index_select(axis, torch.tensor(own, device=x.device))
        return x

    def _layer_weights(self, w: Tensor) -> Tensor:
        """Weights in the layout of a convolution layer, rotated by 180 degrees if the filter convolves. It is its own
        adjoint.
        """
        return (w.flip(-2, -1) if self._problem.convolve else w)[:, None]


def _sources(border: Border, size: int, before: int, taps: int) -> tuple[int, ...]:
    """Index of the image element at each position of a padded axis.

    Args:
        border: a border that repeats pixels of the image.
        size: elements of the axis.
        before: positions of padding in front of the image.
        taps: taps of the filter; the padding has taps - 1 positions in total.
    """
    return tuple(_source(border, size, place) for place in range(-before, size + taps - 1 - before))


def _source(border: Border, size: int, place: int) -> int:
    match border:
        case Border.WRAP:
            return place % size
        case Border.REFLECT:
            folded = place % (2 * size)
            return min(folded, 2 * size - 1 - folded)
        case Border.MIRROR:
            period = max(2 * (size - 1), 1)
            folded = place % period
            return min(folded, period - folded) if size > 1 else 0
        case _:
            return min(max(place, 0), size - 1)
