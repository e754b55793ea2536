"""Runs candidates on the host under the sanitizers, many in one process, which takes half a second to start."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from policies import ONE_RUN
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate.testbed import Testbed

PATIENCE_S = 240.0
"""Seconds before a run counts as hung. g++ takes over a minute for a large kernel under sanitizers if tests share the
cores.
"""
RIGHT = "right"


def check(cases: Sequence[tuple[Problem, Program]], folder: Path) -> None:
    """Verifies each program as a worker with `--sanitize` does. Fails on an access outside a buffer or on undefined
    behaviour. Writes to `folder`.
    """
    compiler = HostCompiler(sanitize=True, timeout_s=PATIENCE_S)
    with ThreadPoolExecutor(2) as pool:
        binaries = list(pool.map(lambda case: compiler.compile_program(case[1]), cases))
    path = folder / "candidates"
    path.write_bytes(pickle.dumps([(*case, made) for case, made in zip(cases, binaries, strict=True)]))
    done = subprocess.run(
        [sys.executable, __file__, str(path)],
        env={**os.environ, **compiler.sanitizer_environment()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    told = done.stdout.splitlines()
    assert done.returncode == 0, f"{told[-1:]}: {done.stderr}"
    assert told[1::2] == [RIGHT] * len(cases), done.stdout


def main(path: str) -> None:
    """Verifies the programs that `check` compiled. Prints each candidate's name before its outcome."""
    candidates: list[tuple[Problem, Program, Binaries]] = pickle.loads(Path(path).read_bytes())
    runtime = HostRuntime(workers=1)
    for problem, program, binaries in candidates:
        print(problem.key(), program.family, program.config, flush=True)
        # No guards, because the sanitizer watches the memory beside a buffer.
        testbed = Testbed(runtime, problem, 0, ONE_RUN, guarded=False)
        outcome = testbed.evaluate(program, binaries, ONE_RUN).outcome
        print(RIGHT if isinstance(outcome, Measurement) else outcome, flush=True)
        testbed.close()
    runtime.close()


if __name__ == "__main__":
    main(sys.argv[1])
