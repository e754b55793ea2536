"""Fourier transforms with the names and arguments of `torch.fft`. They run tuned plans if winners are stored.

All functions take `fallback` and `store` beside PyTorch's arguments, as `warpsmith.torch.conv2d` does. They have
gradients of any order, which are transforms of the other direction. Plans transform the last axis, or the last two, of
float32 and complex64 tensors. PyTorch computes other axes and dtypes, sizes with a prime factor above 31, and sizes
that fit no kernel.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.generator.fft import Kind, Norm
from warpsmith.generator.problem import member
from warpsmith.torch import integers
from warpsmith.torch.tensors import goes_direct, is_for_torch
from warpsmith.torch.transforms import cropped, transform
from warpsmith.torch.words import Fallback

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
    asked = _remembered(of_torch, kind, rank, x, s, dim, words) if direct else _asked(kind, rank, x, s, dim, words)
    if asked is None:
        return of_torch(x, s, dim, words[0])  # type: ignore[no-any-return]
    if kind is Kind.C2C and not x.is_complex():
        x = x.to(torch.complex64)
    size, valid, norm, *choice = asked
    return _batched(cropped(x, valid), size, valid, kind, False, norm, choice, direct)


def _inverse(kind: Kind, rank: int, of_torch: Any, x: Tensor, s: Any, dim: Any, *words: Any) -> Tensor:
    """Transforms a spectrum, which is first cropped or padded if it has another size."""
    direct = goes_direct(x)
    find = functools.partial(_remembered, of_torch) if direct else _asked
    asked = find(kind, rank, x, s, dim, words, True)
    if asked is None:
        return of_torch(x, s, dim, words[0])  # type: ignore[no-any-return]
    size, frequencies, norm, *choice = asked
    given = x.shape[-len(size) :]
    x = cropped(x, [min(part, whole) for part, whole in zip(given, frequencies, strict=True)])
    missing = [max(whole - part, 0) for part, whole in zip(given, frequencies, strict=True)]
    if any(missing):
        x = functional.pad(x, [n for each in reversed(missing) for n in (0, each)])
    return _batched(x, size, size, kind, True, norm, choice, direct)


Asked = tuple[tuple[int, ...], tuple[int, ...], str, str, str | None]
"""Points along each axis, elements along each axis of the input, norm, fallback and store."""

_ASKED: dict[Any, Asked | None] = {}
"""Cached requests, by the arguments of the call."""


def forget_calls() -> None:
    """Clears the cache of requests."""
    _ASKED.clear()


def _remembered(
    of_torch: Any, kind: Kind, rank: int, x: Tensor, s: Any, dim: Any, words: tuple[Any, ...], inverse: bool = False
) -> Asked | None:
    try:
        return _ASKED[of_torch, x.shape, x.dtype, integers.typed((s, dim, words))]
    except (KeyError, ValueError):  # ValueError: `marshal` does not know the type
        asked = _asked(kind, rank, x, s, dim, words, inverse)
    if all(map(integers.is_plain, (s, dim, *words))):
        _ASKED[of_torch, x.shape, x.dtype, integers.typed((s, dim, words))] = asked
    return asked


def _asked(
    kind: Kind, rank: int, x: Tensor, s: Any, dim: Any, words: tuple[Any, ...], inverse: bool = False
) -> Asked | None:
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
    one = integers.whole(dim)
    axes = integers.whole_numbers(dim) if rank > 1 else None if one is None else (one,)
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
        points = integers.whole(s)
        size = () if points is None else (points,)
    else:
        numbers = integers.whole_numbers(s)
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
