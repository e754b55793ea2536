"""Trials that come with the package."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config
from warpsmith.store.trials import FASTEST, OTHERS, Sample
from warpsmith.tuner.search.known import SHIPPED, read_samples, shipped_samples, write_samples

PROBLEM = Filter2d(image=(480, 640), filter=(3, 3))


def sample(number: int, time_ns: float | None, problem: Filter2d = PROBLEM) -> Sample:
    return Sample(problem, H200, "filter2d_plain", Config.of({"number": number, "path": "global"}), time_ns)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    other = Filter2d(image=(481, 640), filter=(3, 3), border="wrap")
    given = {sample(0, 5.0), sample(1, None), sample(2, 4.0), sample(0, 7.0, other)}
    write_samples(path, given)
    assert set(read_samples(path)) == given


def test_of_many_the_fastest_are_kept_and_some_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    write_samples(path, [sample(number, float(number) if number < 900 else None) for number in range(1, 1000)])
    kept = [each.time_ns for each in read_samples(path)]
    assert kept[:FASTEST] == [float(number) for number in range(1, FASTEST + 1)]
    assert OTHERS / 2 < len(kept) - FASTEST <= OTHERS
    assert None in kept


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"no JSON"),
        gzip.compress(b"[1]"),
        gzip.compress(json.dumps({"format": "warpsmith samples", "version": 99, "subjects": []}).encode()),
        gzip.compress(b'{"format":"warpsmith samples","version":1,"subjects":[]}\n[3,"a",{},1.0]\n'),
    ],
    ids=["empty", "no gzip", "no JSON", "no header", "another version", "no such subject"],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "samples.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(BadArgument, match="holds no samples"):
        read_samples(path)


def test_those_that_ship_are_of_legal_configs() -> None:
    """Configs outside today's spaces would teach nothing about them."""
    samples = shipped_samples()
    assert SHIPPED.stat().st_size < 500_000
    legal = [
        family_named(each.family).space(each.problem, each.device).why_not(each.config) is None for each in samples
    ]
    assert sum(legal) >= 0.95 * len(samples) > 0
