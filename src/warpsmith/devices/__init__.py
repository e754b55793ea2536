"""Devices: compilers, memory, launches, clocks. Names are loaded when first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.devices.base import Allocation, Binary, BinaryKind, BoundLaunch, Compiler, Module, Runtime
    from warpsmith.devices.binary_cache import CachedCompiler
    from warpsmith.devices.select import CompilerChoice, DeviceRef, cuda_compiler, host_compiler

__all__ = [
    "Allocation",
    "Binary",
    "BinaryKind",
    "BoundLaunch",
    "CachedCompiler",
    "Compiler",
    "CompilerChoice",
    "DeviceRef",
    "Module",
    "Runtime",
    "cuda_compiler",
    "host_compiler",
]

_HOMES = {
    "CachedCompiler": "binary_cache",
    "CompilerChoice": "select",
    "DeviceRef": "select",
    "cuda_compiler": "select",
    "host_compiler": "select",
}
"""Which module a name comes from; `base` where it is not listed."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'base')}"), name)
