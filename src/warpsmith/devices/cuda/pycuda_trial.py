"""Tests PyCUDA's compiler in a separate process, because it loads the driver and has no time limit.

`python -m warpsmith.devices.cuda.pycuda_trial ARCH` prints one JSON object, `{"condition": ..., "told": ...}`.
"""

from __future__ import annotations

import json
import sys

from warpsmith.devices.cuda.nvrtc_trial import trial_kernel
from warpsmith.devices.cuda.pycuda_compiler import PyCudaCompiler
from warpsmith.errors import CompileError, one_line


def _tried(arch: str) -> tuple[str, str]:
    compiler = PyCudaCompiler(arch)
    try:
        name = compiler.name
    except (CompileError, OSError) as error:  # the message says what is missing and the remedy
        return "missing", _line(error)
    try:
        image = compiler.compile(trial_kernel()).image
    except (CompileError, OSError, RuntimeError) as error:
        return "broken", _line(error)
    if not image.startswith(b"\x7fELF"):
        return "broken", f"{name} makes no machine code for {arch}"
    return "ok", f"{name}, compiles for {arch}"


def _line(error: Exception) -> str:
    return one_line(error) or type(error).__name__


if __name__ == "__main__":
    condition, told = _tried(sys.argv[1])
    print(json.dumps({"condition": condition, "told": told}))
