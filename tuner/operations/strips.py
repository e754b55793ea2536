"""Work on large arrays, strip by strip on many cores, and lengths that are fast to transform."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from warpsmith.devices.host.machine import cores
from warpsmith.errors import OutOfMemory

STRIP_BYTES = 1 << 20
"""Bytes of a strip, about: a strip stays in a core's cache, and threads seldom wait for the interpreter lock. With
strips of 64 KB, 16 cores took 9.2 s for a 12288x12288 image; with these, 1.6 s.
"""
_MOST_THREADS = 16
"""Largest number of threads; so many share the memory bandwidth, and the interpreter lock between two calls."""
MOST_BYTES = 4 << 30
"""Bytes that a reference on the host may take in all, for results and scratch memory. The processes of a search and of
its finals compute their references at the same time, on machines that others use too.
"""


def threads() -> int:
    """Number of threads that work on strips at once."""
    return min(cores(), _MOST_THREADS)


def room_beside(numbers: int, copies: int = 2) -> int:
    """Bytes of scratch memory left beside `copies` arrays of `numbers` float64 numbers.

    Raises OutOfMemory if less than a sixteenth of MOST_BYTES is left.
    """
    room = MOST_BYTES - 8 * copies * numbers
    if room < MOST_BYTES // 16:
        taken, most = 8 * copies * numbers / 2**30, MOST_BYTES / 2**30
        raise OutOfMemory(
            f"the float64 reference of {numbers:,} numbers takes {taken:.1f} GiB of the host's memory, and may take "
            f"{most:.1f}: split the problem, or tune it on a GPU, which makes its own"
        )
    return room


def for_each_strip(
    rows: int, row_bytes: int, work: Callable[[slice], None], *, scratch_bytes: int = 0, room: int = MOST_BYTES
) -> None:
    """Calls `work` on slices that cover `rows` rows, on many cores: NumPy releases the interpreter lock in its loops.

    If each call takes `scratch_bytes`, only as many run at once as fit into `room` bytes.
    """
    step = max(1, STRIP_BYTES // max(1, row_bytes))
    slices = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    if len(slices) == 1:  # threads cost more than a small problem
        _unwarned(work, slices[0])
        return
    with ThreadPoolExecutor(max(1, min(threads(), room // max(1, scratch_bytes)))) as pool:
        for _ in pool.map(functools.partial(_unwarned, work), slices):
            pass


def _unwarned(work: Callable[[slice], None], part: slice) -> None:
    """Calls `work` without NumPy's warnings about values that are not finite, which stress data contain."""
    with np.errstate(invalid="ignore", over="ignore"):
        work(part)


def quick_length(least: int) -> int:
    """The least number, from `least` on, whose only prime factors are 2, 3 and 5."""
    size = least
    while True:
        left = size
        for prime in (2, 3, 5):
            while left % prime == 0:
                left //= prime
        if left == 1:
            return size
        size += 1
