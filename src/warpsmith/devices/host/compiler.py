"""Compiles units for the host: CUDA text becomes C++ text, and that a shared library."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import re
import tempfile
from pathlib import Path

from warpsmith.devices.compiler import Binary, BinaryKind, Compiler
from warpsmith.devices.host.toolchain import (
    SANITIZER_EXIT_CODES,
    Toolchain,
    find_compiler,
    first_error,
    probe,
    run_compiler,
    sanitizer_environment,
)
from warpsmith.errors import CompileError
from warpsmith.generator.steps import Compilation

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_COOPERATION = re.compile(r"\b__(?:sync|shfl|ballot|reduce|any|all|activemask)\w*|\bmma\.sync")
_CLUSTER = re.compile(r"\b__cluster_dims__\s*\(\s*(\d+)")
_SHARED = re.compile(r"\b__shared__\b")
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)|__attribute__\s*\(\(.*?\)\)")
_DYNAMIC_SHARED = re.compile(
    r"""\bextern\b (?P<before>[^;{}"]*?) \b__shared__\b (?P<after>[^;{}\[\]]*?) (?P<name>\w+) \s*\[\s*\]\s*;""",
    re.VERBOSE,
)


def without_comments(source: str) -> str:
    """`source` with comments replaced by blanks; line numbers do not change."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def cooperates(text: str) -> bool:
    """True if threads of a block wait for each other: a barrier, a shuffle, a vote, a matrix product.

    The text decides this before compilation, because a block can run in two ways that share no code: as a plain loop,
    into which the compiler may inline the kernel and vectorise it, or as fibers. A word that this search misses (one
    that the preprocessor puts together) is not declared in the plain build. It causes a compile error, never threads
    that fail to wait.
    """
    return _COOPERATION.search(text) is not None


def cluster_blocks(text: str) -> int:
    """Blocks of the clusters that the kernels of `text` have in common, 1 without clusters."""
    return math.lcm(*(int(blocks) for blocks in _CLUSTER.findall(text)))


def dynamic_shared(text: str) -> dict[str, str]:
    """Names of the arrays declared `extern __shared__ T name[]`, with the text of T."""
    arrays = {}
    for match in _DYNAMIC_SHARED.finditer(text):
        declared = _ALIGNMENT.sub(" ", f"{match['before']} {match['after']}")
        arrays[match["name"]] = " ".join(declared.split())
    return arrays


def _shared_lines(text: str) -> list[str]:
    """Definition of `__shared__` on each line that has it, for a build with static shared memory (see words.h)."""
    dynamic = {match.start() + match[0].index("__shared__") for match in _DYNAMIC_SHARED.finditer(text)}
    meanings = {}
    for match in _SHARED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        meanings[line] = "" if match.start() in dynamic else "static"
    return [f"#define WARPSMITH_HOST_SHARED_{line} {meaning}".rstrip() for line, meaning in meanings.items()]


def translation_unit(unit: Compilation, sanitize: bool) -> str:
    """The C++ text of `unit`: configuration macros, the header, the source, the entries."""
    text = without_comments(unit.source)
    lines = [
        f"#define WARPSMITH_HOST_COOPERATES {int(cooperates(text))}",
        f"#define WARPSMITH_HOST_CLUSTER_BLOCKS {cluster_blocks(text)}",
        f"#define WARPSMITH_HOST_DYNAMIC_SHARED_BYTES {unit.shared_bytes}",
        *(_shared_lines(text) if sanitize else ()),
        "#include <cuda_on_host.h>",  # quotes would search the working folder first
        '#line 1 "program.cu"',
        unit.source,
        '#line 1 "launches"',
        *(f"WARPSMITH_HOST_DYNAMIC_SHARED({kind}, {name})" for name, kind in dynamic_shared(text).items()),
        *(f"WARPSMITH_HOST_ENTRY({entry})" for entry in unit.entries),
        *(f"WARPSMITH_HOST_CONSTANT({symbol})" for symbol in unit.constants),
    ]
    return "\n".join(lines) + "\n"


__all__ = ["SANITIZER_EXIT_CODES", "HostCompiler", "find_compiler"]

_HEADERS = Path(__file__).parent

# Hidden symbols let the compiler inline a kernel into the loop over its threads.
_COMMON = ("-std=c++17", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
_FAST = ("-O3",)
_SANITIZED = (
    "-O1",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)


@functools.cache
def _header_fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(_HEADERS.rglob("*.h")):
        digest.update(path.relative_to(_HEADERS).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class HostCompiler(Compiler):
    """g++ or clang++ with the header that implements CUDA's keywords and functions on the CPU.

    Args:
        executable: path or command line of the compiler; None to call `find_compiler()` at each use.
        sanitize: build for AddressSanitizer and UndefinedBehaviorSanitizer. Such a binary runs only in a process that
            was started with `sanitizer_environment()`; its blocks run on one core.
        timeout_s: seconds that one compilation may take.
    """

    executable: str | None = None
    sanitize: bool = False
    timeout_s: float = 120.0

    @property
    def name(self) -> str:
        """The compiler's name and version, such as `g++ 12.2.0`. Raises CompileError if it is missing."""
        return self._toolchain().name

    @property
    def identity(self) -> str:
        toolchain = self._toolchain()
        options = " ".join(self._options(toolchain))
        return f"{toolchain.name} {options} target={toolchain.target} header={_header_fingerprint()}"

    def text_of(self, unit: Compilation) -> str:
        return translation_unit(unit, self.sanitize)

    def compile(self, unit: Compilation) -> Binary:
        toolchain = self._toolchain()
        with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
            library = Path(folder) / "program.so"
            includes = ("-I", str(_HEADERS), "-I", str(_HEADERS / "cuda_headers"))
            command = [*toolchain.command, *self._options(toolchain), *includes, "-x", "c++", "-", "-o", str(library)]
            source = self.text_of(unit)
            status, _, errors = run_compiler(command, source, self.timeout_s)
            if status != 0:
                raise CompileError(f"{toolchain.name} refused the program: {first_error(errors)}")
            image = library.read_bytes()
        compiler = f"{toolchain.name} with sanitizers" if self.sanitize else toolchain.name
        return Binary(kind=BinaryKind.LIBRARY, image=image, arch="host", compiler=compiler)

    def sanitizer_environment(self) -> dict[str, str]:
        """Environment variables with which Python must be started to run sanitized binaries of this compiler.

        A process that a sanitizer ends then has an exit code of `SANITIZER_EXIT_CODES`, and the report on its standard
        error. Leak detection is off, because Python itself never frees everything.

        Raises:
            CompileError: the compiler or its sanitizer libraries are missing.
        """
        return sanitizer_environment(self._toolchain(), self.timeout_s)

    def _toolchain(self) -> Toolchain:
        return probe(self.executable or find_compiler(), self.timeout_s)

    def _options(self, toolchain: Toolchain) -> tuple[str, ...]:
        options = (*_COMMON, *toolchain.target_options, *(_SANITIZED if self.sanitize else _FAST))
        # Clang links its sanitizers by default only into executables; g++ has no such option.
        return (*options, "-shared-libasan") if self.sanitize and toolchain.is_clang else options
