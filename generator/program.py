"""Programs: one candidate as units of CUDA source and the steps that run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from warpsmith.generator.fingerprint import VERBATIM_DIGITS, fingerprint, verbatim_fingerprint
from warpsmith.generator.library_calls import Library
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Argument as Argument
from warpsmith.generator.steps import ByValue as ByValue
from warpsmith.generator.steps import Compilation as Compilation
from warpsmith.generator.steps import Constant as Constant
from warpsmith.generator.steps import InMemory as InMemory
from warpsmith.generator.steps import Launch as Launch
from warpsmith.generator.steps import LibraryCall as LibraryCall
from warpsmith.generator.steps import Lifetime as Lifetime
from warpsmith.generator.steps import Pointer as Pointer
from warpsmith.generator.steps import Step as Step
from warpsmith.generator.steps import TensorMap as TensorMap
from warpsmith.generator.steps import Texture as Texture
from warpsmith.generator.steps import Transformed as Transformed
from warpsmith.generator.steps import Unit as Unit
from warpsmith.generator.steps import Workspace as Workspace
from warpsmith.generator.steps import launch_spec as launch_spec
from warpsmith.generator.steps import step_of, step_spec, workspace_of, workspace_spec


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """One candidate: units of CUDA source, steps (launches and library calls) in order, and workspaces.

    A program of one source has one unit with an empty name; `of_source` makes it. A program that only calls a library
    has no unit.

    Raises:
        TypeError: `units` has something other than units.
        ValueError: two units or two workspaces have one name, or a launch names a unit that does not exist.
    """

    family: str
    config: Config
    units: tuple[Unit, ...]
    steps: tuple[Step, ...]
    workspaces: tuple[Workspace, ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(unit, Unit) for unit in self.units):
            raise TypeError("a program has units; Program.of_source makes one of a single text")
        for names in ([unit.name for unit in self.units], [each.name for each in self.workspaces]):
            if len(set(names)) != len(names):
                raise ValueError(f"two of {', '.join(map(repr, names))} have one name")
        if strangers := {launch.unit for launch in self.launches} - {unit.name for unit in self.units}:
            raise ValueError(f"there is no unit {', '.join(map(repr, sorted(strangers)))} to launch from")

    @classmethod
    def of_source(
        cls,
        family: str,
        config: Config,
        source: str,
        launches: tuple[Launch, ...],
        workspaces: tuple[Workspace, ...] = (),
    ) -> Program:
        """A program of one source, whose kernels are launched in order."""
        return cls(family, config, (Unit("", source),), launches, workspaces)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Kernel launches, in order."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @property
    def calls(self) -> tuple[LibraryCall, ...]:
        """Library calls, in order."""
        return tuple(step for step in self.steps if isinstance(step, LibraryCall))

    @property
    def libraries(self) -> tuple[Library, ...]:
        """Libraries that the program calls, sorted by name. Results and times depend on their versions too."""
        return tuple(sorted({call.library for call in self.calls}))

    @property
    def source(self) -> str:
        """All sources as one text, for people. A single unit is its text as it is. Otherwise each named unit follows a
        comment with its name, and library calls come first as comments.
        """
        if self._is_one_text:
            return self.units[0].source
        comments = [f"// calls {call.description()}\n" for call in self.calls]
        named = (f"// unit {unit.name}\n{unit.source}" if unit.name else unit.source for unit in self.units)
        return "\n".join([*filter(None, ["".join(comments)]), *named])

    @property
    def _is_one_text(self) -> bool:
        """True if the program is one unit without a name and calls no library, as all programs were before units."""
        return [unit.name for unit in self.units] == [""] and not self.calls

    @property
    def is_plain(self) -> bool:
        """True if a bundle of format 1 can describe the program."""
        offsets = (each.offset for each in self._arguments() if isinstance(each, Pointer))
        workspaces = all(each.lifetime is Lifetime.CALL and not each.holds for each in self.workspaces)
        return self._is_one_text and not any(offsets) and workspaces

    @property
    def fingerprint(self) -> str:
        """Hash of the canonical sources (without comments and private names), the steps and the workspaces.

        A stored time holds only for the program that was measured, so a record whose config generates another
        fingerprint today is a miss.
        """
        return fingerprint(self.units, self.steps, self.workspaces)

    def has_fingerprint(self, stored: str) -> bool:
        """True if a stored fingerprint is this program's: today's kind, or the hash of the verbatim source of schema 5
        and older.
        """
        if len(stored) == VERBATIM_DIGITS:
            return stored == verbatim_fingerprint(self.units, self.steps, self.workspaces)
        return stored == self.fingerprint

    @property
    def by_value(self) -> frozenset[str]:
        """Operands whose bytes some launch takes, as an argument or in constant memory."""
        constants = (constant.operand for launch in self.launches for constant in launch.constants)
        arguments = (argument.operand for argument in self._arguments() if isinstance(argument, ByValue | Transformed))
        return frozenset((*arguments, *constants))

    @property
    def pointed_to(self) -> frozenset[str]:
        """Operands and workspaces that some step gets by address, or reads through a texture or a tensor map."""
        return frozenset(argument.buffer for argument in self._arguments() if isinstance(argument, InMemory))

    def compilation(self, unit: str = "") -> Compilation:
        """The compilation of a unit. Raises KeyError if no unit has that name."""
        return self.compilations()[unit]

    def compilations(self) -> dict[str, Compilation]:
        """The compilation of each unit, by its name."""
        return {
            unit.name: Compilation.of(unit.source, tuple(each for each in self.launches if each.unit == unit.name))
            for unit in self.units
        }

    def _arguments(self) -> Iterator[Argument]:
        return (argument for step in self.steps for argument in step.arguments)

    def _workspace_spec(self) -> list[dict[str, Any]]:
        return [workspace_spec(workspace) for workspace in self.workspaces]

    def spec(self) -> dict[str, Any]:
        """The program without its sources, as JSON values; `from_spec` reads it back together with them."""
        steps = [step_spec(step) for step in self.steps]
        code = (
            {"launches": steps} if self._is_one_text else {"units": [each.name for each in self.units], "steps": steps}
        )
        return {
            "family": self.family,
            "config": self.config.values(),
            **code,
            "workspaces": self._workspace_spec(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], sources: Mapping[str, str]) -> Program:
        """The program that `spec` described; `sources` has the source of each unit by its name.

        Raises ValueError, TypeError or LookupError if `spec` or `sources` is not of that form.
        """
        names, steps = (spec["units"], spec["steps"]) if "units" in spec else ([""], spec["launches"])
        return cls(
            family=spec["family"],
            config=Config.of(spec["config"]),
            units=tuple(Unit(name, sources[name]) for name in names),
            steps=tuple(step_of(step) for step in steps),
            workspaces=tuple(workspace_of(workspace) for workspace in spec["workspaces"]),
        )
