"""Finds where each launch of a program gets its arguments from at each call."""

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
"""Address from which a tensor map is encoded until a call brings one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Source of each argument: an address that a call brings plus an offset, or bytes."""

    arguments: tuple[tuple[PlacedArgument, ...], ...]
    """The arguments of each launch, in order."""
    words: tuple[tuple[int, int], ...]
    """Distinct (index, offset in bytes) pairs of the addresses that launches take directly or in a tensor map. The
    index counts a call's addresses.
    """
    taken: tuple[tuple[Launch, Argument], ...]
    """The arguments that launches take as bytes."""
    brought: Brought

    @classmethod
    def of(cls, program: Program, brought: Brought, scratch: Block) -> Layout:
        """Makes the layout of a program.

        Args:
            program: a program whose launches take no textures.
            brought: operands that a call brings, and buffers with fixed addresses.
            scratch: the CALL workspaces, whose address comes after those of `brought`.

        Raises LaunchError if a launch takes a buffer that is none of these.
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
        """Bytes of each argument in `taken`, from the values that a call brings."""
        of_call = dict(zip(self.brought.operands, values, strict=True))
        kept = self.brought.kept
        return tuple(
            argument_bytes(launch, argument, kept, of_call, {}, tensor_map_bytes) for launch, argument in self.taken
        )

    @staticmethod
    def sizes(arguments: tuple[PlacedArgument, ...], contents: tuple[bytes, ...]) -> list[int]:
        """Bytes of each argument of a launch."""
        bytes_of = {ArgumentKind.ADDRESS: ADDRESS_BYTES, ArgumentKind.MAP: MAP_BYTES}
        return [bytes_of[each.kind] if each.kind in bytes_of else len(contents[each.place]) for each in arguments]
