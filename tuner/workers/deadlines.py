"""Deadlines of worker processes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines in seconds. A candidate's deadlines follow the times of the best candidate so far."""

    compile_s: float = 60.0
    """Seconds for a compilation while no candidate has succeeded. No compilation gets more."""
    least_compile_s: float = 10.0
    """Seconds added to `compile_factor` times the best compile time: room for a loaded machine."""
    compile_factor: float = 20.0
    """Factor on the best candidate's compile time that a compilation may take."""
    first_run_s: float = 120.0
    """Seconds for a candidate while none has succeeded."""
    least_run_s: float = 10.0
    """Seconds added to `run_factor` times the fastest evaluation."""
    run_factor: float = 20.0
    """Factor on the fastest evaluation so far that a candidate may take, beside `least_run_s`."""
    setup_s: float = 900.0
    """Seconds for laying out a problem: the float64 reference of a large image takes minutes on few cores."""

    def of_compilation(self, best_s: float | None) -> float:
        """Seconds for one compilation; `best_s` is the compile time of the best candidate so far."""
        if best_s is None:
            return self.compile_s
        return min(self.compile_s, self.least_compile_s + self.compile_factor * best_s)

    def of_run(self, fastest_s: float | None) -> float:
        """Seconds for verifying and timing one candidate; `fastest_s` is the fastest evaluation so far."""
        return self.first_run_s if fastest_s is None else self.least_run_s + self.run_factor * fastest_s
