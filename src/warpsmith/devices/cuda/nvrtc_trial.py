"""Tests NVRTC in a separate process, because a broken library may hang or crash the process that loads it.

`python -m warpsmith.devices.cuda.nvrtc_trial ARCH` prints one JSON object, `{"condition": ..., "told": ...}`.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys

from warpsmith.devices.cuda.compiler import NvrtcCompiler, nvrtc_name
from warpsmith.errors import CompileError
from warpsmith.generator.steps import Compilation

REMEDY = 'pip install "warpsmith[cuda]"'


def trial_kernel() -> Compilation:
    """A minimal kernel that every compiler must compile."""
    source = 'extern "C" __global__ void kernel(float* y) { y[threadIdx.x] = 1.0f; }\n'
    return Compilation(source)


def _tried(arch: str) -> tuple[str, str]:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        return "missing", f"cuda-bindings cannot be imported ({_first_line(error)}): {REMEDY}"
    bindings = _bindings()
    try:
        nvrtc.nvrtcVersion()
    except (OSError, RuntimeError) as error:  # no library, or a broken one; the error type depends on the release
        return "missing", f"{bindings} finds no NVRTC library that loads ({_first_line(error)}): {REMEDY}"
    try:
        image = NvrtcCompiler(arch).compile(trial_kernel()).image
    except (CompileError, OSError, RuntimeError) as error:
        return "broken", f"{nvrtc_name()} of {bindings} compiles no kernel for {arch}: {_first_line(error)}"
    if not image.startswith(b"\x7fELF"):
        return "broken", f"{nvrtc_name()} of {bindings} makes no machine code for {arch}"
    return "ok", f"{nvrtc_name()} ({bindings}), compiles for {arch}"


def _bindings() -> str:
    try:
        return f"cuda-bindings {importlib.metadata.version('cuda-bindings')}"
    except importlib.metadata.PackageNotFoundError:  # the modules without pip's metadata
        return "cuda-bindings"


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


if __name__ == "__main__":
    condition, told = _tried(sys.argv[1])
    print(json.dumps({"condition": condition, "told": told}))
