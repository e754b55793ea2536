"""The fast path of a call, which is the same for every array library except for how its arrays are read and made."""

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
"""Address of an array. It returns 0 or raises RuntimeError for an unexpected array, which `AnyCalls` must then
check.
"""

Launch = Callable[[tuple[int, ...], tuple[bytes, ...], int | None, Allocation | None], None]
"""The type of `Launches.launch`."""


CurrentStream = Callable[[], int | None]
"""Handle of the stream on which a library orders its work; None on a device without streams."""


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """Functions that read and make the arrays of one library on one device."""

    address_of: Callable[[Operand, int], AddressOf]
    """Makes the function that reads an operand's arrays. They must start at a multiple of the given number of bytes."""
    values: Values
    empty: Callable[[], tuple[Any, int]]
    """Makes an uninitialised result; returns the array and its address."""
    mark_written: Callable[[tuple[Any, ...]], None] | None
    """Tells the library that arrays are written to. A RuntimeError leaves the call to `AnyCalls`."""
    current_stream: CurrentStream
    on_host: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Readers:
    """Readers for the arrays of a program's calls that kernels take by address."""

    pointed: tuple[tuple[int, AddressOf, int], ...]
    """For each input: its index among the call's inputs, its reader, and the bytes that it spans."""
    result: tuple[AddressOf, int]

    @classmethod
    def of(cls, library: Library, signature: Signature) -> Readers:
        """Readers for arrays in device memory with the operands' own shapes, strides and dtypes."""

        def reader(operand: Operand) -> tuple[AddressOf, int]:
            textured = operand.name in signature.textured and not library.on_host
            return library.address_of(operand, TEXTURE_ALIGNMENT if textured else ALIGNMENT), operand.span_bytes

        pointed = tuple((each.place, *reader(each.operand)) for each in signature.pointed)
        return cls(pointed, reader(signature.outputs[0]))


def python_calls(library: Library, signature: Signature, launch: Launch) -> QuickCalls:
    """The fast path in Python. `native_calls.NativeCalls` does the same.

    Args:
        library: reads and makes the arrays.
        signature: signature of the program.
        launch: queues the program's kernels.
    """
    # Local variables instead of attributes: a call reads twenty of them, in 2 ns each instead of 10 ns.
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
