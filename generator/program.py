"""Programs: one candidate as CUDA source and the launches that run it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from warpsmith.generator.space import Config


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel argument: the device address of an operand or a workspace."""

    buffer: str


@dataclasses.dataclass(frozen=True, slots=True)
class ByValue:
    """A kernel argument: an input operand's bytes, copied into the kernel's parameter block."""

    operand: str


Argument = Pointer | ByValue


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. `grid` in blocks and `block` in threads, x first; `shared_bytes` is dynamic shared memory."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0


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
        """The operands that some launch takes by value."""
        return frozenset(argument.operand for argument in self._arguments() if isinstance(argument, ByValue))

    @property
    def pointed_to(self) -> frozenset[str]:
        """The operands and workspaces that some launch takes the address of."""
        return frozenset(argument.buffer for argument in self._arguments() if isinstance(argument, Pointer))

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
    """A launch as JSON values."""
    arguments = [
        {"pointer": argument.buffer} if isinstance(argument, Pointer) else {"by_value": argument.operand}
        for argument in launch.arguments
    ]
    return {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "arguments": arguments,
    }


def _launch_of(spec: dict[str, Any]) -> Launch:
    grid_x, grid_y, grid_z = spec["grid"]
    block_x, block_y, block_z = spec["block"]
    return Launch(
        entry=spec["entry"],
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        arguments=tuple(_argument_of(argument) for argument in spec["arguments"]),
        shared_bytes=spec["shared_bytes"],
    )


def _argument_of(spec: dict[str, str]) -> Argument:
    return Pointer(spec["pointer"]) if "pointer" in spec else ByValue(spec["by_value"])
