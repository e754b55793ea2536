"""Fourier transforms with the names and arguments of `torch.fft`. They run tuned plans if winners are stored.

All functions take `fallback` and `store` beside PyTorch's arguments, as `warpsmith.torch.conv2d` does. They have
gradients of any order, which are transforms of the other direction. Plans transform the last axis, or the last two, of
float32 and complex64 tensors. PyTorch computes other axes and dtypes, sizes with a prime factor above 31, and sizes
that fit no kernel.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft, Kind, Norm
from warpsmith.generator.problem import member
from warpsmith.torch import arguments
from warpsmith.torch.answers import CachedAnswer, new_cache
from warpsmith.torch.arguments import Fallback, LeftToTorch, Source
from warpsmith.torch.bilinear import LIBRARY, is_recorded
from warpsmith.torch.tensors import call, goes_direct, is_for_torch, is_transformed, usable

Sizes = Sequence[int] | None

_NORMS = frozenset(map(str, Norm))
_SIGNALS = {Kind.C2C: (torch.float32, torch.complex64), Kind.R2C: (torch.float32,)}
"""Element types of the input signal, by transform kind."""


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.fft`: complex to complex, along one axis. A real input is made complex first."""
    return _forward(Kind.C2C, 1, torch.fft.fft, input, n, dim, norm, fallback, store)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.ifft`: the inverse of `fft`."""
    return _inverse(Kind.C2C, 1, torch.fft.ifft, input, n, dim, norm, fallback, store)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.rfft`: real to half a spectrum, n // 2 + 1 frequencies, along one axis."""
    return _forward(Kind.R2C, 1, torch.fft.rfft, input, n, dim, norm, fallback, store)


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.irfft`: the inverse of `rfft`, with 2 (frequencies - 1) points if n is None."""
    return _inverse(Kind.C2R, 1, torch.fft.irfft, input, n, dim, norm, fallback, store)


def fft2(
    input: Tensor, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.fft2`: complex to complex, along two axes. A real input is made complex first."""
    return _forward(Kind.C2C, 2, torch.fft.fft2, input, s, dim, norm, fallback, store)


def ifft2(
    input: Tensor, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.ifft2`: the inverse of `fft2`."""
    return _inverse(Kind.C2C, 2, torch.fft.ifft2, input, s, dim, norm, fallback, store)


