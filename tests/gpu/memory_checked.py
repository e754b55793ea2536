"""Runs programs once each, on arrays as small as they can be: the part of a test that compute-sanitizer watches.

usage: compute-sanitizer python memory_checked.py FILE, a pickled list of (Problem, Program, Binaries).
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.executable import Executable
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program


def run(runtime: CudaRuntime, problem: Problem, program: Program, binaries: Binaries) -> None:
    """Launches the program on allocations that end where its operands end."""
    memory = {each.name: runtime.allocate(each.span_bytes) for each in problem.operands}
    for allocation in memory.values():
        runtime.fill(allocation.address, 0, allocation.nbytes)
    addresses = {name: allocation.address for name, allocation in memory.items()}
    values = {each.name: np.ones(each.shape, numpy_dtype(each.dtype)).tobytes() for each in problem.operands}
    executable = Executable.load(runtime, program, binaries)
    for each in executable.workspaces:
        memory[each.name] = runtime.allocate(each.nbytes)
    executable.bind(addresses, values, {each.name: memory[each.name].address for each in executable.workspaces})(None)
    runtime.synchronize()
    executable.close()
    for allocation in memory.values():
        runtime.free(allocation)


def main(path: str) -> None:
    cases: list[tuple[Problem, Program, Binaries]] = pickle.loads(Path(path).read_bytes())
    runtime = CudaRuntime(0)
    for case in cases:
        run(runtime, *case)
    runtime.close()
    print(f"{len(cases)} programs ran")


if __name__ == "__main__":
    main(sys.argv[1])
