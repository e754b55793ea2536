"""Loads NVIDIA's libraries for ctypes and converts their statuses to errors."""

from __future__ import annotations

import contextlib
import ctypes
import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from warpsmith.errors import DeviceError, LaunchError, OutOfMemory

ALLOC_FAILED = "ALLOC_FAILED"
"""Name that each library gives the status of a failed allocation."""


def loaded_library(name: str, missing: str, signatures: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL:
    """Loads a library of a wheel or of the toolkit and declares its functions, which all return a status.

    Raises LaunchError with the line `missing` if there is none.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (ImportError, OSError, RuntimeError):  # no cuda-bindings, not found, or not loadable
        raise LaunchError(missing) from None
    for function_name, arguments in signatures.items():
        function = library[function_name]
        function.argtypes, function.restype = arguments, ctypes.c_int
        setattr(library, function_name, function)
    return library


def failure_of(
    title: str, doing: str, status: int, names: type[enum.IntEnum], refusals: Collection[enum.IntEnum]
) -> DeviceError:
    """The error for a status other than success, to be raised.

    Args:
        title: name of the library.
        doing: completes "cannot ...".
        status: what a function returned.
        names: the library's statuses.
        refusals: statuses that depend only on the request.

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
    """`status.outside_of_captures`, imported late, because `version` of a library must work without cuda-bindings."""
    from warpsmith.devices.cuda import status

    with status.outside_of_captures(doing):
        yield
