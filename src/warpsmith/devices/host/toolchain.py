"""The machine's C++ compilers: which there is, what it is, what its sanitizers need."""

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

g++ links two run-time libraries, and each ends with its own code. Clang has both sanitizers in one, which knows one
code: all of its reports end with that of AddressSanitizer.
"""


class CompilerTimeout(CompileError):
    """A compiler that did not end in time."""


def find_compiler() -> str:
    """Command line of the C++ compiler: `$CXX` where it is set, such as `ccache g++`, else g++, else clang++.

    Raises:
        CompileError: none is there; the message says what to install.
    """
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else ("g++", "clang++"):
        if command := _words(name):
            return shlex.join(command)
    if chosen:
        raise CompileError(f"CXX names {chosen!r}, which is not a program; unset CXX or name a C++ compiler")
    raise CompileError(f"the host device needs a C++17 compiler: {HOW_TO_INSTALL}")


def _words(command: str) -> tuple[str, ...]:
    """Words of a command line, the first one as a path; none where it names no program."""
    if path := shutil.which(command):  # it may contain blanks
        return (path,)
    try:
        program, *options = shlex.split(command)
    except ValueError:  # no words, or a quotation mark that is not closed
        return ()
    path = shutil.which(program)
    return (path, *options) if path else ()


def _compiler_environment() -> dict[str, str]:
    # In a process under the sanitizers the compiler would be preloaded with them too, and take four times as long.
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
            errors="replace",  # compilers tell names of files and pieces of text as they are
            env=_compiler_environment(),
            # A group of its own: a driver such as g++ starts cc1plus and ld, which would outlive it.
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
    """One compiler, asked what it is."""

    command: tuple[str, ...]
    name: str
    """Such as `g++ 12.2.0`."""
    is_clang: bool
    target_options: tuple[str, ...]
    """The options that select this machine's instruction set; none where the compiler knows none."""
    target: str
    """What the target options stand for here: a hash of the macros that they define."""


@functools.lru_cache(maxsize=8)
def probe(compiler: str, timeout_s: float) -> Toolchain:
    """Asks a compiler what it is (two short runs at most, once a process). Raises CompileError where it fails.

    Args:
        compiler: its path, or a command line such as `ccache g++`.
        timeout_s: how long each run may take, in seconds.
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
    """The line of a compiler's output that a person reads first."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line for line in lines if "error:" in line or "undefined reference" in line]
    return (marked or lines or ["no message"])[0]


def sanitizer_environment(toolchain: Toolchain, timeout_s: float) -> dict[str, str]:
    """The environment variables of a process that loads sanitized code.

    Raises:
        CompileError: the sanitizers' run-time libraries are not installed.
    """
    address = f"exitcode={ADDRESS_EXIT_CODE}:detect_leaks=0:allocator_may_return_null=1"
    undefined = "print_stacktrace=1"
    if not toolchain.is_clang:
        undefined += f":exitcode={UNDEFINED_EXIT_CODE}"
    elif addr2line := shutil.which("addr2line"):
        # llvm-symbolizer, its own choice, inherits LD_PRELOAD and then waits for ever (seen with version 14).
        address += f":allow_addr2line=1:external_symbolizer_path={addr2line}"
    else:
        address += ":symbolize=0"
    libraries = _sanitizer_libraries(toolchain, timeout_s)
    return {"LD_PRELOAD": ":".join(libraries), "ASAN_OPTIONS": address, "UBSAN_OPTIONS": undefined}


def _sanitizer_libraries(toolchain: Toolchain, timeout_s: float) -> list[str]:
    """Paths of the libraries that must be loaded before anything else."""
    # libstdc++ too: AddressSanitizer looks up what it intercepts there when it starts, before Python loads it.
    names = ["libasan.so", "libubsan.so", "libstdc++.so.6"]
    if toolchain.is_clang:
        names = [f"libclang_rt.asan-{platform.machine()}.so", "libstdc++.so.6"]
    paths = []
    for name in names:
        _, output, _ = run_compiler([*toolchain.command, f"-print-file-name={name}"], "", timeout_s)
        path = Path(output.strip())
        if not path.is_absolute():  # the bare name comes back where there is no such file
            raise CompileError(
                f"{toolchain.name} has no {name}: install its sanitizer libraries "
                "(dnf install libasan libubsan; apt-get install g++ has them)"
            )
        paths.append(str(path.resolve()))
    return paths
