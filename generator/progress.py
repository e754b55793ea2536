"""Counters in global memory by which blocks of one launch wait for what others have done.

`templates/shared/progress.cu.jinja` has the kernel that sets them to zero before such a launch, and the waits.
"""

from __future__ import annotations

from warpsmith.generator.steps import Launch, Pointer

PROGRESS = "progress"
"""The workspace for the counters."""
COUNTER_BYTES = 4


def counter_bytes(counters: int) -> int:
    """Of so many counters."""
    return COUNTER_BYTES * counters


def begin_launch(family: str, threads: int) -> Launch:
    """What sets all counters of a family's program to zero, by one block."""
    return Launch.of_blocks(f"{family}_begin", 1, threads, (Pointer(PROGRESS),))
