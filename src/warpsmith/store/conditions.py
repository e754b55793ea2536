"""Under which conditions a time was taken: how the work reached the device, and where it found its data."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from typing import Self


class Launched(enum.StrEnum):
    """How timed work reached the device. In the order of preference of an answer."""

    QUEUED = "queued first"
    """Launch by launch, all of a sample queued before it began: what launching costs is no part of the time."""
    EAGER = "eager"
    """Launch by launch."""
    GRAPH = "CUDA graph"
    """A whole sample as one graph, with its cheaper launches."""


class Cached(enum.StrEnum):
    """Where timed work found its data. In the order of preference of an answer."""

    COLD = "cold L2"
    """Outside the L2 cache."""
    WARM = "warm caches"
    """Wherever the run before had left it."""


SAME_BUFFERS = "same buffers"
"""How a time is told that was taken on one set of buffers of its own, whatever their size."""
THROTTLED = "throttled"
"""How a time is told that was taken while power or temperature held the clocks down."""
UNKNOWN = "unknown"
"""What stands in the place of conditions that a time does not tell of."""
ANY = "any"
"""What stands in their place for a trial that has no time: a failure is one under all conditions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """What must be equal for two times to be compared, and what winners are told apart by."""

    launched: Launched
    cached: Cached

    @classmethod
    def of(cls, policy: str, *, flushes: bool = False) -> Self | None:
        """The conditions that `Timing.policy` tells of; None where it does not tell.

        Args:
            policy: such as `median, 5 runs a sample, queued first, in turns, cold L2`.
            flushes: whether one set of buffers flushes the cache by its own size, so that SAME_BUFFERS were cold ones.
        """
        words = policy.split(", ")
        launched = next((each for each in Launched if each in words), None)
        cached = next((each for each in Cached if each in words), None)
        if cached is None and SAME_BUFFERS in words:
            cached = Cached.COLD if flushes else Cached.WARM
        return None if launched is None or cached is None else cls(launched, cached)

    def __str__(self) -> str:
        return f"{self.launched}, {self.cached}"


USUAL_FIRST: tuple[str, ...] = (
    *(str(Conditions(*each)) for each in itertools.product(Launched, Cached)),
    UNKNOWN,
)
"""All conditions as text, in the order in which a look-up asks for them: those of a plain `tune` come first."""


@functools.lru_cache(maxsize=256)
def conditions_key(policy: str) -> str:
    """The conditions of `Timing.policy` as winners are filed under them: one of USUAL_FIRST."""
    return str(Conditions.of(policy) or UNKNOWN)


def is_throttled(policy: str) -> bool:
    """Whether a time was taken while power or temperature held the clocks down."""
    return THROTTLED in policy.split(", ")


def flushes_cache(set_bytes: int, l2_bytes: int) -> bool:
    """Whether a set of buffers, used again and again, is outside the L2 cache at each use: it is twice as large."""
    return set_bytes >= 2 * l2_bytes
