"""CUDA compilers: NVRTC in this process, nvcc as a child process. Neither needs a GPU or a driver.

NVRTC is called through cuda-bindings, because `cuda.core.Program` needs a driver, which a machine that only exports
does not have. nvcc is run directly. The third compiler is in `pycuda_compiler` and needs a driver too."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from warpsmith.devices.compiler import Binary, BinaryKind, Compiler, Usage
from warpsmith.devices.host.toolchain import run_compiler
from warpsmith.errors import CompileError
from warpsmith.extras import Extra, install
from warpsmith.generator.steps import Compilation

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_REGISTERS = re.compile(r"Used (\d+) registers")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SHARED = re.compile(r"(\d+) bytes smem")

# `1 error detected in the compilation of ...` is the final count of a log, not an error.
_ERROR = re.compile(r"\b(?:error|fatal)\s*(?:#\S+)?\s*:")


def usages_of(log: str) -> dict[str, Usage]:
    """Resources of each kernel, by entry name, from the log of `ptxas -v`, which has one paragraph per kernel."""
    _, *parts = _ENTRY.split(log)  # the text before the first entry, then entry names and paragraphs alternating
    return {entry: _usage(paragraph) for entry, paragraph in zip(parts[::2], parts[1::2], strict=True)}


def _usage(paragraph: str) -> Usage:
    registers, shared = _REGISTERS.search(paragraph), _SHARED.search(paragraph)
    stack = [int(n) for n in _STACK.findall(paragraph)]  # functions that are not inlined have stack frames of their own
    return Usage(
        registers=int(registers[1]) if registers else None,
        spill_bytes=max(stack, default=None),
        # ptxas omits this number if a kernel uses no shared memory.
        shared_bytes=(int(shared[1]) if shared else 0) if registers else None,
    )


def first_error(log: str) -> str:
    """The line that says what is wrong: the first error, or the first line if no line is marked as an error."""
    lines = [line.strip() for line in log.replace("\0", "").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or ["the compiler gave no reason"])[0]


NO_CACHE = "--no-cache"
"""NVRTC option that disables its own cache. Answers from that cache have no log, and so no register and spill counts.
To maintain it, NVRTC also opens every GPU, one process at a time: on a machine with 4 of them 64 processes took 8.6 s
until each had compiled its first kernel.
"""

_NVRTC_MISSING = f"NVRTC is missing: {install(Extra.CUDA)}, or install the CUDA 13 toolkit"
_NVCC_MISSING = "nvcc is missing: install the CUDA 13 toolkit, or set CUDA_HOME to where it is"


@dataclasses.dataclass(frozen=True)
class NvrtcCompiler(Compiler):
    """NVRTC, which compiles to machine code in about 40 ms a kernel.

    Args:
        arch: the architecture, such as `sm_90`.
    """

    arch: str

    @property
    def identity(self) -> str:
        return f"{nvrtc_name()} {' '.join(self._options)}"

    @property
    def _options(self) -> tuple[str, ...]:
        return (f"--gpu-architecture={target_of(self.arch)}", "-std=c++17", "--ptxas-options=-v")

    def compile(self, unit: Compilation) -> Binary:
        name = nvrtc_name()
        _, handle = _nvrtc_call("nvrtcCreateProgram", unit.source.encode(), b"program.cu", 0, [], [])
        try:
            options = [option.encode() for option in (*self._options, NO_CACHE)]
            status, *_ = _nvrtc_call("nvrtcCompileProgram", handle, len(options), options)
            log = _nvrtc_bytes("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", handle).decode(errors="replace")
            if status != 0:
                raise CompileError(f"{name} for {self.arch}: {first_error(log)}")
            image = _nvrtc_bytes("nvrtcGetCUBINSize", "nvrtcGetCUBIN", handle)
        finally:
            _nvrtc_call("nvrtcDestroyProgram", handle)
        return Binary(BinaryKind.CUBIN, image, self.arch, name, usages_of(log))


def target_of(arch: str) -> str:
    """The architecture-specific target, such as `sm_90a`, which adds instructions such as wgmma.

    Machine code runs only on the architecture that it was compiled for in any case.
    """
    return f"{arch}a" if re.fullmatch(r"sm_(9|1\d)\d", arch) else arch


def nvrtc_name() -> str:
    """NVRTC's name and version, such as `nvrtc 13.0`. Raises CompileError if it is missing."""
    _, major, minor = _nvrtc_call("nvrtcVersion")
    return f"nvrtc {major}.{minor}"


