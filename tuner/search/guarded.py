"""Spaces whose rules may fail: an error in a rule refuses a config, and ends no search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from warpsmith.generator.branching_space import BranchingSpace
from warpsmith.generator.space import Constraint, Space, Value


def guarded(space: Space, note: Callable[[Exception], None]) -> Space:
    """The space with rules that refuse values for which they raise an error; each error goes to `note`."""
    if isinstance(space, BranchingSpace):
        return space.changed(lambda branch: guarded(branch, note), note)
    return Space(space.parameters, tuple(_guarded(rule, note) for rule in space.constraints))


def _guarded(rule: Constraint, note: Callable[[Exception], None]) -> Constraint:
    holds = rule.holds

    def checked(*values: Value) -> bool:
        try:
            return holds(*values)
        except Exception as error:
            note(error)
            return False

    return dataclasses.replace(rule, holds=checked, reads=rule.parameters)
