"""What programs are made of: units of CUDA text, launches of their kernels, calls of libraries, workspaces."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.library import Library
from warpsmith.generator.library_calls import Parameters
from warpsmith.generator.problem import DType


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel argument: the device address of an operand or a workspace, `offset` bytes further on."""

    buffer: str
    offset: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ByValue:
    """A kernel argument: an input operand's bytes, copied into the kernel's parameter block."""

    operand: str


@dataclasses.dataclass(frozen=True, slots=True)
class Texture:
    """A kernel argument: the 64-bit handle of a texture object over an operand's memory.

    One channel of `dtype` a texel, float16 read as float and the others as they are; no filtering, coordinates in
    texels, clamped. `width` in texels, `pitch` in bytes from row to row. `height` rows for `tex2D`; 0 for one line of
    `width` texels for `tex1Dfetch`.
    """

    buffer: str
    dtype: DType
    width: int
    height: int = 0
    pitch: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Transformed:
    """A kernel argument: an input operand of float32, each row of it (its last dimension) multiplied by `matrix`.

    In float64, and rounded to float32 at the end. Copied into the kernel's parameter block.
    """

    operand: str
    matrix: tuple[tuple[float, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorMap:
    """A kernel argument of 128 bytes, by which the copy engine of compute capability 9.0 brings pixels of images whose
    channels lie side by side: CUDA driver API, cuTensorMapEncodeIm2col.

    A window of positions lies over each image: `extent` rows and columns of them, `step` pixels apart, from pixel
    `first` on, which is negative in the padding. A copy begins at a position and goes on column by column, row by row
    and image by image, for `pixels` positions; of each it brings `channels` channels of the pixel that lies so many
    rows and columns further on as the copy says, zeros beyond the image. Their 16 bytes are exchanged as
    CU_TENSOR_MAP_SWIZZLE_128B does.
    """

    buffer: str
    dtype: DType
    """Of 16 bits."""
    shape: tuple[int, int, int, int]
    """Images, rows, columns, channels."""
    first: tuple[int, int]
    extent: tuple[int, int]
    step: tuple[int, int]
    channels: int
    pixels: int

    @property
    def corners(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the window, rows first: the pixel where it begins, and where it ends, from the image's last one on."""
        _, *sizes, _ = self.shape
        ends = zip(self.first, self.extent, self.step, sizes, strict=True)
        row, column = (first + (extent - 1) * step + 1 - size for first, extent, step, size in ends)
        return self.first, (row, column)


InMemory = Pointer | Texture | TensorMap
"""Arguments that stand for the memory of a buffer."""
Argument = InMemory | ByValue | Transformed


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A `__constant__` variable: an input operand's bytes are copied into it, in stream order, before the launch."""

    symbol: str
    operand: str


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. `grid` in blocks and `block` in threads, x first; `shared_bytes` is dynamic shared memory.

    `unit` names the text that the kernel is in.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    constants: tuple[Constant, ...] = ()
    unit: str = ""

    @classmethod
    def of_blocks(cls, entry: str, blocks: int, threads: int, arguments: tuple[Argument, ...]) -> Launch:
        """In one dimension: so many blocks of so many threads."""
        return cls(entry, (blocks, 1, 1), (threads, 1, 1), arguments)


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryCall:
    """One call of a vendor's library, in stream order like a launch.

    `arguments` are the memory that it works on, in the order of the library's function: for cuFFT what is read, and
    what is written; for cuBLAS both factors and the product. Nothing of `parameters` depends on the device, so that a
    program has one fingerprint everywhere.
    """

    parameters: Parameters
    arguments: tuple[Pointer, ...]

    @property
    def library(self) -> Library:
        """Which one is called."""
        return self.parameters.library

    def told(self) -> str:
        """In a few words, for people."""
        return f"{self.library} {self.parameters.told()}: {' -> '.join(each.buffer for each in self.arguments)}"


Step = Launch | LibraryCall
"""What is done in stream order, one after the other."""


ALIGNMENT = 256
"""Bytes; workspaces begin at multiples, and `Runtime.allocate` gives memory that does."""


def aligned(nbytes: int) -> int:
    """What so many bytes of workspace take, since the next ones begin at a multiple of ALIGNMENT."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Lifetime(enum.StrEnum):
    """How long a workspace keeps what is written into it."""

    CALL = "call"
    """Until the program's last step: its contents are undefined at each start, and calls may not share it."""
    KEPT = "kept"
    """From call to call of one bound program, undefined at the first: spectra of weights, state that is carried on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory that a program's steps share, aligned to ALIGNMENT bytes; contents as `lifetime` says."""

    name: str
    nbytes: int
    lifetime: Lifetime = Lifetime.CALL
    holds: tuple[str, ...] = ()
    """Inputs of which alone its contents are made, by steps that read nothing else; other steps only read it. A plan
    that holds these inputs makes it once (`generator.holding`). Empty where it depends on others too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """CUDA text that is compiled, cached and loaded by itself: names at its file scope are its own."""

    name: str
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Compilation:
    """One unit as a compiler takes it: the text, and what a program's launches use of it."""

    source: str
    entries: tuple[str, ...] = ()
    """Kernels that are launched, each once, in the order of their first launches."""
    constants: tuple[str, ...] = ()
    """`__constant__` variables that are written, likewise."""
    shared_bytes: int = 0
    """The most dynamic shared memory that a launch asks for."""

    @classmethod
    def of(cls, source: str, launches: tuple[Launch, ...]) -> Compilation:
        """That of a text, of which all of `launches` are."""
        return cls(
            source,
            tuple(dict.fromkeys(launch.entry for launch in launches)),
            tuple(dict.fromkeys(each.symbol for launch in launches for each in launch.constants)),
            max((launch.shared_bytes for launch in launches), default=0),
        )
