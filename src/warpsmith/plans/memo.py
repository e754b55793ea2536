"""Cache of plans by problem, device, store and method, valid while the stores are unchanged."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.plan import Plan
from warpsmith.store.changes import OWN_WRITES, State, state_of

MOST_PLANS = 64
"""Largest number of cached plans, with their code on the device; the least recently requested one is dropped."""

LOOK_EVERY_S = 0.005
"""Seconds for which a plan is returned without checking the stores' files: a check takes 40 us. Writes by this process
are seen at once.
"""


Key = tuple[Problem, str, str | None, str, str | None]
"""Problem, device, store, method and the `verify` argument of a plan. Device and store are as the user named them, the
store by argument or environment. The environment's `verify` is read only when a plan is made: reading it takes 1 us,
and a cached plan is found in 3 us.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Before:
    """State of the stores before they were read."""

    state: State | None
    writes: int

    @classmethod
    def of(cls, store: str | None) -> Before:
        """The current state."""
        writes = OWN_WRITES.count
        return cls(state_of(store), writes)


class _Kept:
    """A cached plan and the state that it was made from."""

    __slots__ = ("fresh_until", "plan", "ref", "state", "used", "writes")

    def __init__(self, plan: Plan, ref: DeviceRef, state: State, writes: int, now: float) -> None:
        self.plan = plan
        self.ref = ref
        self.state = state
        self.writes = writes
        self.fresh_until = now + LOOK_EVERY_S
        self.used = now


class PlanMemo:
    """Cache of this process's plans. Thread-safe. A forked child must call `forget`, since it has no GPU.

    Args:
        clock: monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Key, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Plan | None:
        """The cached plan for a problem, device, store and method as they were named; None if it must be made anew.

        Raises BadArgument or DeviceError as `DeviceRef.parse` does.
        """
        kept = self._kept.get(key)
        if kept is None:
            return None
        now = self._clock()
        if now < kept.fresh_until and kept.writes == OWN_WRITES.count:
            kept.used = now
            return kept.plan
        return kept.plan if self._is_good(key, kept, now) else None

    def _is_good(self, key: Key, kept: _Kept, now: float) -> bool:
        """True if everything that the plan was made from is unchanged."""
        _, device, store, *_ = key
        writes = OWN_WRITES.count  # read before the check: a write in between is seen at the next one
        if DeviceRef.parse(device) != kept.ref or state_of(store) != kept.state:
            return False
        kept.writes, kept.fresh_until, kept.used = writes, now + LOOK_EVERY_S, now
        return True

    def earlier(self, key: Key, ref: DeviceRef) -> Plan | None:
        """The plan made last for the same request on the same device, even if the stores changed since."""
        kept = self._kept.get(key)
        return kept.plan if kept is not None and kept.ref == ref else None

    def put(self, key: Key, plan: Plan, ref: DeviceRef, before: Before) -> None:
        """Caches a plan that was made from the stores' state `before`; a plan from a store on a server is not
        cached.
        """
        if before.state is None:
            return
        self._kept[key] = _Kept(plan, ref, before.state, before.writes, self._clock())
        while len(self._kept) > MOST_PLANS:
            oldest = min(self._kept.copy().items(), key=lambda item: item[1].used)[0]
            self._kept.pop(oldest, None)

    def forget(self) -> None:
        self._kept = {}
