"""Tests the compilers of this machine: finds each one, asks for its version and compiles a kernel.

NVRTC and PyCUDA are tested in processes of their own: a broken library may hang or crash the process that loads it, and
PyCUDA loads the driver and has no time limit. `python -m warpsmith.devices.compiler_report nvrtc|pycuda ARCH` prints
one JSON object, `{"condition": ..., "message": ...}`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import shutil
import sys
import time
from pathlib import Path

from warpsmith.devices.cuda.compiler import (
    NvccCompiler,
    NvrtcCompiler,
    bindings_name,
    find_nvcc,
    first_line,
    nvrtc_name,
    why_no_nvrtc,
)
from warpsmith.devices.cuda.pycuda_compiler import PyCudaCompiler
from warpsmith.devices.host.compiler import HostCompiler, find_compiler
from warpsmith.devices.host.toolchain import CompilerTimeout, run_compiler
from warpsmith.errors import CompileError, one_line
from warpsmith.extras import Extra, missing
from warpsmith.generator.steps import Compilation

TRIAL = Compilation('extern "C" __global__ void kernel(float* y) { y[threadIdx.x] = 1.0f; }\n')
"""A minimal kernel that every compiler must compile."""
TRIAL_S = 60.0
"""Seconds that one trial may take: nvcc takes 2 s, and ten times that on a busy machine."""


class Condition(enum.StrEnum):
    """Result of testing a compiler."""

    OK = "ok"
    """It compiled a kernel to machine code."""
    MISSING = "missing"
    """It is not installed; the report names the remedy."""
    BROKEN = "broken"
    """It is installed but does not work; the report has the first line of its error."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompilerReport:
    """Result of testing one compiler, in one line."""

    condition: Condition
    message: str


def report_on_host_compiler(timeout_s: float = TRIAL_S) -> CompilerReport:
    """Tests the C++ compiler that the host device would use. `timeout_s` bounds each of its runs, in seconds."""
    try:
        path = find_compiler()
    except CompileError as error:
        return CompilerReport(Condition.MISSING, str(error))
    began = time.monotonic()
    try:
        binary = HostCompiler(path, timeout_s=timeout_s).compile(TRIAL)
    except (CompileError, OSError) as error:
        return CompilerReport(Condition.BROKEN, f"{path}: {_line(error)}")
    return CompilerReport(Condition.OK, f"{binary.compiler} at {path}, compiles in {time.monotonic() - began:.1f} s")


def report_on_nvcc(arch: str, timeout_s: float = TRIAL_S) -> CompilerReport:
    """Tests the nvcc that would be used, for an architecture such as `sm_90`. No GPU is needed."""
    home, on_path = os.environ.get("CUDA_HOME"), shutil.which("nvcc")
    try:
        path = find_nvcc()
    except CompileError as error:
        if home and on_path:
            message = f"CUDA_HOME is {home}, which has no bin/nvcc, but {on_path} is on the path: unset CUDA_HOME"
            return CompilerReport(Condition.MISSING, message)
        return CompilerReport(Condition.MISSING, f"{_line(error)}{f' (now {home})' if home else ''}")
    origin = "of CUDA_HOME" if home else "on the path" if path == on_path else "off the path"
    other = f"; not {on_path}, which is on the path" if on_path and not _same(on_path, path) else ""
    began = time.monotonic()
    try:
        binary = NvccCompiler(arch, executable=path, timeout_s=timeout_s).compile(TRIAL)
    except (CompileError, OSError) as error:
        return CompilerReport(Condition.BROKEN, f"{path} ({origin}{other}): {_line(error)}")
    where = f"{binary.compiler} at {path} ({origin}{other})"
    if not binary.image.startswith(b"\x7fELF"):
        return CompilerReport(Condition.BROKEN, f"{where} makes no machine code for {arch}")
    return CompilerReport(Condition.OK, f"{where}, compiles for {arch} in {time.monotonic() - began:.1f} s")


def report_on_nvrtc(arch: str, timeout_s: float = TRIAL_S) -> CompilerReport:
    """Tests NVRTC for an architecture such as `sm_90`, in a separate process. No GPU is needed."""
    return _tried_apart("NVRTC", arch, timeout_s)


def report_on_pycuda(arch: str, timeout_s: float = TRIAL_S) -> CompilerReport | None:
    """Tests PyCUDA's compiler for an architecture such as `sm_90`, in a separate process; None without PyCUDA."""
    if missing(Extra.PYCUDA) is not None:
        return None
    return _tried_apart("PyCUDA", arch, timeout_s)


def _tried_apart(name: str, arch: str, timeout_s: float) -> CompilerReport:
    """Runs this module in another process, which tests the compiler `name`, and reads its report."""
    # -P keeps a user's folder with a module of the same name from being imported first.
    command = [sys.executable, "-P", "-m", "warpsmith.devices.compiler_report", name.lower(), arch]
    try:
        status, output, errors = run_compiler(command, "", timeout_s)
    except CompilerTimeout:
        return CompilerReport(Condition.BROKEN, f"{name} did not compile a kernel for {arch} within {timeout_s:g} s")
    except CompileError as error:
        return CompilerReport(Condition.BROKEN, _line(error))
    try:
        answer = json.loads(output)
        return CompilerReport(Condition(answer["condition"]), answer["message"])
    except (ValueError, LookupError, TypeError):
        last = (errors.strip() or "no message").splitlines()[-1]
        ended = f"signal {-status}" if status < 0 else f"status {status}"
        return CompilerReport(Condition.BROKEN, f"the process that tried {name} ended with {ended}: {last}")


def _same(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


def _line(error: Exception) -> str:
    return one_line(error) or type(error).__name__


def _nvrtc_tried(arch: str) -> CompilerReport:
    if (reason := why_no_nvrtc()) is not None:
        return CompilerReport(Condition.MISSING, f'{reason}: pip install "warpsmith[cuda]"')
    try:
        image = NvrtcCompiler(arch).compile(TRIAL).image
    except (CompileError, OSError, RuntimeError) as error:
        message = f"{nvrtc_name()} of {bindings_name()} compiles no kernel for {arch}: {first_line(error)}"
        return CompilerReport(Condition.BROKEN, message)
    if not image.startswith(b"\x7fELF"):
        return CompilerReport(Condition.BROKEN, f"{nvrtc_name()} of {bindings_name()} makes no machine code for {arch}")
    return CompilerReport(Condition.OK, f"{nvrtc_name()} ({bindings_name()}), compiles for {arch}")


def _pycuda_tried(arch: str) -> CompilerReport:
    compiler = PyCudaCompiler(arch)
    try:
        name = compiler.name
    except (CompileError, OSError) as error:  # the message says what is missing and the remedy
        return CompilerReport(Condition.MISSING, _line(error))
    try:
        image = compiler.compile(TRIAL).image
    except (CompileError, OSError, RuntimeError) as error:
        return CompilerReport(Condition.BROKEN, _line(error))
    if not image.startswith(b"\x7fELF"):
        return CompilerReport(Condition.BROKEN, f"{name} makes no machine code for {arch}")
    return CompilerReport(Condition.OK, f"{name}, compiles for {arch}")


if __name__ == "__main__":
    name, arch = sys.argv[1:]
    print(json.dumps(dataclasses.asdict((_nvrtc_tried if name == "nvrtc" else _pycuda_tried)(arch))))
