"""The kernels that a search or a look-up is about: of one family or all, with any or some values of parameters."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.pins import NO_PINS, PinnedValues, Pins
from warpsmith.generator.problem import AUTO, check_method


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """A part of an operation's kernels."""

    method: str = AUTO
    """AUTO for every family, or the name of the only one."""
    pins: Pins = NO_PINS
    """Values of parameters that every config must have."""

    @classmethod
    def of(cls, method: str, parameters: PinnedValues | None) -> Selection:
        """The selection of the public functions' arguments. Raises BadArgument for arguments of another type."""
        check_method(method)
        return cls(method, Pins.of(parameters))

    def of_problem(self, problem_key: str) -> str:
        """Text for messages, such as `filter2d_window of image=... with rows=4`."""
        method = "" if self.method == AUTO else f"{self.method} of "
        return f"{method}{problem_key}{f' with {self.pins}' if self.pins else ''}"


EVERYTHING = Selection()
"""Every kernel."""
