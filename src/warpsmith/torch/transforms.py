"""Fourier transforms of one shape, by a plan or by PyTorch, and their adjoints, which are transforms too."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft, Kind, Norm
from warpsmith.torch.answers import HeldAnswer
from warpsmith.torch.bilinear import LIBRARY, is_recorded
from warpsmith.torch.tensors import call, goes_direct, is_transformed, usable
from warpsmith.torch.words import LeftToTorch, Source

ADJOINT_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""Norm under which the transform in the other direction has the same factor."""
_SINGLE = (torch.float32, torch.complex64)


class Transform:
    """A batch of transforms. Signals are (batch, *valid), spectra (batch, *frequencies).

    PyTorch computes shapes that no plan has.

    Args:
        source: device, fallback and store of the plans; None for tensors that no plan takes.
        size: points along each axis.
        valid: elements of the signal along each axis.
        kind: `r2c`, `c2r` or `c2c`.
        inverse: True for the inverse transform.
        norm: the direction that is scaled.
        batch: number of transforms.
    """

    def __init__(
        self, source: Source | None, size: Sequence[int], valid: Sequence[int], kind: Kind, inverse: bool, norm: str,
        batch: int,
    ) -> None:  # fmt: skip
        self._size, self._valid, self._kind, self._inverse, self._norm = tuple(size), valid, kind, inverse, norm
        self._told = False
        self._answer = None
        if source is None:
            return
        try:
            problem = Fft(
                size=self._size, batch=batch, kind=kind, inverse=inverse, valid=tuple(valid), norm=Norm(norm)
            )  # Fft refuses an empty batch and a single point
        except BadArgument:
            return
        self._answer = HeldAnswer(problem, source)

    def __call__(self, x: Tensor) -> Tensor:
        """Computes the result, without a gradient."""
        answer = None if self._answer is None else self._answer.get()
        if answer is not None and answer.plan is not None:
            return call(answer.plan, usable(x))
        if answer is not None and not self._told:
            self._told = True
            text = f"PyTorch computes {answer.problem.key()}: {answer.why_not}; tune it with warpsmith.tune"
            warnings.warn(text, LeftToTorch, stacklevel=2)
        return by_torch(x, self._size, self._valid, self._kind, self._inverse, self._norm).contiguous()


def by_torch(
    x: Tensor, size: Sequence[int], valid: Sequence[int], kind: Kind, inverse: bool, norm: str
) -> Tensor:  # fmt: skip
    """Computes the same as `transform`, by PyTorch's operations."""
    axes = tuple(range(-len(size), 0))
    if not inverse:
        forward: Any = torch.fft.rfftn if kind is Kind.R2C else torch.fft.fftn
        return forward(x, tuple(size), axes, norm)  # type: ignore[no-any-return]
    back: Any = torch.fft.ifftn if kind is Kind.C2C else torch.fft.irfftn
    return cropped(back(x, tuple(size), axes, norm), valid)


def cropped(x: Tensor, size: Sequence[int]) -> Tensor:
    """The first `size` elements of the last axes."""
    for axis, points in enumerate(size, x.dim() - len(size)):
        x = x if x.shape[axis] == points else x.narrow(axis, 0, points)
    return x


def transform(
    x: Tensor, size: Sequence[int], valid: Sequence[int], kind: Kind, inverse: bool, norm: str, choice: Sequence[Any],
    direct: bool | None = None,
) -> Tensor:  # fmt: skip
    """Computes a batch of transforms of x, (batch, ...), with derivatives of any order, in reverse and forward mode.

    Args:
        x: signals if the direction is forward, spectra otherwise.
        size: points along each axis.
        valid: elements of the signal. A forward transform pads it with zeros, and an inverse one crops its result to
            it.
        kind: `r2c`, `c2r` or `c2c`.
        inverse: True for the inverse transform.
        norm: the direction that is scaled.
        choice: fallback and store.
        direct: whether the call needs no dispatcher; None if that is not known yet.
    """
    words = list(size), list(valid), str(kind), inverse, norm, *choice
    if not (goes_direct(x) if direct is None else direct):
        return _TRANSFORM(x, *words)  # type: ignore[no-any-return]
    if is_recorded(x):
        return _Transformed.apply(x, words)  # type: ignore[no-any-return, no-untyped-call]
    return _found(x, *words)(x)


def _derived(
    x: Tensor, size: Sequence[int], valid: Sequence[int], kind: Kind, inverse: bool, norm: str, choice: Sequence[Any]
) -> Tensor:
    """Computes `transform` of a tangent or a gradient. PyTorch does it inside function transforms such as `vmap`."""
    if is_transformed():
        return by_torch(x, size, valid, kind, inverse, norm)
    return transform(x, size, valid, kind, inverse, norm, choice)


