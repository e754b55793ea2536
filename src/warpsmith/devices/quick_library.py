"""The course of a quick call, which is the same for every array library: what differs are the readers of its arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from warpsmith.devices.arrays import ALIGNMENT, stream_handle
from warpsmith.devices.calls import QuickCalls, Ready
from warpsmith.devices.quick_values import Values
from warpsmith.devices.signature import TEXTURE_ALIGNMENT, Signature
from warpsmith.generator.problem import Operand

AddressOf = Callable[[Any], int]
"""Where an array lies; 0, or a RuntimeError, where it is not just what is expected, so that `AnyCalls` has to look."""


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """How the arrays of one library on one device are read and made."""

    address_of: Callable[[Operand, int], AddressOf]
    """Makes what reads an operand's arrays, which must start at a multiple of so many bytes."""
    values: Values
    empty: Callable[[], tuple[Any, int]]
    """Makes an uninitialised result; the array and its address."""
    mark_written: Callable[[Any], None] | None
    """Tells the library that an array is written to; a RuntimeError leaves the call to `AnyCalls`."""
    current_stream: Callable[[], int | None]
    """Gives the handle of the stream that the library orders its work on; None on a device without streams."""
    on_host: bool


def quick_calls_of(library: Library, signature: Signature) -> QuickCalls:
    """Reads calls whose arrays lie where they are used, with the operands' own shapes, strides and dtypes."""

    def address_of(operand: Operand) -> AddressOf:
        textured = operand.name in signature.textured and not library.on_host
        return library.address_of(operand, TEXTURE_ALIGNMENT if textured else ALIGNMENT)

    # Variables of this function, not attributes: a call reads twenty of them, in 2 ns each instead of 10.
    count = len(signature.asked)
    pointed = [(each.place, address_of(each.operand), each.operand.span_bytes) for each in signature.pointed]
    address_of_result, span_of_result = address_of(signature.outputs[0]), signature.outputs[0].span_bytes
    values_of, empty, mark_written = library.values, library.empty, library.mark_written
    current_stream = library.current_stream

    def read(inputs: tuple[Any, ...], out: Any, stream: object) -> Ready | None:
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
                mark_written(out)
        except RuntimeError:
            return None
        addresses.append(target)
        return out, tuple(addresses), values, chosen

    return read
