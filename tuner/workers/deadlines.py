"""How long a worker may take."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines in seconds. A candidate's own follow those of the best so far."""

    compile_s: float = 60.0
    """For a compilation while no candidate has succeeded yet."""
    least_compile_s: float = 10.0
    """For one after that, beside its factor: room for a loaded machine."""
    compile_factor: float = 20.0
    """A compilation may take this many times as long as that of the best candidate."""
    first_run_s: float = 120.0
    """For a candidate while none has succeeded yet."""
    least_run_s: float = 10.0
    """For a candidate once one has succeeded in no time."""
    run_factor: float = 20.0
    """A candidate may take this many times as long as the fastest evaluation so far, beside `least_run_s`."""
    setup_s: float = 900.0
    """For laying out a problem: the float64 reference of a large image takes minutes on few cores."""

    def of_compilation(self, best_s: float | None) -> float:
        """Of one program, where the best so far took `best_s` to compile."""
        if best_s is None:
            return self.compile_s
        return min(self.compile_s, self.least_compile_s + self.compile_factor * best_s)

    def of_run(self, fastest_s: float | None) -> float:
        """Of one candidate's verification and timing, where the fastest so far took `fastest_s`."""
        return self.first_run_s if fastest_s is None else self.least_run_s + self.run_factor * fastest_s
