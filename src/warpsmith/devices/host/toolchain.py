"""Finds the machine's C++ compilers, their versions and their sanitizer libraries."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from warpsmith.errors import CompileError

HOW_TO_INSTALL = "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL) or xcode-select --install"

ADDRESS_EXIT_CODE = 86
UNDEFINED_EXIT_CODE = 87

SANITIZER_EXIT_CODES = {
    ADDRESS_EXIT_CODE: "AddressSanitizer: a memory access outside a buffer",
    UNDEFINED_EXIT_CODE: "UndefinedBehaviorSanitizer: an operation that C++ leaves undefined",
}
"""Exit codes of a process that a sanitizer ended, under `HostCompiler.sanitizer_environment`.

g++ links two run-time libraries, and each ends with its own code. Clang has both sanitizers in one library with one
exit code: all of its reports end with that of AddressSanitizer.
"""


class CompilerTimeout(CompileError):
    """Error of a compiler that did not end in time."""


def find_compiler() -> str:
    """Command line of the C++ compiler: `$CXX`, such as `ccache g++`, if that is set, else g++, else clang++.

    Raises:
        CompileError: there is none; the message says what to install.
    """
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else ("g++", "clang++"):
        if command := _words(name):
            return shlex.join(command)
    if chosen:
        raise CompileError(f"CXX names {chosen!r}, which is not a program; unset CXX or name a C++ compiler")
    raise CompileError(f"the host device needs a C++17 compiler: {HOW_TO_INSTALL}")


def _words(command: str) -> tuple[str, ...]:
    """Words of a command line, with the program's path as the first; empty if there is no such program."""
    if path := shutil.which(command):  # a path may contain blanks
        return (path,)
    try:
        program, *options = shlex.split(command)
    except ValueError:  # no words, or an unclosed quotation mark
        return ()
    path = shutil.which(program)
    return (path, *options) if path else ()


def _compiler_environment() -> dict[str, str]:
    # The compiler of a sanitized process would be preloaded with the sanitizers too, and take four times as long.
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**inherited, "LC_ALL": "C"}  # messages in English, for `first_error`


def run_compiler(command: list[str], source: str, timeout_s: float) -> tuple[int, str, str]:
    """Runs a compiler on `source` as its standard input; returns exit status, standard output and standard error.

    Raises:
        CompileError: it could not be started.
        CompilerTimeout: it did not end within `timeout_s`; it and every process it started are killed.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",  # compilers print file names and source text unchanged
            env=_compiler_environment(),
            # A separate process group: a driver such as g++ starts cc1plus and ld, which would outlive it.
            process_group=0,
        )
    except OSError as error:
        raise CompileError(
            f"cannot start {command[0]}: {error.strerror}; the host device needs {HOW_TO_INSTALL}"
        ) from None
    try:
        output, errors = process.communicate(source, timeout=timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            message = f"{Path(command[0]).name} did not end within {timeout_s:g} s"
            raise CompilerTimeout(message) from None
        raise
    return process.returncode, output, errors


@dataclasses.dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler, its version and its target."""

    command: tuple[str, ...]
    name: str
    """Name and version, such as `g++ 12.2.0`."""
    is_clang: bool
    target_options: tuple[str, ...]
    """Options that select this machine's instruction set; empty if the compiler has none."""
    target: str
    """Hash of the macros that the target options define on this machine."""


@functools.lru_cache(maxsize=8)
def probe(compiler: str, timeout_s: float) -> Toolchain:
    """Asks a compiler for its version and target (two short runs at most, cached). Raises CompileError if it fails.

    Args:
        compiler: its path, or a command line such as `ccache g++`.
        timeout_s: seconds that each run may take.
    """
    words = _words(compiler) or (compiler,)
    failure = ""
    for options in (("-march=native",), ()):  # some compilers for ARM refuse -march=native
        command = [*words, *options, "-dM", "-E", "-x", "c++", "-"]
        status, output, errors = run_compiler(command, "", timeout_s)
        if status == 0:
            return _toolchain(words, options, output)
        failure = first_error(errors)
    raise CompileError(f"{compiler} is no working C++ compiler ({failure}); {HOW_TO_INSTALL}")


def _toolchain(words: tuple[str, ...], options: tuple[str, ...], listing: str) -> Toolchain:
    lines = sorted(line for line in listing.splitlines() if line.startswith("#define "))
    macros = {name: value for _, name, value in (f"{line} ".split(" ", 2) for line in lines)}
    is_clang = "__clang__" in macros
    kind, prefix = ("clang++", "__clang_") if is_clang else ("g++", "__GNUC_")
    parts = ("major__", "minor__", "patchlevel__") if is_clang else ("_", "MINOR__", "PATCHLEVEL__")
    version = ".".join(macros.get(prefix + part, "?").strip() for part in parts)
    target = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    return Toolchain(words, f"{kind} {version}", is_clang, options, target)


def first_error(errors: str) -> str:
    """The first error line of a compiler's output, else its first line."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line for line in lines if "error:" in line or "undefined reference" in line]
    return (marked or lines or ["no message"])[0]


def sanitizer_environment(toolchain: Toolchain, timeout_s: float) -> dict[str, str]:
    """Environment variables of a process that loads sanitized code.

    Raises:
        CompileError: the sanitizers' run-time libraries are not installed.
    """
    address = f"exitcode={ADDRESS_EXIT_CODE}:detect_leaks=0:allocator_may_return_null=1"
    undefined = "print_stacktrace=1"
    if not toolchain.is_clang:
        undefined += f":exitcode={UNDEFINED_EXIT_CODE}"
    elif addr2line := shutil.which("addr2line"):
        # llvm-symbolizer, the default, inherits LD_PRELOAD and then hangs (seen with version 14).
        address += f":allow_addr2line=1:external_symbolizer_path={addr2line}"
    else:
        address += ":symbolize=0"
    libraries = _sanitizer_libraries(toolchain, timeout_s)
    return {"LD_PRELOAD": ":".join(libraries), "ASAN_OPTIONS": address, "UBSAN_OPTIONS": undefined}


def _sanitizer_libraries(toolchain: Toolchain, timeout_s: float) -> list[str]:
    """Paths of the libraries that must be preloaded."""
    # This includes libstdc++: AddressSanitizer looks up its functions at start, before Python loads it.
    names = ["libasan.so", "libubsan.so", "libstdc++.so.6"]
    if toolchain.is_clang:
        names = [f"libclang_rt.asan-{platform.machine()}.so", "libstdc++.so.6"]
    paths = []
    for name in names:
        _, output, _ = run_compiler([*toolchain.command, f"-print-file-name={name}"], "", timeout_s)
        path = Path(output.strip())
        if not path.is_absolute():  # the compiler prints the bare name if the file does not exist
            raise CompileError(
                f"{toolchain.name} has no {name}: install its sanitizer libraries "
                "(dnf install libasan libubsan; apt-get install g++ has them)"
            )
        paths.append(str(path.resolve()))
    return paths
