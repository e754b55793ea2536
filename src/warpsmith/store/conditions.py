"""Conditions of a timing: how the work reached the device, and where its data were."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from typing import Self


class Launched(enum.StrEnum):
    """How timed work reached the device. Look-ups prefer earlier members."""

    QUEUED = "queued first"
    """Launch by launch, with all launches of a sample queued before it begins, so that launch overhead is not
    measured.
    """
    EAGER = "eager"
    """Launch by launch, not queued before."""
    GRAPH = "CUDA graph"
    """A whole sample as one CUDA graph, whose launches are cheaper."""


class Cached(enum.StrEnum):
    """Location of the data of timed work. Look-ups prefer earlier members."""

    COLD = "cold L2"
    """Outside the L2 cache."""
    WARM = "warm caches"
    """Wherever the run before left them."""


SAME_BUFFERS = "same buffers"
"""Policy word for a time taken on one set of buffers, whatever its size."""
THROTTLED = "throttled"
"""Policy word for a time taken while a power or temperature limit reduced the clocks."""
UNKNOWN = "unknown"
"""Conditions of a time whose policy does not state them."""
ANY = "any"
"""Conditions of a trial without a time: a failure holds under all conditions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions under which a time was taken. Only times under equal conditions are compared, and each has its own
    winner.
    """

    launched: Launched
    cached: Cached

    @classmethod
    def of(cls, policy: str, *, flushes: bool = False) -> Self | None:
        """Parses `Timing.policy`; None if it does not state the conditions.

        Args:
            policy: a policy such as `median, 5 runs a sample, queued first, in turns, cold L2`.
            flushes: whether one set of buffers flushes the cache by its own size, so that SAME_BUFFERS means a cold
                cache.
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
"""All conditions as text, in the order in which a look-up prefers them: those of a plain `tune` come first."""


def rank(conditions: str) -> int:
    """Place of conditions in USUAL_FIRST; unknown ones come last."""
    return USUAL_FIRST.index(conditions) if conditions in USUAL_FIRST else len(USUAL_FIRST)


@functools.lru_cache(maxsize=256)
def conditions_key(policy: str) -> str:
    """Conditions of `Timing.policy` as a winner's key: one of USUAL_FIRST."""
    return str(Conditions.of(policy) or UNKNOWN)


def is_throttled(policy: str) -> bool:
    """True if a time was taken while a power or temperature limit reduced the clocks."""
    return THROTTLED in policy.split(", ")


def flushes_cache(set_bytes: int, l2_bytes: int) -> bool:
    """True if a reused set of buffers is outside the L2 cache at each use, because it is at least twice as large."""
    return set_bytes >= 2 * l2_bytes
