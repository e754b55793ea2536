"""Parts of programs: units of CUDA text, launches, library calls, workspaces, counters; their JSON values.

JSON leaves out fields that most steps and workspaces leave at the default, so that the fingerprints of stored programs
do not change. Blocks of one launch wait for the work of others through counters in global memory;
`templates/shared/progress.cu.jinja` has the waits, and the kernel that clears the counters before such a launch.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from warpsmith.generator.library_calls import Library, Parameters, parameters_of
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

    A texel has one, two or four `channels` of `dtype`; float16 is read as float, other types as they are. There is no
    filtering, and coordinates are in texels and clamped. `width` is in texels, `pitch` in bytes from row to row.
    `height` is the number of rows for `tex2D`, or 0 for one line of `width` texels for `tex1Dfetch`.
    """

    buffer: str
    dtype: DType
    width: int
    height: int = 0
    pitch: int = 0
    channels: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Transformed:
    """A kernel argument: a float32 input operand with each row (its last dimension) multiplied by `matrix`.

    The product is computed in float64, rounded to float32, and copied into the kernel's parameter block.
    """

    operand: str
    matrix: tuple[tuple[float, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorMap:
    """A 128-byte kernel argument: the im2col tensor map of compute capability 9.0 (cuTensorMapEncodeIm2col).

    The TMA loads pixels of images whose channels lie side by side. A window of positions lies over each image: `extent`
    rows and columns of them, `step` pixels apart, from pixel `first` on, which is negative in the padding. A copy
    begins at a position and goes on column by column, row by row and image by image, for `pixels` positions. For each
    position it loads `channels` channels of the pixel at the row and column offset that the copy names, and zeros
    beyond the image. Groups of 16 bytes are permuted as CU_TENSOR_MAP_SWIZZLE_128B does.
    """

    buffer: str
    dtype: DType
    shape: tuple[int, int, int, int]
    """Images, rows, columns, channels."""
    first: tuple[int, int]
    extent: tuple[int, int]
    step: tuple[int, int]
    channels: int
    pixels: int

    @property
    def corners(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Corners of the window, rows first: its first pixel, and its end relative to the image's last pixel."""
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
    """One kernel launch. `grid` is in blocks and `block` in threads, x first; `shared_bytes` is dynamic shared memory.

    `unit` names the text that contains the kernel. A kernel that `begins_early` may begin before the one before it in
    the stream has ended, for which it waits itself; it needs compute capability 9.0.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    constants: tuple[Constant, ...] = ()
    unit: str = ""
    begins_early: bool = False

    @classmethod
    def of_blocks(cls, entry: str, blocks: int, threads: int, arguments: tuple[Argument, ...]) -> Launch:
        """One-dimensional launch of `blocks` blocks of `threads` threads."""
        return cls(entry, (blocks, 1, 1), (threads, 1, 1), arguments)


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryCall:
    """One call of an NVIDIA library, in stream order like a launch.

    `arguments` are the buffers that it works on, in the order of the library's function: source and target for cuFFT,
    both factors and the product for cuBLAS. `parameters` do not depend on the device, so that a program has one
    fingerprint everywhere.
    """

    parameters: Parameters
    arguments: tuple[Pointer, ...]

    @property
    def library(self) -> Library:
        """Library that is called."""
        return self.parameters.library

    def description(self) -> str:
        """Short description for people."""
        return f"{self.library} {self.parameters.description()}: {' -> '.join(each.buffer for each in self.arguments)}"


Step = Launch | LibraryCall
"""One action in stream order."""


ALIGNMENT = 256
"""Bytes to whose multiples workspaces are aligned; memory of `Runtime.allocate` is aligned so too."""


def aligned(nbytes: int) -> int:
    """Bytes that a workspace of `nbytes` takes, rounded up to a multiple of ALIGNMENT."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Lifetime(enum.StrEnum):
    """Time for which a workspace keeps its contents."""

    CALL = "call"
    """Until the program's last step: contents are undefined at each start, and calls may not share the workspace."""
    KEPT = "kept"
    """Contents last for all calls of one bound program, undefined at the first: weights' spectra, a signal's state."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory that a program's steps share, aligned to ALIGNMENT bytes; contents last as `lifetime` says."""

    name: str
    nbytes: int
    lifetime: Lifetime = Lifetime.CALL
    holds: tuple[str, ...] = ()
    """Inputs that alone determine the contents. The steps that write it read nothing else, and other steps only read
    it. A plan with these inputs bound fills it once (`generator.prepacking`). Empty if the contents depend on other
    inputs too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """CUDA text that is compiled, cached and loaded as one module; names at its file scope are its own."""

    name: str
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Compilation:
    """One unit as a compiler takes it: the text, and the names in it that a program's launches use."""

    source: str
    entries: tuple[str, ...] = ()
    """Kernels that are launched, each once, in the order of their first launches."""
    constants: tuple[str, ...] = ()
    """`__constant__` variables that are written, each once, in the order of their first use."""
    shared_bytes: int = 0
    """Most bytes of dynamic shared memory that one launch requests."""

    @classmethod
    def of(cls, source: str, launches: tuple[Launch, ...]) -> Compilation:
        """Compilation of a text for the launches of its kernels."""
        return cls(
            source,
            tuple(dict.fromkeys(launch.entry for launch in launches)),
            tuple(dict.fromkeys(each.symbol for launch in launches for each in launch.constants)),
            max((launch.shared_bytes for launch in launches), default=0),
        )


def step_spec(step: Step) -> dict[str, Any]:
    """A step as JSON values; `step_of` reads it back."""
    match step:
        case Launch():
            return launch_spec(step)
        case LibraryCall(parameters, arguments):
            return {
                "library": str(step.library),
                "arguments": [_argument_spec(argument) for argument in arguments],
                "parameters": parameters.spec(),
            }


def launch_spec(launch: Launch) -> dict[str, Any]:
    """A launch as JSON values."""
    spec: dict[str, Any] = {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "arguments": [_argument_spec(argument) for argument in launch.arguments],
    }
    if launch.constants:
        spec["constants"] = [dataclasses.asdict(constant) for constant in launch.constants]
    if launch.unit:
        spec["unit"] = launch.unit
    if launch.begins_early:
        spec["begins_early"] = True
    return spec


def _argument_spec(argument: Argument) -> dict[str, Any]:
    match argument:
        case Pointer(buffer, 0):
            return {"pointer": buffer}
        case Pointer(buffer, offset):
            return {"pointer": buffer, "offset": offset}
        case ByValue(operand):
            return {"by_value": operand}
        case Transformed(operand, matrix):
            return {"transformed": operand, "matrix": [list(row) for row in matrix]}
        case Texture(dtype=dtype):
            fields = {**dataclasses.asdict(argument), "dtype": str(dtype)}
            if argument.channels == 1:
                del fields["channels"]
            return {"texture": fields}
        case TensorMap(dtype=dtype):
            return {"tensor_map": {**dataclasses.asdict(argument), "dtype": str(dtype)}}


def workspace_spec(workspace: Workspace) -> dict[str, Any]:
    """A workspace as JSON values; `workspace_of` reads it back."""
    spec: dict[str, Any] = {"name": workspace.name, "nbytes": workspace.nbytes}
    if workspace.lifetime is not Lifetime.CALL:
        spec["lifetime"] = str(workspace.lifetime)
    if workspace.holds:
        spec["holds"] = list(workspace.holds)
    return spec


def step_of(spec: dict[str, Any]) -> Step:
    """The step that `step_spec` wrote. Raises ValueError, TypeError or LookupError for anything else."""
    if "library" not in spec:
        return launch_of(spec)
    library = Library(spec["library"])
    arguments = tuple(_argument_of(argument) for argument in spec["arguments"])
    pointers = tuple(argument for argument in arguments if isinstance(argument, Pointer))
    if pointers != arguments:
        raise TypeError("a library takes pointers alone")
    return LibraryCall(parameters_of(library, spec["parameters"]), pointers)


def launch_of(spec: dict[str, Any]) -> Launch:
    """The launch that `launch_spec` wrote. Raises as `step_of` does."""
    grid_x, grid_y, grid_z = spec["grid"]
    block_x, block_y, block_z = spec["block"]
    return Launch(
        entry=spec["entry"],
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        arguments=tuple(_argument_of(argument) for argument in spec["arguments"]),
        shared_bytes=spec["shared_bytes"],
        constants=tuple(Constant(**constant) for constant in spec.get("constants", ())),
        unit=spec.get("unit", ""),
        begins_early=spec.get("begins_early", False),
    )


def _argument_of(spec: dict[str, Any]) -> Argument:
    match spec:
        case {"pointer": buffer}:
            return Pointer(buffer, spec.get("offset", 0))
        case {"transformed": operand, "matrix": matrix}:
            return Transformed(operand, tuple(tuple(row) for row in matrix))
        case {"texture": fields}:
            return Texture(**{**fields, "dtype": DType(fields["dtype"])})
        case {"tensor_map": fields}:
            tuples = {name: tuple(fields[name]) for name in ("shape", "first", "extent", "step")}
            return TensorMap(**{**fields, **tuples, "dtype": DType(fields["dtype"])})
        case _:
            return ByValue(spec["by_value"])


def workspace_of(spec: dict[str, Any]) -> Workspace:
    """The workspace that `workspace_spec` wrote. Raises as `step_of` does."""
    lifetime, holds = Lifetime(spec.get("lifetime", Lifetime.CALL)), tuple(spec.get("holds", ()))
    return Workspace(spec["name"], spec["nbytes"], lifetime, holds)


PROGRESS = "progress"
"""Name of the workspace for the counters."""
COUNTER_BYTES = 4


def counter_bytes(counters: int) -> int:
    """Bytes of `counters` counters."""
    return COUNTER_BYTES * counters


def begin_launch(family: str, threads: int) -> Launch:
    """Launch of one block that sets all counters of a family's program to zero."""
    return Launch.of_blocks(f"{family}_begin", 1, threads, (Pointer(PROGRESS),))
