"""Interface of compilers; compiled units, and the registers and memory that their kernels use."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Iterable, Mapping

from warpsmith.generator.program import Program
from warpsmith.generator.steps import Compilation


class BinaryKind(enum.StrEnum):
    """Format of a compiled unit."""

    CUBIN = "cubin"
    """Machine code of one GPU architecture."""
    LIBRARY = "library"
    """A shared library of the host."""


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a kernel; None for values that the compiler does not report."""

    registers: int | None = None
    """Registers per thread."""
    spill_bytes: int | None = None
    """Bytes of stack frame per thread: spilled registers and local arrays, both of which live in local memory."""
    shared_bytes: int | None = None
    """Bytes of static shared memory per block."""


NOT_REPORTED = Usage()
"""Usage of a kernel for which the compiler reports nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Binary:
    """A compiled unit."""

    kind: BinaryKind
    image: bytes
    arch: str
    compiler: str
    """The compiler's name and version, such as `nvrtc 13.0` or `g++ 12.2.0`."""
    kernels: Mapping[str, Usage] = dataclasses.field(default_factory=dict, hash=False)
    """Usage of each kernel for which the compiler reports one, by entry name."""

    def usage(self, entry: str) -> Usage:
        return self.kernels.get(entry, NOT_REPORTED)

    @property
    def most(self) -> Usage:
        """Maximum of each resource over this unit's kernels."""
        return most_of(self.kernels.values())


Binaries = Mapping[str, Binary]
"""A compiled program: the binary of each unit, by the unit's name."""


class Compiler(abc.ABC):
    """Compiles units to binaries. Subclasses are frozen dataclasses, cheap to pickle, because they are sent to other
    processes.
    """

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Everything beside the unit that determines the binary: name, version, architecture, options.

        Raises CompileError if the compiler is missing, naming what to install.
        """

    @abc.abstractmethod
    def compile(self, unit: Compilation) -> Binary:
        """Compiles one unit. Raises CompileError with the compiler's first error line."""

    def text_of(self, unit: Compilation) -> str:
        """The part of a unit that determines its binary, beside `identity`: equal texts give equal binaries."""
        return unit.source

    def cached(self, unit: Compilation) -> Binary | None:  # noqa: ARG002 - for compilers with a cache
        """The result of `compile` if it is known without compiling, else None."""
        return None

    def compile_program(self, program: Program) -> dict[str, Binary]:
        """The binary of each unit of a program, by its name. Raises CompileError as `compile` does."""
        return {name: self.compile(unit) for name, unit in program.compilations().items()}

    def cached_program(self, program: Program) -> dict[str, Binary] | None:
        """The result of `compile_program` if all of it is known without compiling, else None."""
        found = {name: self.cached(unit) for name, unit in program.compilations().items()}
        known = {name: binary for name, binary in found.items() if binary is not None}
        return known if len(known) == len(found) else None


def most_of(usages: Iterable[Usage]) -> Usage:
    """Maximum of each resource over several usages; None if no usage reports it."""
    listed = list(usages)
    return Usage(
        _most(each.registers for each in listed),
        _most(each.spill_bytes for each in listed),
        _most(each.shared_bytes for each in listed),
    )


def most_used(binaries: Binaries) -> Usage:
    """Maximum of each resource over a program's kernels. A record stores it."""
    return most_of(binary.most for binary in binaries.values())


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)
