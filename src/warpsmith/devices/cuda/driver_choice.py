"""Chooses the library that provides GPU contexts, memory and events."""

from __future__ import annotations

import enum
import os

from warpsmith.errors import BadArgument

ENVIRONMENT_VARIABLE = "WARPSMITH_DRIVER"


class DriverChoice(enum.StrEnum):
    """The library between this package and the CUDA driver, for contexts, memory and events.

    Modules, launches and graphs use cuda-bindings in either case, because PyCUDA 2026.1 launches only on streams that
    it made itself.
    """

    BINDINGS = "bindings"
    """NVIDIA's own cuda-bindings: a wheel, of the extra `cuda`."""
    PYCUDA = "pycuda"
    """PyCUDA, of the extra `pycuda`. Results for callers without an array library are then GPUArrays."""


def chosen_driver() -> DriverChoice:
    """The driver that WARPSMITH_DRIVER names, else BINDINGS. Raises BadArgument for another name."""
    name = os.environ.get(ENVIRONMENT_VARIABLE) or DriverChoice.BINDINGS
    try:
        return DriverChoice(name)
    except ValueError:
        raise BadArgument(f"{ENVIRONMENT_VARIABLE} is {name!r}; choose one of {', '.join(DriverChoice)}") from None
