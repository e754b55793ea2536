"""benchmarks/hops.py: what it counts, and ceilings of files and calls for every quick flow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import FOLDER, benchmark


@pytest.fixture(scope="module")
def hops() -> ModuleType:
    return benchmark("hops")


def module(path: Path, text: str, **names: object) -> dict[str, object]:
    """Namespace of a module run from a file's path."""
    found = dict(names)
    exec(compile(text, str(path), "exec"), found)
    return found


@pytest.fixture
def outer(tmp_path: Path) -> dict[str, object]:
    """A module of three files: outer calls middle, middle calls inner twice and fails on request."""
    inner = module(tmp_path / "inner.py", "def inner():\n    return 1")
    middle = module(tmp_path / "middle.py", "def middle(fails):\n    return inner() + inner() / (not fails)", **inner)
    text = """
def own(fails):
    return middle(fails)
def outer():
    return own(False)
def caught():
    for _ in range(3):
        try:
            own(True)
        except ZeroDivisionError:
            pass
"""
    return module(tmp_path / "outer.py", text, **middle)


def test_counts_files_calls_between_them_and_the_longest_chain(
    hops: ModuleType, outer: dict[str, object], tmp_path: Path
) -> None:
    with hops.Walk((str(tmp_path),)) as walk:
        outer["outer"]()  # type: ignore[operator]
    assert sorted(Path(name).name for name in walk.files) == ["inner.py", "middle.py", "outer.py"]
    assert (walk.calls, walk.chain) == (3, 3)


def test_an_exception_ends_a_chain(hops: ModuleType, outer: dict[str, object], tmp_path: Path) -> None:
    with hops.Walk((str(tmp_path),)) as walk:
        outer["caught"]()  # type: ignore[operator]
    assert (walk.calls, walk.chain) == (9, 3)


def test_counts_up_to_a_function(hops: ModuleType, outer: dict[str, object], tmp_path: Path) -> None:
    with hops.Walk((str(tmp_path),), outer["inner"].__code__) as walk:  # type: ignore[attr-defined]
        outer["outer"]()  # type: ignore[operator]
    assert (walk.calls, walk.chain) == (1, 2)


def test_tells_what_is_above_a_ceiling_or_has_none(hops: ModuleType) -> None:
    counts = {"a": hops.Count(10, 100, 5), "b": hops.Count(1, 0, 1)}
    ceilings = {"a": {"files": 10, "calls": 99, "chain": 5}}
    assert hops.above(counts, ceilings) == [
        "a: 100 calls, at most 99 allowed",
        "b: 1 files, at most 0 allowed",
        "b: 1 chain, at most 0 allowed",
    ]


def test_no_quick_flow_is_above_its_ceiling() -> None:
    command = [sys.executable, str(FOLDER / "hops.py"), str(FOLDER.parent), "--quick", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
