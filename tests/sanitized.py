"""Runs candidates on the host under the sanitizers, many in one process, which takes half a second to start."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forking
from joined import compiled_as_one
from policies import ONE_RUN
from together import at_once
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement, Timing
from warpsmith.tuner.evaluate.testbed import Testbed

PATIENCE_S = 240.0
"""Seconds before a run counts as hung. g++ takes over a minute for a large kernel under sanitizers if tests share the
cores.
"""
RIGHT = "right"
Candidate = tuple[Problem, Program, Binaries]


class Untimed(Testbed):
    """Testbed that runs a candidate on its two data sets and no more: timed runs access the same memory again."""

    def _timed(self, *given: Any) -> Measurement | Failure:
        _, _, _, error, *_ = given
        return Measurement(Timing(math.nan, math.nan, math.nan, 0, "untimed"), error, None, None, None, None)


def check(cases: Sequence[tuple[Problem, Program]], folder: Path) -> None:
    """Verifies each program as a worker with `--sanitize` does, without timed runs. Fails on an access outside a buffer
    or on undefined behaviour. Writes to `folder`.
    """
    compiler = HostCompiler(sanitize=True, timeout_s=PATIENCE_S)
    path = folder / "candidates"
    path.write_bytes(pickle.dumps(_compiled(cases, compiler)))
    done = forking.run(
        [sys.executable, __file__, str(path)],
        env={**os.environ, **compiler.sanitizer_environment()},
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    told = done.stdout.splitlines()
    assert done.returncode == 0, f"{told[-1:]}: {done.stderr}"
    assert told[1::2] == [RIGHT] * len(cases), done.stdout


def _compiled(cases: Sequence[tuple[Problem, Program]], compiler: HostCompiler) -> list[Candidate]:
    """Candidates and their binaries. Kernels are compiled as one text where they can be: g++ then takes a quarter as
    long, because the functions of the host's headers are instrumented once. A launch may use no more than its own
    dynamic shared memory even so.
    """
    groups = at_once([program for _, program in cases])
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda group: compiled_as_one(compiler, [cases[number][1] for number in group]), groups)
        found = dict(zip(itertools.chain(*groups), itertools.chain.from_iterable(made), strict=True))
    return [(problem, *found[number]) for number, (problem, _) in enumerate(cases)]


def main(path: str) -> None:
    """Verifies the programs that `check` compiled. Prints each candidate's name before its outcome."""
    candidates: list[Candidate] = pickle.loads(Path(path).read_bytes())
    runtime = HostRuntime(workers=1)
    for problem, program, binaries in candidates:
        print(problem.key(), program.family, program.config, flush=True)
        # No guards, because the sanitizer watches the memory beside a buffer.
        testbed = Untimed(runtime, problem, 0, ONE_RUN, guarded=False)
        outcome = testbed.evaluate(program, binaries, ONE_RUN).outcome
        print(RIGHT if isinstance(outcome, Measurement) else outcome, flush=True)
        testbed.close()
    runtime.close()


if __name__ == "__main__":
    main(sys.argv[1])
