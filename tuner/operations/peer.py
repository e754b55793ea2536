"""Peer: another library that a winner is compared with, and PyTorch's and CuPy's settings and streams for peers."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Protocol

from numpy.typing import NDArray

from warpsmith.store.record import LeftOut


class Unavailable(Exception):
    """A library does not support a problem, or cannot run here; the message says why."""


class PeerRun(Protocol):
    """Runs a library once on its buffer set `index` without waiting for it.

    `stream` is the handle of the stream to use, which may be under capture; None is the default stream.
    """

    def __call__(self, index: int = 0, stream: int | None = None, /) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """One library, ready to run on its own dense inputs and outputs, in as many sets as it was made with."""

    name: str
    """Library, version, function."""
    run: PeerRun
    result: Callable[[], NDArray[Any] | Mapping[str, NDArray[Any]]]
    """Returns the output of the last run on set 0, or several by their operands' names."""
    renew: Callable[[], None] = lambda: None
    """Restores the inputs of all sets that runs have overwritten. It is called between timed runs and is not timed
    itself.
    """
    tolerance: float | None = None
    """Largest scaled error of a library whose arithmetic is coarser by design, as its name says; None for the usual
    bound.
    """


def first_line(error: BaseException) -> str:
    """Type of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@dataclasses.dataclass(frozen=True, slots=True)
class PeerMaker:
    """A library that may be installed, with the function that makes a `Peer` of it."""

    name: str
    """Name of the library, used if no peer gives its version."""
    packages: tuple[str, ...]
    """Packages of which one must be installed."""
    make: Callable[[], Peer]
    why_not: str | None = None
    """Reason to leave it out without trying it, such as the time that it would take; None if there is none."""

    def made(self) -> Peer | LeftOut:
        """The library, ready to run, or the reason why it is left out."""
        if self.why_not is not None:
            return LeftOut(self.name, self.why_not)
        if not any(find_spec(package) is not None for package in self.packages):
            return LeftOut(self.name, f"{' or '.join(self.packages)} is not installed")
        try:
            return self.make()
        except Unavailable as error:
            return LeftOut(self.name, str(error))
        except Exception as error:
            return LeftOut(self.name, f"failed: {first_line(error)}")


def torch_with_cudnn() -> Any:
    """The module `torch`, with cuDNN's TF32 off and its benchmark search on. Raises Unavailable if it finds no GPU."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def torch_stream(torch: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes PyTorch launch on another library's stream inside the block; None is the default stream."""
    if stream is None:
        return contextlib.nullcontext()
    entered: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(stream))
    return entered


def cupy_stream(cupy: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes CuPy launch on another library's stream inside the block; None is the default stream."""
    if stream is None:
        return contextlib.nullcontext()
    external: contextlib.AbstractContextManager[Any] = cupy.cuda.ExternalStream(stream)
    return external
