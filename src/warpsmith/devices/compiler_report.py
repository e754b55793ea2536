"""Tests the compilers of this machine: finds each one, asks for its version and compiles a kernel."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import shutil
import sys
import time
from pathlib import Path

from warpsmith.devices.cuda.compiler import NvccCompiler, find_nvcc
from warpsmith.devices.cuda.nvrtc_trial import trial_kernel
from warpsmith.devices.host.compiler import HostCompiler, find_compiler
from warpsmith.devices.host.toolchain import CompilerTimeout, run_compiler
from warpsmith.errors import CompileError, one_line
from warpsmith.extras import Extra, missing

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
    told: str


def report_on_host_compiler(timeout_s: float = TRIAL_S) -> CompilerReport:
    """Tests the C++ compiler that the host device would use. `timeout_s` bounds each of its runs, in seconds."""
    try:
        path = find_compiler()
    except CompileError as error:
        return CompilerReport(Condition.MISSING, str(error))
    began = time.monotonic()
    try:
        binary = HostCompiler(path, timeout_s=timeout_s).compile(trial_kernel())
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
            told = f"CUDA_HOME is {home}, which has no bin/nvcc, but {on_path} is on the path: unset CUDA_HOME"
            return CompilerReport(Condition.MISSING, told)
        return CompilerReport(Condition.MISSING, f"{_line(error)}{f' (now {home})' if home else ''}")
    origin = "of CUDA_HOME" if home else "on the path" if path == on_path else "off the path"
    other = f"; not {on_path}, which is on the path" if on_path and not _same(on_path, path) else ""
    began = time.monotonic()
    try:
        binary = NvccCompiler(arch, executable=path, timeout_s=timeout_s).compile(trial_kernel())
    except (CompileError, OSError) as error:
        return CompilerReport(Condition.BROKEN, f"{path} ({origin}{other}): {_line(error)}")
    where = f"{binary.compiler} at {path} ({origin}{other})"
    if not binary.image.startswith(b"\x7fELF"):
        return CompilerReport(Condition.BROKEN, f"{where} makes no machine code for {arch}")
    return CompilerReport(Condition.OK, f"{where}, compiles for {arch} in {time.monotonic() - began:.1f} s")


def report_on_nvrtc(arch: str, timeout_s: float = TRIAL_S) -> CompilerReport:
    """Tests NVRTC for an architecture such as `sm_90`, in a separate process. No GPU is needed."""
    return _tried_apart("NVRTC", "warpsmith.devices.cuda.nvrtc_trial", arch, timeout_s)


def report_on_pycuda(arch: str, timeout_s: float = TRIAL_S) -> CompilerReport | None:
    """Tests PyCUDA's compiler for an architecture such as `sm_90`, in a separate process; None without PyCUDA."""
    if missing(Extra.PYCUDA) is not None:
        return None
    return _tried_apart("PyCUDA", "warpsmith.devices.cuda.pycuda_trial", arch, timeout_s)


def _tried_apart(name: str, module: str, arch: str, timeout_s: float) -> CompilerReport:
    """Runs a module that tests the compiler `name` in another process, and reads its report."""
    # -P keeps a user's folder with a module of the same name from being imported first.
    command = [sys.executable, "-P", "-m", module, arch]
    try:
        status, output, errors = run_compiler(command, "", timeout_s)
    except CompilerTimeout:
        return CompilerReport(Condition.BROKEN, f"{name} did not compile a kernel for {arch} within {timeout_s:g} s")
    except CompileError as error:
        return CompilerReport(Condition.BROKEN, _line(error))
    try:
        answer = json.loads(output)
        return CompilerReport(Condition(answer["condition"]), answer["told"])
    except (ValueError, LookupError, TypeError):
        last = (errors.strip() or "no message").splitlines()[-1]
        ended = f"signal {-status}" if status < 0 else f"status {status}"
        return CompilerReport(Condition.BROKEN, f"the process that tried {name} ended with {ended}: {last}")


def _same(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


def _line(error: Exception) -> str:
    return one_line(error) or type(error).__name__
