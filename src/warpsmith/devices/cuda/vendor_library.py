"""What NVIDIA's libraries have in common when they are called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from warpsmith.errors import DeviceError, LaunchError, OutOfMemory

ALLOC_FAILED = "ALLOC_FAILED"
"""The name that each of them gives the status of memory that was not to be had."""


def loaded_library(name: str, missing: str, signatures: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL:
    """A library of a wheel or of the toolkit, with the arguments of its functions, which all return a status.

    Raises LaunchError with the line `missing` where there is none.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (ImportError, OSError, RuntimeError):  # no cuda-bindings; none that loads; none that is found
        raise LaunchError(missing) from None
    for function_name, arguments in signatures.items():
        function = library[function_name]
        function.argtypes, function.restype = arguments, ctypes.c_int
        setattr(library, function_name, function)
    return library


def failure_of(
    title: str, doing: str, status: int, names: type[enum.IntEnum], refusals: Collection[enum.IntEnum]
) -> DeviceError:
    """What a status other than success means, to be raised.

    Args:
        title: the library, as people call it.
        doing: completes "cannot ...".
        status: what a function returned.
        names: the statuses that the library knows.
        refusals: those of them that are about what was asked for alone.

    Returns:
        LaunchError for a refusal, OutOfMemory, or DeviceError.
    """
    name = names(status).name if status in set(names) else f"status {status}"
    message = f"{title} cannot {doing}: {name.lower().replace('_', ' ')}"
    if name == ALLOC_FAILED:
        return OutOfMemory(message)
    return LaunchError(message) if status in refusals else DeviceError(message)


@contextlib.contextmanager
def outside_of_captures(doing: str) -> Iterator[None]:
    """`status.outside_of_captures`; what tells a version is imported where there is no driver's wheel either."""
    from warpsmith.devices.cuda import status

    with status.outside_of_captures(doing):
        yield