def adjoint(gradient: Tensor, words: Sequence[Any]) -> Tensor:
    """Gradient of a transform's operand, from the gradient of its result and the transform's arguments.

    A half spectrum holds each inner column once, where the whole spectrum has two. So the gradient of a signal takes
    half of the inner columns' gradients. The gradient of a half spectrum is twice the transform of the signal's
    gradient there.
    """
    size, valid, kind, inverse, norm, *choice = words
    if kind == Kind.R2C:
        gradient = _half_of_hermitian(gradient, size)
    other = {Kind.R2C: Kind.C2R, Kind.C2R: Kind.R2C, Kind.C2C: Kind.C2C}[Kind(kind)]
    result = _derived(gradient, size, valid, other, not inverse, ADJOINT_NORM[norm], choice)
    if kind != Kind.C2R:
        return result
    first, inner, last = _columns(result, size)
    return torch.cat([first, 2 * inner, last], -1)


def _half_of_hermitian(spectrum: Tensor, size: Sequence[int]) -> Tensor:
    """Half of the Hermitian part of a whole spectrum, which is `spectrum` continued with zeros. Its inverse transform
    is real.

    Columns that are their own mirror image become Hermitian, because libraries differ in how they treat such columns if
    they are not.
    """
    first, inner, last = _columns(spectrum, size)
    return torch.cat([_hermitian(first, size), inner / 2, _hermitian(last, size)], -1)


def _columns(spectrum: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The first column, the inner ones, and the last one. The last is its own mirror image for an even size, and empty
    for an odd one.
    """
    stop = (size[-1] + 1) // 2
    return spectrum[..., :1], spectrum[..., 1:stop], spectrum[..., stop:]


def _hermitian(columns: Tensor, size: Sequence[int]) -> Tensor:
    """Mean of each element and the conjugate of its mirror image, along all axes but the last."""
    axes = tuple(range(-len(size), -1))
    mirrored = columns.flip(axes).roll((1,) * len(axes), axes) if axes else columns
    return (columns + mirrored.conj()) / 2


class _Transformed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, words: Sequence[Any]) -> Tensor:
        ctx.words = words
        return _found(x, *words)(x)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        size, valid, kind, inverse, norm, *choice = ctx.words
        return _derived(tangents[0], size, valid, Kind(kind), inverse, norm, choice)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return adjoint(gradients[0], ctx.words), None


_TRANSFORMS: dict[Any, Transform] = {}


def forget_transforms() -> None:
    """Drops all cached transforms."""
    _TRANSFORMS.clear()


os.register_at_fork(after_in_child=forget_transforms)


def _found(x: Tensor, size: Sequence[int], valid: Sequence[int], *words: Any) -> Transform:
    kind, inverse, norm, fallback, store = words
    key = (tuple(size), tuple(valid), x.shape[0], x.dtype, x.device, *words)
    found = _TRANSFORMS.get(key)
    if found is None:
        source = Source.of(x.device, fallback, store) if x.dtype in _SINGLE else None
        found = _TRANSFORMS[key] = Transform(source, size, valid, Kind(kind), inverse, norm, x.shape[0])
    return found


def _define() -> Any:
    """Defines the operator `warpsmith::fft`, its gradient and its fake implementation for tracing."""
    words = "SymInt[] size, SymInt[] valid, str kind, bool inverse, str norm, str fallback, str? store"
    LIBRARY.define(f"fft(Tensor x, {words}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    operator = torch.ops.warpsmith.fft.default

    def run(x: Tensor, *words: Any) -> Tensor:
        return _found(x, *words)(x)

    def shaped(x: Tensor, size: Sequence[Any], valid: Sequence[Any], kind: str, inverse: bool, *_: Any) -> Tensor:
        dtype = x.dtype.to_complex() if kind == Kind.R2C else x.dtype.to_real() if kind == Kind.C2R else x.dtype
        half = (*size[:-1], size[-1] // 2 + 1)
        shape = valid if inverse else half if kind == Kind.R2C else size
        return x.new_empty((x.shape[0], *shape), dtype=dtype)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
        ctx.words = inputs[1:]

    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return adjoint(gradient, ctx.words), *(None for _ in ctx.words)

    LIBRARY.impl("fft", run, "CompositeExplicitAutograd")
    torch.library.register_fake("warpsmith::fft", shaped, lib=LIBRARY)
    torch.library.register_autograd("warpsmith::fft", backward, setup_context=keep, lib=LIBRARY)
    return operator


_TRANSFORM = _define()
