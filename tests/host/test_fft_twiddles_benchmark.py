"""The benchmark of twiddle factors, on the host, where its times mean little."""

from __future__ import annotations

import json

import pytest

import exhaustive
import warpsmith as ws
from scripts import benchmark
from warpsmith.generator.fft.text import Twiddles
from warpsmith.store.record import Timing

benchmark_of_twiddles = benchmark("fft_twiddles")


def timing(ns: float) -> Timing:
    return Timing(ns, ns, ns, 60, "median, 9 runs a sample, CUDA graph, in turns, cold L2")


def row(size: tuple[int, ...], times_ns: dict[Twiddles, float]) -> object:
    fastest = {each: benchmark_of_twiddles.Fastest("points=8", 12, timing(ns)) for each, ns in times_ns.items()}
    return benchmark_of_twiddles.Row(ws.Fft(size, kind=ws.Kind.C2C), "fft_warp", fastest, timing(900.0))


def test_gain_is_over_the_faster_way_of_loading() -> None:
    times = {Twiddles.TABLE: 1000.0, Twiddles.POWERS: 1250.0, Twiddles.COMPUTED: 1200.0}
    cells = benchmark_of_twiddles.cells(row((16,), times))
    assert cells == ("c2c", "16", "1", "cold", "fft_warp", "1.00", "1.25", "1.20", "0.90", "+20.0%", "+15.0%")
    assert len(cells) == len(benchmark_of_twiddles.HEADER)


def test_there_is_no_gain_without_both() -> None:
    cells = benchmark_of_twiddles.cells(row((8, 8), {Twiddles.TABLE: 1000.0}))
    assert cells[1:] == ("8x8", "1", "cold", "fft_warp", "1.00", "-", "-", "0.90", "-", "-")
    assert benchmark_of_twiddles.cells(row((32,), {Twiddles.COMPUTED: 1000.0}))[-2:] == ("-", "+20.0%")


@exhaustive.EXHAUSTIVE
def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--device", "host", "--size", "8", "--kind", "c2c", "--batch", "64", "--trials", "1", "--json"]
    benchmark_of_twiddles.main(asked)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["family"] for row in rows} == {"fft_block", "fft_warp"}
    for row in rows:
        assert row["fastest"].keys() == set(Twiddles)
        for source, fastest in row["fastest"].items():
            assert f"twiddles={source}" in fastest["config"]
            assert fastest["tried"] >= 1
        loaded = min(row["fastest"][each]["timing"]["median_ns"] for each in ("table", "powers"))
        computed = row["fastest"]["computed"]["timing"]["median_ns"]
        assert row["gain_percent"] == pytest.approx(100 * (computed / loaded - 1))
