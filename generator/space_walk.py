"""Walk over the legal choices of a space's values, depth first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

Value = int | str

MOST_STEPS = 1_000_000
"""Most values that a search for one legal config tries in a part of a space, in 0.5 s; a config that exists takes a few
thousand."""


class Rule(Protocol):
    """A constraint, as a walk sees it."""

    @property
    def parameters(self) -> tuple[str, ...]: ...

    @property
    def accepts(self) -> Callable[[Mapping[str, Value]], bool]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class WalkDepth:
    """One parameter of a walk."""

    name: str
    rules: tuple[tuple[Callable[[Mapping[str, Value]], bool], int], ...]
    """Rules that can be checked once it is chosen, each with a bit mask of the parameters that it reads: 1 is the
    first."""


@dataclasses.dataclass(frozen=True, slots=True)
class WalkPart:
    """Parameters of a space that rules tie together."""

    places: tuple[int, ...]
    """Indices among the parameters of the space, in the order in which they are chosen."""
    walk: tuple[WalkDepth, ...]

    def first(self, orders: Sequence[Sequence[Value]]) -> dict[str, Value] | None:
        """First legal values, after at most MOST_STEPS values; None if there are none."""
        return next(legal_choices(self.walk, orders, MOST_STEPS), None)


def walk_of(names: Sequence[str], due: Sequence[Sequence[Rule]]) -> tuple[WalkDepth, ...]:
    """Depths of a walk over `names`; `due` has the rules that can be checked once each parameter is chosen."""
    bits = {name: 1 << depth for depth, name in enumerate(names)}
    return tuple(
        WalkDepth(name, tuple((rule.accepts, sum(bits[each] for each in {*rule.parameters})) for rule in rules))
        for name, rules in zip(names, due, strict=True)
    )


def legal_choices(
    walk: Sequence[WalkDepth], orders: Sequence[Sequence[Value]], most_steps: int | None = None
) -> Iterator[dict[str, Value]]:
    """Every legal choice of values, depth first, as one dictionary that changes with each step.

    If no value of a parameter is left, the walk goes back to the last parameter that had a part in ruling one out, not
    to the one before it, whose other values would fail alike (conflict-directed backjumping: Prosser 1993,
    "Hybrid Algorithms for the Constraint Satisfaction Problem"). The choices and their order are the same.

    Args:
        walk: the parameters, in the order in which they are chosen.
        orders: for each parameter, its values in the order in which they are tried.
        most_steps: values that are tried in all before the walk gives up; None without a limit.
    """
    chosen: dict[str, Value] = {}
    steps = 0
    untried = [iter(orders[0])]
    blamed = [0] * len(walk)  # bit masks of the parameters whose values ruled out values of this one
    while True:
        depth = len(untried) - 1
        name, rules = walk[depth].name, walk[depth].rules
        for chosen[name] in untried[-1]:
            steps += 1
            if steps == most_steps:
                return
            for accepts, read in rules:  # all() of a generator takes half as long again
                if not accepts(chosen):
                    blamed[depth] |= read
                    break
            else:
                break
        else:
            earlier = blamed[depth] & ((1 << depth) - 1)
            if not earlier:
                return
            back = earlier.bit_length() - 1
            blamed[back] |= earlier
            del untried[back + 1 :]
            continue
        if len(untried) < len(walk):
            untried.append(iter(orders[depth + 1]))
            blamed[depth + 1] = 0
        else:
            yield chosen
            blamed = [(1 << place) - 1 for place in range(len(walk))]  # then one step back at a time
