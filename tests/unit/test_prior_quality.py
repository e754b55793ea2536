"""benchmarks/prior_quality.py: it reads back what it writes, and its ratios equal those of the trials."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import family_named
from warpsmith.store.trials import Sample

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "prior_quality.py"


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prior_quality", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(number: int, ten_ns: float) -> list[tuple[int, str, Sample]]:
    """Thirty trials of a search, the best 100 ns, and a trial of the prior's."""
    family = family_named("filter2d_plain")
    assert family is not None
    problem = Filter2d(image=(500 + 100 * number, 1000), filter=(5, 5))
    configs = list(itertools.islice(family.space(problem, H200).configs(), 30))
    lines = [
        (number, "search", Sample(problem, H200, family.name, config, None if place == 7 else 100.0 + place))
        for place, config in enumerate(configs)
    ]
    return [*lines, (number, "prior", Sample(problem, H200, family.name, configs[-1], ten_ns))]


def test_what_it_writes_it_reads(quality: ModuleType, tmp_path: Path) -> None:
    lines = [*recorded(0, 90.0), *recorded(1, 120.0)]
    chosen = [lines[0][2].problem, lines[-1][2].problem]
    quality.write(tmp_path / "file.jsonl.gz", H200, chosen, lines)
    assert quality.read(tmp_path / "file.jsonl.gz") == lines


def test_the_ratios_are_of_the_best_of_ten_to_the_best_of_the_search(
    quality: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for number, ten in enumerate((101.0, 120.0, 90.0, 110.0)) for line in recorded(number, ten)]
    assert quality.replay(lines) == [1.01, 1.2, 0.9, 1.1]
    told = capsys.readouterr().out
    assert "measured: median 1.055 over 4 problems, worst 1.200" in told
    assert "of those recorded: median 1.000 over 4 problems" in told
    assert "used: of 4 problems left out" in told


def test_there_are_forty_problems_at_the_least_and_no_two_alike(quality: ModuleType) -> None:
    keys = [problem.key() for problem in quality.problems()]
    assert len(set(keys)) == len(keys) >= 40


def test_what_is_no_recording_is_refused(quality: ModuleType, tmp_path: Path) -> None:
    for content in (b"", b"[]", gzip.compress(b'{"format": "other", "version": 1}\n')):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(BadArgument, match="no recording"):
            quality.read(tmp_path / "file")
