"""Programs: one candidate as CUDA source and the launches that run it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel argument: the device address of an operand or a workspace."""

    buffer: str


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


Argument = Pointer | ByValue | Texture | Transformed


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A `__constant__` variable: an input operand's bytes are copied into it, in stream order, before the launch."""

    symbol: str
    operand: str


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. `grid` in blocks and `block` in threads, x first; `shared_bytes` is dynamic shared memory."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    constants: tuple[Constant, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory that a program's launches share; contents undefined at the start."""

    name: str
    nbytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """One candidate: CUDA source, the launches in order, the workspaces they need."""

    family: str
    config: Config
    source: str
    launches: tuple[Launch, ...]
    workspaces: tuple[Workspace, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Identity of what runs: the source text and its launches.

        A stored time holds only for the program it was taken of, so a record whose config generates another
        fingerprint today is a miss.
        """
        text = json.dumps([self.source, [launch_spec(launch) for launch in self.launches], self._workspace_spec()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def by_value(self) -> frozenset[str]:
        """The operands whose bytes some launch takes, as an argument or in constant memory."""
        constants = (constant.operand for launch in self.launches for constant in launch.constants)
        arguments = (argument.operand for argument in self._arguments() if isinstance(argument, ByValue | Transformed))
        return frozenset((*arguments, *constants))

    @property
    def pointed_to(self) -> frozenset[str]:
        """The operands and workspaces that some launch takes the address of, or reads through a texture."""
        return frozenset(argument.buffer for argument in self._arguments() if isinstance(argument, Pointer | Texture))

    def _arguments(self) -> Iterator[Argument]:
        return (argument for launch in self.launches for argument in launch.arguments)

    def _workspace_spec(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(workspace) for workspace in self.workspaces]

    def spec(self) -> dict[str, Any]:
        """Everything but the source, as JSON values; `from_spec` reads it back beside the source."""
        return {
            "family": self.family,
            "config": self.config.values(),
            "launches": [launch_spec(launch) for launch in self.launches],
            "workspaces": self._workspace_spec(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], source: str) -> Program:
        return cls(
            family=spec["family"],
            config=Config.of(spec["config"]),
            source=source,
            launches=tuple(_launch_of(launch) for launch in spec["launches"]),
            workspaces=tuple(Workspace(**workspace) for workspace in spec["workspaces"]),
        )


def launch_spec(launch: Launch) -> dict[str, Any]:
    """A launch as JSON values. What most launches lack is left out, so that their fingerprints stay what they were."""
    spec: dict[str, Any] = {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "arguments": [_argument_spec(argument) for argument in launch.arguments],
    }
    if launch.constants:
        spec["constants"] = [dataclasses.asdict(constant) for constant in launch.constants]
    return spec


def _argument_spec(argument: Argument) -> dict[str, Any]:
    match argument:
        case Pointer(buffer):
            return {"pointer": buffer}
        case ByValue(operand):
            return {"by_value": operand}
        case Transformed(operand, matrix):
            return {"transformed": operand, "matrix": [list(row) for row in matrix]}
        case Texture(dtype=dtype):
            return {"texture": {**dataclasses.asdict(argument), "dtype": str(dtype)}}


def _launch_of(spec: dict[str, Any]) -> Launch:
    grid_x, grid_y, grid_z = spec["grid"]
    block_x, block_y, block_z = spec["block"]
    return Launch(
        entry=spec["entry"],
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        arguments=tuple(_argument_of(argument) for argument in spec["arguments"]),
        shared_bytes=spec["shared_bytes"],
        constants=tuple(Constant(**constant) for constant in spec.get("constants", ())),
    )


def _argument_of(spec: dict[str, Any]) -> Argument:
    match spec:
        case {"pointer": buffer}:
            return Pointer(buffer)
        case {"transformed": operand, "matrix": matrix}:
            return Transformed(operand, tuple(tuple(row) for row in matrix))
        case {"texture": fields}:
            return Texture(**{**fields, "dtype": DType(fields["dtype"])})
        case _:
            return ByValue(spec["by_value"])