def why_no_nvrtc() -> str | None:
    """Reason why NVRTC cannot be called; None if it can. A broken library may crash the process."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        return f"cuda-bindings cannot be imported ({first_line(error)})"
    try:
        nvrtc.nvrtcVersion()
    except (OSError, RuntimeError) as error:  # no library, or a broken one; the error type depends on the release
        return f"{bindings_name()} finds no NVRTC library that loads ({first_line(error)})"
    return None


def bindings_name() -> str:
    import importlib.metadata

    try:
        return f"cuda-bindings {importlib.metadata.version('cuda-bindings')}"
    except importlib.metadata.PackageNotFoundError:  # the modules without pip's metadata
        return "cuda-bindings"


def first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _nvrtc_call(function: str, *arguments: Any) -> tuple[Any, ...]:
    """Calls one function of NVRTC; the status comes first. Raises CompileError if NVRTC is missing."""
    try:
        from cuda.bindings import nvrtc

        result: tuple[Any, ...] = getattr(nvrtc, function)(*arguments)
    except (ImportError, OSError, RuntimeError):  # no cuda-bindings, or no libnvrtc (by release)
        raise CompileError(_NVRTC_MISSING) from None
    return result


def _nvrtc_bytes(size_function: str, function: str, handle: Any) -> bytes:
    """One of NVRTC's outputs, which NVRTC writes into a buffer of the caller."""
    _, size = _nvrtc_call(size_function, handle)
    # cuda-bindings takes only `bytes`, and NVRTC writes into them. Python shares all `bytes` of length 1, but NVRTC
    # writes only a NUL there, which they hold already.
    buffer = bytes(size)
    _nvrtc_call(function, handle, buffer)
    return buffer


@dataclasses.dataclass(frozen=True)
class NvccCompiler(Compiler):
    """nvcc, as a process. It takes about a second a kernel and needs a host compiler too.

    Args:
        arch: the architecture, such as `sm_90`.
        executable: path of nvcc; None to call `find_nvcc()` at each use.
        timeout_s: seconds that one compilation may take.
    """

    arch: str
    executable: str | None = None
    timeout_s: float = 120.0

    @property
    def name(self) -> str:
        """Name and version, such as `nvcc 13.0.88`. Raises CompileError if nvcc is missing."""
        return nvcc_name(self.executable or find_nvcc(), self.timeout_s)

    @property
    def identity(self) -> str:
        return f"{self.name} {' '.join(self._options)}"

    @property
    def _options(self) -> tuple[str, ...]:
        return (f"-arch={target_of(self.arch)}", "-std=c++17", "-Xptxas", "-v")

    def compile(self, unit: Compilation) -> Binary:
        name = self.name
        with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
            source, cubin = Path(folder) / "program.cu", Path(folder) / "program.cubin"
            source.write_text(unit.source)
            command = [self.executable or find_nvcc(), "--cubin", *self._options, str(source), "-o", str(cubin)]
            status, output, errors = run_compiler(command, "", self.timeout_s)
            # ptxas reports on standard error, the front end on either.
            log = (errors + output).replace(f"{folder}{os.sep}", "")
            if status != 0:
                raise CompileError(f"{name} for {self.arch}: {first_error(log)}")
            image = cubin.read_bytes()
        return Binary(BinaryKind.CUBIN, image, self.arch, name, usages_of(log))


def find_nvcc() -> str:
    """Path of nvcc: in `$CUDA_HOME` if that is set, else on the path, else in the toolkit's default folder.

    Raises:
        CompileError: there is none; the message says what to install.
    """
    home = os.environ.get("CUDA_HOME")
    places = [str(Path(home) / "bin")] if home else [os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"]
    for place in places:
        if path := shutil.which("nvcc", path=place):
            return path
    raise CompileError(_NVCC_MISSING)


@functools.lru_cache(maxsize=8)
def nvcc_name(path: str, timeout_s: float) -> str:
    """nvcc's name and version, read once per process."""
    status, output, errors = run_compiler([path, "--version"], "", timeout_s)
    version = re.search(r"\bV(\d[\d.]*)", output)
    if status != 0 or version is None:
        raise CompileError(f"{path} is no working nvcc ({first_error(errors + output)}); {_NVCC_MISSING}")
    return f"nvcc {version[1]}"
