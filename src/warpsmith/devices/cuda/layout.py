"""Where the launches of a program find their arguments at each call."""

from __future__ import annotations

import dataclasses

from warpsmith.devices.base import argument_bytes, given
from warpsmith.devices.cuda.tensor_map import MAP_BYTES, tensor_map_bytes
from warpsmith.devices.launches import Brought
from warpsmith.devices.native import ArgumentKind, PlacedArgument
from warpsmith.devices.workspaces import Block
from warpsmith.generator.program import Argument, Launch, Pointer, Program, TensorMap

ADDRESS_BYTES = 8
IN_MEMORY = (ArgumentKind.ADDRESS, ArgumentKind.MAP)
ANY_ADDRESS = 1 << 20
"""Of a map, until a call brings one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Each argument as an address that a call brings and an offset, or as bytes."""

    arguments: tuple[tuple[PlacedArgument, ...], ...]
    """Of each launch, in order."""
    words: tuple[tuple[int, int], ...]
    """What some launch takes as an address, or a map's, once each: the place of one that a call brings, and bytes from
    there on."""
    taken: tuple[tuple[Launch, Argument], ...]
    """What some launch takes as bytes."""
    brought: Brought

    @classmethod
    def of(cls, program: Program, brought: Brought, scratch: Block) -> Layout:
        """That of a program.

        Args:
            program: whose launches take no textures.
            brought: what a call brings, and what is there already.
            scratch: the CALL workspaces, whose address is behind those of `brought`.

        Raises LaunchError where a launch takes something that is none of these.
        """
        places = {name: (place, 0) for place, name in enumerate(brought.buffers)}
        places |= {name: (len(brought.buffers), offset) for name, offset in scratch.offsets.items()}
        taken: list[tuple[Launch, Argument]] = []

        def placed(launch: Launch, argument: Argument) -> PlacedArgument:
            if isinstance(argument, Pointer | TensorMap) and argument.buffer not in brought.kept:
                place, start = given(launch, argument.buffer, places)
                if isinstance(argument, TensorMap):
                    return PlacedArgument(ArgumentKind.MAP, place, start, tensor_map_bytes(argument, ANY_ADDRESS))
                return PlacedArgument(ArgumentKind.ADDRESS, place, start + argument.offset)
            taken.append((launch, argument))
            return PlacedArgument(ArgumentKind.BYTES, len(taken) - 1)

        arguments = tuple(tuple(placed(launch, each) for each in launch.arguments) for launch in program.launches)
        words = {(each.place, each.offset): None for listed in arguments for each in listed if each.kind in IN_MEMORY}
        return cls(arguments, tuple(words), tuple(taken), brought)

    def contents(self, values: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """What launches take as bytes, of the values that a call brings."""
        of_call = dict(zip(self.brought.operands, values, strict=True))
        kept = self.brought.kept
        return tuple(
            argument_bytes(launch, argument, kept, of_call, {}, tensor_map_bytes) for launch, argument in self.taken
        )

    @staticmethod
    def sizes(arguments: tuple[PlacedArgument, ...], contents: tuple[bytes, ...]) -> list[int]:
        """The bytes of a launch's arguments."""
        bytes_of = {ArgumentKind.ADDRESS: ADDRESS_BYTES, ArgumentKind.MAP: MAP_BYTES}
        return [bytes_of[each.kind] if each.kind in bytes_of else len(contents[each.place]) for each in arguments]
