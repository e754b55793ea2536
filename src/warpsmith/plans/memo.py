"""Plans that were made before, by problem, device, store and method, for as long as the stores are as they were."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.plan import Plan
from warpsmith.store.changes import State, state_of
from warpsmith.store.own_writes import OWN_WRITES

MOST_PLANS = 64
"""Plans that are kept, with their code on the device; the one that was not asked for longest goes."""

LOOK_EVERY_S = 0.005
"""How long a plan is given out without a look at the stores' files: a look takes 40 us. What this process writes itself
is seen at once."""


Key = tuple[Problem, str, str | None, str, str | None]
"""The problem; the device and the store as the user named them, the latter by the argument or the environment; the
method; which answers are checked, by the argument alone. The environment's word for that is read when a plan is made:
to read it takes 1 us, and a plan that is kept is found in 3.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Before:
    """What the stores were like before they were asked."""

    state: State | None
    writes: int

    @classmethod
    def of(cls, store: str | None) -> Before:
        """What they are like now."""
        writes = OWN_WRITES.count
        return cls(state_of(store), writes)


class _Kept:
    """A plan, and what it was made from."""

    __slots__ = ("fresh_until", "plan", "ref", "state", "used", "writes")

    def __init__(self, plan: Plan, ref: DeviceRef, state: State, writes: int, now: float) -> None:
        self.plan = plan
        self.ref = ref
        self.state = state
        self.writes = writes
        self.fresh_until = now + LOOK_EVERY_S
        self.used = now


class PlanMemo:
    """The plans of this process. Threads may use it at the same time. A forked child has to `forget`: it has no GPU.

    Args:
        clock: monotonic, in s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Key, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Plan | None:
        """The plan for a problem, a device, a store and a method as they were named; None where it has to be made anew.

        Raises DeviceError as `DeviceRef.parse` does.
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
        """Whether what the plan was made from is as it was."""
        _, device, store, *_ = key
        writes = OWN_WRITES.count  # before the look: what is written meanwhile is seen at the next one
        if DeviceRef.parse(device) != kept.ref or state_of(store) != kept.state:
            return False
        kept.writes, kept.fresh_until, kept.used = writes, now + LOOK_EVERY_S, now
        return True

    def earlier(self, key: Key, ref: DeviceRef) -> Plan | None:
        """The plan that was made last for the same question on the same device, whatever was stored since."""
        kept = self._kept.get(key)
        return kept.plan if kept is not None and kept.ref == ref else None

    def put(self, key: Key, plan: Plan, ref: DeviceRef, before: Before) -> None:
        """Keeps a plan that was made from what the stores were like `before`; not one of a server's store."""
        if before.state is None:
            return
        self._kept[key] = _Kept(plan, ref, before.state, before.writes, self._clock())
        while len(self._kept) > MOST_PLANS:
            oldest = min(self._kept.copy().items(), key=lambda item: item[1].used)[0]
            self._kept.pop(oldest, None)

    def forget(self) -> None:
        """Lets go of all plans."""
        self._kept = {}
