"""Runs packed filters, and filters with rows by indices, on places that lie anywhere, in a process of its own.

Each array lies between pages that nobody may touch, once at the end of its own pages and once at their start: an access
outside of it ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import warpsmith as ws
from warpsmith.generator.filter1d import Filter1d
from warpsmith.tuner.operations.registry import random_operands

PAGE = mmap.PAGESIZE
LEAST, MOST = -(2**31), 2**31 - 1
WILD = (
    (0, 0, 0, 0, 0, 0),
    (LEAST, LEAST, 5, MOST, MOST, MOST),
    (MOST, 7, LEAST, 40, -1, 41),
    (40, 30, 20, 10, 5, 0),
    (3, 9, 9, 12, 13, 20),
    (-5, 50, -5, 50, -5, 50),
)
PACKED = tuple(
    Filter1d(40, 4, mode="causal", channels=8, filters=8, packed=5, layout=layout, state=state)  # type: ignore[arg-type]
    for layout in ("bct", "btc")
    for state in (None, "both", "carried")
)
INDEXED = tuple(
    Filter1d(samples, 4, 6, mode="causal", channels=8, state="carried", state_rows=8, circular=circular)  # type: ignore[arg-type]
    for samples in (1, 20)
    for circular in (False, True)
)
_PROTECTED: list[mmap.mmap] = []
"""Maps that stay open until the process ends."""


def at_edge(array: NDArray[Any], *, at_end: bool) -> NDArray[Any]:
    """A copy between protected pages. Its size is a multiple of 16 bytes, or it lies at the start of a page."""
    pages = -(-array.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    _PROTECTED.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = PAGE + (pages * PAGE - array.nbytes if at_end and array.nbytes % 16 == 0 else 0)
    copy: NDArray[Any] = np.ndarray(array.shape, array.dtype, memory, offset)
    copy[...] = array
    protect = ctypes.CDLL(None).mprotect
    for page in (start, start + (pages + 1) * PAGE):
        assert protect(ctypes.c_void_p(page), PAGE, 0) == 0
    return copy


def places(problem: Filter1d) -> Iterator[dict[str, NDArray[np.int32]]]:
    """Contents of the operands that hold places, of which most lie nowhere."""
    for wild in WILD:
        if problem.packed is not None:
            yield {"starts": np.array(wild, np.int32)}
        else:
            yield {"indices": np.array(wild, np.int32), "positions": np.array(wild[::-1], np.int32)}


def main() -> None:
    count = 0
    for problem in (*PACKED, *INDEXED):
        short = {"bct": "filter1d_registers", "btc": "filter1d_channels"}[str(problem.layout)]
        other = short if problem.packed else "filter1d_step" if problem.signal < 9 else "filter1d_plain"
        for family in dict.fromkeys(("filter1d_plain", other)):
            plan = ws.plan(problem, device="host", method=family, verify="never")
            for wild in places(problem):
                drawn = {**random_operands(problem, 1), **wild}
                for at_end in (False, True):
                    arrays = [at_edge(drawn[each.name], at_end=at_end) for each in problem.inputs]
                    results = [
                        at_edge(np.zeros(each.shape, np.float32), at_end=at_end)
                        for each in problem.operands
                        if each.role == "output"
                    ]
                    plan(*arrays, out=results[0] if len(results) == 1 else tuple(results))
                    count += 1
    print(f"{count} calls stayed within their arrays")


if __name__ == "__main__":
    sys.exit(main())
