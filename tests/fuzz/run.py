"""Loops that look for wrong answers: `python tests/fuzz/run.py LOOP [--cases N] [--seed S] [--again CASE]`.

A loop is a module `loop_NAME.py` of this folder with `cases(seed, count)`, an iterator of cases whose text is enough to
make them again, `check(case)`, which returns what is wrong in one line or None, and `parse(text)`. A loop that needs
something open, such as a device, has a context manager `opened()`, in which its cases are checked. An exception is a
failure. Failures are printed with the seed; the exit code is 1 if there are any that ledger.txt does not list.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

Checked = tuple[list[tuple[str, str]], int]
"""Failing cases with what is wrong, and how many cases were checked."""
FOLDER = Path(__file__).parent
LOOPS = tuple(sorted(path.stem.removeprefix("loop_") for path in FOLDER.glob("loop_*.py")))


def loop(name: str) -> ModuleType:
    """The module of a loop."""
    sys.path[:0] = [str(each) for each in (FOLDER, FOLDER.parent) if str(each) not in sys.path]
    return importlib.import_module(f"loop_{name}")


def ledger() -> frozenset[str]:
    """The known failures, each `NAME CASE`."""
    lines = (FOLDER / "ledger.txt").read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def failures(name: str, cases: Iterable[Any], seconds: float | None = None) -> Checked:
    """The failing cases with what is wrong, and how many cases were checked.

    Args:
        name: of the loop.
        cases: its cases.
        seconds: after which no further case is checked; None for all.
    """
    module, found, count = loop(name), list[tuple[str, str]](), 0
    end = None if seconds is None else time.monotonic() + seconds
    with getattr(module, "opened", contextlib.nullcontext)():
        for case in cases:
            if end is not None and time.monotonic() > end:
                break
            count += 1
            try:
                wrong = module.check(case)
            except Exception as failed:
                where = traceback.extract_tb(failed.__traceback__)[-1]
                wrong = f"{type(failed).__name__}: {failed} ({Path(where.filename).name}:{where.lineno})"
            if wrong is not None:
                found.append((str(case), " ".join(wrong.split())))
                print(f"{name} {case}\n    {found[-1][1][:500]}", flush=True)
    return found, count


def share(name: str, asked: tuple[int, int], part: tuple[int, int], seconds: float | None) -> Checked:
    """The failures among every n-th case of a seed and a number of cases, where `part` is (which, n)."""
    return failures(name, itertools.islice(loop(name).cases(*asked), part[0], None, part[1]), seconds)


def main() -> int:
    """Runs one loop and prints its failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="that share the cases")
    parser.add_argument("--seconds", type=float, help="end after so long, whatever is left")
    parser.add_argument("--again", metavar="CASE", help="check one case again, as it was printed")
    asked = parser.parse_args()
    if asked.again:
        checked = [failures(asked.loop, [loop(asked.loop).parse(asked.again)])]
    else:
        parts = range(asked.processes)
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes, before they import NumPy
        with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
            given = (asked.loop, (asked.seed, asked.cases))
            started = [pool.submit(share, *given, (part, asked.processes), asked.seconds) for part in parts]
            checked = [each.result() for each in started]
    found = [each for failing, _ in checked for each in failing]
    count = sum(checked_cases for _, checked_cases in checked)
    for kind, times in Counter(wrong.partition(":")[0] for _, wrong in found).most_common():
        print(f"{times} x {kind}")
    new = [case for case, _ in found if f"{asked.loop} {case}" not in ledger()]
    told = f"{count} cases from seed {asked.seed}, {len(found)} failed, {len(new)} of them not in the ledger"
    print(f"{asked.loop}: {told}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
