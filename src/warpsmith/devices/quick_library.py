"""The course of a quick call, which is the same for every array library: what differs are the readers of its arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from warpsmith.devices.arrays import ALIGNMENT, stream_handle
from warpsmith.devices.base import Allocation
from warpsmith.devices.calls import QuickCalls
from warpsmith.devices.quick_values import Values
from warpsmith.devices.signature import TEXTURE_ALIGNMENT, Signature
from warpsmith.generator.problem import Operand

AddressOf = Callable[[Any], int]
"""Where an array lies; 0, or a RuntimeError, where it is not just what is expected, so that `AnyCalls` has to look."""

Launch = Callable[[tuple[int, ...], tuple[bytes, ...], int | None, Allocation | None], None]
"""`Launches.launch`."""


CurrentStream = Callable[[], int | None]
"""Gives the handle of the stream that a library orders its work on; None on a device without streams."""


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """How the arrays of one library on one device are read and made."""

    address_of: Callable[[Operand, int], AddressOf]
    """Makes what reads an operand's arrays, which must start at a multiple of so many bytes."""
    values: Values
    empty: Callable[[], tuple[Any, int]]
    """Makes an uninitialised result; the array and its address."""
    mark_written: Callable[[tuple[Any, ...]], None] | None
    """Tells the library that arrays are written to; a RuntimeError leaves the call to `AnyCalls`."""
    current_stream: CurrentStream
    on_host: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Readers:
    """What reads the arrays of a program's calls that kernels take by their addresses."""

    pointed: tuple[tuple[int, AddressOf, int], ...]
    """Of the inputs: the place among those of a call, what reads it, and the bytes that it spans."""
    result: tuple[AddressOf, int]

    @classmethod
    def of(cls, library: Library, signature: Signature) -> Readers:
        """Those of arrays that lie where they are used, with the operands' own shapes, strides and dtypes."""

        def reader(operand: Operand) -> tuple[AddressOf, int]:
            textured = operand.name in signature.textured and not library.on_host
            return library.address_of(operand, TEXTURE_ALIGNMENT if textured else ALIGNMENT), operand.span_bytes

        pointed = tuple((each.place, *reader(each.operand)) for each in signature.pointed)
        return cls(pointed, reader(signature.outputs[0]))


def python_calls(library: Library, signature: Signature, launch: Launch) -> QuickCalls:
    """Calls in Python alone. `native_calls.NativeCalls` does the same.

    Args:
        library: of the arrays.
        signature: of the program.
        launch: queues its kernels.
    """
    # Variables of this function, not attributes: a call reads twenty of them, in 2 ns each instead of 10.
    count, readers = len(signature.asked), Readers.of(library, signature)
    pointed, (address_of_result, span_of_result) = readers.pointed, readers.result
    values_of, empty, mark_written = library.values, library.empty, library.mark_written
    current_stream = library.current_stream

    def call(inputs: tuple[Any, ...], out: Any, stream: object, scratch: Allocation | None = None) -> Any | None:
        if len(inputs) != count:
            return None
        chosen = current_stream()
        if stream is not None and stream_handle(stream) != chosen:
            return None  # the launch must wait for the stream of the arrays' owner
        values, addresses = values_of(inputs), []
        target = end = 0
        try:
            if out is not None:
                target = address_of_result(out)
                if not target:
                    return None
                end = target + span_of_result
            for place, address_of_input, span in pointed:
                source = address_of_input(inputs[place])
                if not source or (source < end and target < source + span):
                    return None
                addresses.append(source)
            if out is None:
                out, target = empty()
            elif mark_written is not None:
                mark_written((out,))
        except RuntimeError:
            return None
        addresses.append(target)
        launch(tuple(addresses), values, chosen, scratch)
        return out

    return call
