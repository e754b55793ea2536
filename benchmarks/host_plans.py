"""Creates and runs many plans of distinct programs on the host device in one process, and prints its resources.

    python benchmarks/host_plans.py 2000

Every 100 plans it prints memory areas, open files, threads and resident MiB of the process. Linux gives a process
65,530 memory areas, and most shells 1,024 open files.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import warpsmith as ws
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.registry import random_operands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    count: int = parser.parse_args().count
    plans: list[Plan] = []
    families: set[str] = set()
    started = time.monotonic()
    for number, problem in enumerate(itertools.islice(_problems(), count), 1):
        plan = ws.plan(problem, device="host")
        operands = random_operands(problem, seed=number)
        plan(*(operands[each.name] for each in problem.inputs))
        plans.append(plan)
        families.add(plan.match.program.family)
        if number % 100 == 0 or number == count:
            print(f"{number} plans, {time.monotonic() - started:.0f} s: {kept()}", flush=True)
    print(f"families: {', '.join(sorted(families))}")


def _problems() -> Iterator[ws.Problem]:
    """Distinct small problems of all operations."""
    for a in range(40):
        for b in range(40):
            yield ws.Filter2d(image=(16 + a, 16 + b), filter=(3, 1 + b % 5))
            yield ws.Fft(size=(4 + a % 20, 4 + b % 20), batch=2 + 2 * (a // 20) + b // 20)
            yield ws.Conv2d(input=(1, 1 + a % 4, 6 + a, 6 + b), weight=(1 + b % 3, 1 + a % 4, 3, 3), padding=1)
            yield ws.Cgemm(2, 1 + a, 1 + b, 1 + (a + b) % 7)


def kept() -> str:
    """Resources of this process, as text."""
    own = Path("/proc/self")
    areas = len((own / "maps").read_text().splitlines())
    files, threads = (len(list((own / each).iterdir())) for each in ("fd", "task"))
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return f"{areas} areas of memory, {files} open files, {threads} threads, {resident} MiB"


if __name__ == "__main__":
    main()
