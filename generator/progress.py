"""Counters in global memory through which blocks of one launch wait for the work of other blocks.

`templates/shared/progress.cu.jinja` has the waits, and the kernel that clears the counters before such a launch.
"""

from __future__ import annotations

from warpsmith.generator.steps import Launch, Pointer

PROGRESS = "progress"
"""Name of the workspace for the counters."""
COUNTER_BYTES = 4


def counter_bytes(counters: int) -> int:
    """Bytes of `counters` counters."""
    return COUNTER_BYTES * counters


def begin_launch(family: str, threads: int) -> Launch:
    """Launch of one block that sets all counters of a family's program to zero."""
    return Launch.of_blocks(f"{family}_begin", 1, threads, (Pointer(PROGRESS),))