def rfft2(
    input: Tensor, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.rfft2`: real to half a spectrum, columns // 2 + 1 frequencies in a row, along two axes."""
    return _forward(Kind.R2C, 2, torch.fft.rfft2, input, s, dim, norm, fallback, store)


def irfft2(
    input: Tensor, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None,  # noqa: A002
    *, fallback: str = "torch", store: str | None = None,
) -> Tensor:  # fmt: skip
    """`torch.fft.irfft2`: the inverse of `rfft2`."""
    return _inverse(Kind.C2R, 2, torch.fft.irfft2, input, s, dim, norm, fallback, store)


def _forward(kind: Kind, rank: int, of_torch: Any, x: Tensor, s: Any, dim: Any, *words: Any) -> Tensor:
    """Transforms a signal. A signal that is too long is cropped first; the plan pads one that is too short."""
    direct = goes_direct(x)
    find = functools.partial(_cached_request, of_torch) if direct else _request
    request = find(kind, rank, x, s, dim, words)
    if request is None:
        return of_torch(x, s, dim, words[0])  # type: ignore[no-any-return]
    if kind is Kind.C2C and not x.is_complex():
        x = x.to(torch.complex64)
    size, valid, norm, *choice = request
    return _batched(cropped(x, valid), size, valid, kind, False, norm, choice, direct)


def _inverse(kind: Kind, rank: int, of_torch: Any, x: Tensor, s: Any, dim: Any, *words: Any) -> Tensor:
    """Transforms a spectrum, which is first cropped or padded if it has another size."""
    direct = goes_direct(x)
    find = functools.partial(_cached_request, of_torch) if direct else _request
    request = find(kind, rank, x, s, dim, words, True)
    if request is None:
        return of_torch(x, s, dim, words[0])  # type: ignore[no-any-return]
    size, frequencies, norm, *choice = request
    given = x.shape[-len(size) :]
    x = cropped(x, [min(part, whole) for part, whole in zip(given, frequencies, strict=True)])
    missing = [max(whole - part, 0) for part, whole in zip(given, frequencies, strict=True)]
    if any(missing):
        x = functional.pad(x, [n for each in reversed(missing) for n in (0, each)])
    return _batched(x, size, size, kind, True, norm, choice, direct)


Request = tuple[tuple[int, ...], tuple[int, ...], str, str, str | None]
"""Points along each axis, elements along each axis of the input, norm, fallback and store."""

_REQUESTS: dict[Any, Request | None] = new_cache()
"""Cached requests, by the arguments of the call."""


def _cached_request(
    of_torch: Any, kind: Kind, rank: int, x: Tensor, s: Any, dim: Any, words: tuple[Any, ...], inverse: bool = False
) -> Request | None:
    try:
        return _REQUESTS[of_torch, x.shape, x.dtype, arguments.typed_key((s, dim, words))]
    except (KeyError, ValueError):  # ValueError: `marshal` does not know the type
        request = _request(kind, rank, x, s, dim, words, inverse)
    if all(map(arguments.is_plain, (s, dim, *words))):
        _REQUESTS[of_torch, x.shape, x.dtype, arguments.typed_key((s, dim, words))] = request
    return request


def _request(
    kind: Kind, rank: int, x: Tensor, s: Any, dim: Any, words: tuple[Any, ...], inverse: bool = False
) -> Request | None:
    """The transform that a call requests; None if PyTorch transforms or refuses it.

    `rank` is that of the function: with 1, `s` and `dim` are numbers, and with 2 they are sequences.
    """
    choice, dtypes = _words(*words), (torch.complex64,) if inverse else _SIGNALS[kind]
    if choice is None or (not goes_direct(x) and is_for_torch(x)) or x.dtype not in dtypes:
        return None
    axes = _last_axes(x, dim, rank)
    if axes is None:
        return None
    given = x.shape[-axes:]
    size = _points(s, (*given[:-1], 2 * (given[-1] - 1)) if kind is Kind.C2R else given, rank)
    if size is None:
        return None
    if not inverse:
        return size, tuple(min(part, whole) for part, whole in zip(given, size, strict=True)), *choice
    return size, (*size[:-1], size[-1] // 2 + 1) if kind is Kind.C2R else size, *choice


def _last_axes(x: Tensor, dim: Any, rank: int) -> int | None:
    """Number of axes that `dim` names, one or two. None if they are not the last axes in order, and None for what
    PyTorch transforms or refuses: more axes, no axes, axes out of range, tensors without elements.
    """
    one = arguments.integer(dim)
    axes = arguments.integers(dim) if rank > 1 else None if one is None else (one,)
    if axes is None or not 1 <= len(axes) <= min(x.dim(), 2) or 0 in x.shape:
        return None
    last = range(-len(axes), 0)
    is_last = all(axis in (place, place + x.dim()) for axis, place in zip(axes, last, strict=True))
    return len(axes) if is_last else None


def _points(s: Any, given: Sequence[int], rank: int) -> tuple[int, ...] | None:
    """Points along each axis; None for what PyTorch refuses, and for an axis of one point.

    A -1 in a sequence means the input's size.
    """
    size: tuple[int, ...]
    if s is None:
        size = tuple(given)
    elif rank == 1:
        points = arguments.integer(s)
        size = () if points is None else (points,)
    else:
        numbers = arguments.integers(s)
        if numbers is None or len(numbers) != len(given):
            return None
        size = tuple(whole if points == -1 else points for points, whole in zip(numbers, given, strict=True))
    return size if size and min(size) > 1 else None


def _words(norm: Any, fallback: str, store: str | None) -> tuple[str, str, str | None] | None:
    """Norm, fallback and store as strings; None for a norm that PyTorch refuses. Raises BadArgument for an unknown
    fallback.
    """
    choice = str(member(Fallback, fallback, "fallback")), None if store is None else str(os.fspath(store))
    if norm is None:
        return "backward", *choice
    return (norm, *choice) if isinstance(norm, str) and norm in _NORMS else None


def _batched(
    x: Tensor,
    size: Sequence[int],
    valid: Sequence[int],
    kind: Kind,
    inverse: bool,
    norm: str,
    choice: Any,
    direct: bool,
) -> Tensor:
    """Transforms with all axes before the last ones merged into one batch axis."""
    outer = x.shape[: -len(size)]
    batch = x.reshape(-1, *x.shape[-len(size) :])
    result = transform(batch, size, valid, kind, inverse, norm, choice, direct)
    return result.reshape(*outer, *result.shape[1:])


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
        self._has_warned = False
        self._answer = None
        if source is None:
            return
        try:
            problem = Fft(
                size=self._size, batch=batch, kind=kind, inverse=inverse, valid=tuple(valid), norm=Norm(norm)
            )  # Fft refuses an empty batch and a single point
        except BadArgument:
            return
        self._answer = CachedAnswer(problem, source)

    def __call__(self, x: Tensor) -> Tensor:
        """Computes the result, without a gradient."""
        answer = None if self._answer is None else self._answer.get()
        if answer is not None and answer.plan is not None:
            return call(answer.plan, usable(x))
        if answer is not None and not self._has_warned:
            self._has_warned = True
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


_TRANSFORMS: dict[Any, Transform] = new_cache()


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
