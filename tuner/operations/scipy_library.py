"""SciPy, and CuPy with the same interface, as libraries of peers."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.tuner.operations.peer import cupy_stream


@dataclasses.dataclass(frozen=True, slots=True)
class ScipyLibrary:
    """A module of SciPy or of `cupyx.scipy`, and the array library that it works on."""

    name: str
    """Library name with its version."""
    functions: Any
    """The module: `ndimage` or `signal`."""
    arrays: Any
    """Array module with NumPy's interface."""
    to_host: Callable[[Any], NDArray[Any]]
    stream: Callable[[int | None], contextlib.AbstractContextManager[Any]]
    """Makes the work inside the block run on a stream; None is the default one."""


def scipy_signal() -> ScipyLibrary:
    """SciPy's `signal`, on the host."""
    signal = importlib.import_module("scipy.signal")
    return ScipyLibrary(f"scipy {version('scipy')}", signal, np, np.asarray, lambda _: contextlib.nullcontext())


def cupy_signal() -> ScipyLibrary:
    """CuPy's `signal`, on a GPU."""
    cupy, signal = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.signal")
    return ScipyLibrary(
        f"cupy {cupy.__version__}", signal, cupy, cupy.asnumpy, lambda stream: cupy_stream(cupy, stream)
    )
