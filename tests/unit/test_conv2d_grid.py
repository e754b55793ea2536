"""benchmarks/conv2d_grid.py and related scripts: the sample, float64 at selected places, rows, tables and figures."""

from __future__ import annotations

import collections
import json
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import forking
from builders import failure, measurement, timing
from scripts import FOLDER, benchmark
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import families_for
from warpsmith.store.record import FailureKind
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

points, sampled, lines = (benchmark(f"conv2d_bench.{name}") for name in ("points", "sampled", "lines"))
tables, candidates, tried = (benchmark(f"conv2d_bench.{name}") for name in ("tables", "candidates", "tried"))
figures, breakdown = benchmark("conv2d_figures"), benchmark("conv2d_bench.breakdown")


def row(ratio: float | None, **fields: Any) -> dict[str, Any]:
    """A row as `conv2d_grid.py measure` writes it, with the fields that tables and figures read."""
    made = {
        "set": "grid",
        "name": "made up",
        "key": str(fields),
        **{"S": 16, "f": 64, "f'": 64, "k": 3, "y": 32, "pass": "fprop"},
        "ours": {"family": "conv2d_fft", "us": 10.0, "error": 1e-7},
        "in_turns_us": {},
        "cudnn_us": {} if ratio is None else {"apart": 10.0 * ratio, "last": 99.0 * ratio},
        "tred_s": 5.0,
        "tflop_s": 7.0,
    }
    return {**made, **({} if ratio is None else {"ratio": ratio}), **fields}


class TestSample:
    def test_is_the_same_for_a_seed_and_even_over_k_and_passes(self) -> None:
        drawn = points.sample(1)
        assert drawn == points.sample(1)
        assert drawn != points.sample(2)
        assert len(drawn) == len({point.problem.key() for point in drawn}) == 204
        assert set(collections.Counter(point.axes["k"] for point in drawn).values()) == {34}
        assert min(collections.Counter(point.problem.pass_ for point in drawn).values()) >= 66
        assert {point.axes["k"] for point in drawn[:6]} == set(points.TAPS)  # a run that ends early is even too

    def test_has_work_and_fits(self) -> None:
        assert all(point.direct_s > 30e-6 and point.problem.bytes <= 384 << 20 for point in points.sample(3))
        small = points.sample(3, most_bytes=32 << 20)
        assert all(point.problem.bytes <= 32 << 20 for point in small)

    def test_is_of_the_papers_grid(self) -> None:
        grid = points.grid()
        assert len(grid) == len(set(grid)) == 8232
        assert {tuple(point.axes.values()) for point in points.sample(1)} <= set(grid)
        assert sum(map(points.has_work, grid)) == 2144

    def test_takes_all_passes_of_a_part(self) -> None:
        drawn = points.sample(1, each=3, all_passes=1)
        assert len(drawn) == 6 * (3 + 2)
        by_axes = collections.Counter(tuple(point.axes.values()) for point in drawn)
        assert sorted(by_axes.values()) == [1] * 12 + [3] * 6


class TestOtherPoints:
    def test_section_5_4_has_24_sizes_in_three_passes(self) -> None:
        small = points.small_filters()
        assert len({point.problem.key() for point in small}) == 72
        assert {point.problem.input[2] for point in small} == {13, 16, 27, 32, 57, 64}
        assert all(
            point.axes["k"] == 3 and len({point.axes[each] for each in ("S", "f", "f'")}) == 1 for point in small
        )

    @pytest.mark.parametrize("count", [12, 24, 36])
    def test_any_beginning_of_it_is_a_sample(self, count: int) -> None:
        beginning = points.small_filters(1)[:count]
        assert set(collections.Counter(point.problem.pass_ for point in beginning).values()) == {count // 3}
        assert len({point.problem.input[2] for point in beginning}) >= 5
        assert len({point.problem.input[1] for point in beginning}) == 4
        assert points.small_filters(1) == points.small_filters(1) != points.small_filters(2)

    def test_layers_go_by_names_lists_and_passes(self) -> None:
        assert [point.name for point in points.layers(["L3:wgrad", "alexnet"])][:2] == ["L3 wgrad", "alexnet2 fprop"]
        assert len(list(points.layers(["table4"]))) == 18

    @exhaustive.one_in(2)
    @pytest.mark.parametrize(
        ("script", "word", "told"),
        [
            ("conv2d_layers.py STORE 1", "L9", "L9 is no layer: there are L1, L2, L2b"),
            ("conv2d_layers.py STORE 0", "L3:back", "L3:back: back is no pass: there are fprop, dgrad, wgrad"),
            ("depthwise_layers.py d7x28", "L9", "L9 is no layer: there are d7x28, d5x28"),
            ("depthwise_layers.py d7x28", "d7x7:back", "d7x7:back: back is no pass: there are fprop, dgrad, wgrad"),
            ("conv2d_grid.py measure STORE", "L9", "L9 is no set of layers: there are grid, small, L1"),
            ("conv2d_grid.py measure STORE", "none.json", "none.json is no list of convolution layers"),
        ],
    )
    def test_a_word_that_is_none_is_one_line_and_exit_code_2(
        self, script: str, word: str, told: str, tmp_path: Path
    ) -> None:
        name, *arguments = script.replace("STORE", str(tmp_path / "store")).split()
        command = [sys.executable, str(FOLDER / name), *arguments, *(() if "depthwise" in name else ("L5",)), word]
        ran = forking.run(command, text=True, check=False)
        assert ran.returncode == 2
        assert ran.stderr.startswith(told)
        assert ran.stderr.count("\n") == 1
        assert ran.stdout == ""
        assert list(tmp_path.iterdir()) == []

    def test_the_papers_rate_is_that_of_its_table_4(self) -> None:
        (layer,) = points.layers(["L2b:fprop"])
        assert points.paper_reductions(layer.problem) / 46.44e-3 == pytest.approx(7.49e12, rel=0.001)

    def test_a_file_has_problems(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.json"
        path.write_text('[{"input": [1, 2, 5, 5], "weight": [3, 2, 3, 3], "pass_": "dgrad"}]')
        assert points.of_file(path)[0].problem == Conv2d((1, 2, 5, 5), (3, 2, 3, 3), pass_=Pass.DGRAD)
        path.write_text('[{"inputs": 1}]')
        with pytest.raises(BadArgument, match="no list of convolution layers"):
            points.of_file(path)


class TestSampledResults:
    @pytest.mark.parametrize("padding", [0, 1, ((0, 2), (1, 0))])
    @pytest.mark.parametrize("pass_", Pass)
    def test_are_those_of_the_whole_reference(self, pass_: Pass, padding: Any) -> None:
        problem = Conv2d(input=(3, 4, 7, 9), weight=(5, 4, 3, 2), padding=padding, pass_=pass_)
        operands = random_operands(problem, 0)
        found = sampled.sample(problem, operands, 0)
        expected, scale = (each.reshape(-1) for each in reference(problem, operands))
        np.testing.assert_allclose(found.expected, expected[found.places], rtol=1e-12, atol=1e-12)
        images = expected.reshape(1 if pass_ is Pass.WGRAD else 3, -1)
        rms = np.sqrt(np.square(images).mean(axis=1))[found.places // images.shape[1]]
        np.testing.assert_allclose(found.scale(rms), scale[found.places], rtol=1e-12)
        corners = {0, expected.size - 1}
        assert corners <= set(found.places.tolist())

    def test_a_wrong_number_anywhere_is_found(self) -> None:
        torch = pytest.importorskip("torch")
        problem = Conv2d(input=(2, 8, 20, 20), weight=(16, 8, 3, 3))
        operands = random_operands(problem, 0)
        judge = sampled.SampledJudge(sampled.sample(problem, operands, 0), DeviceKind.HOST)
        answer = judge.references(problem, operands)["y"]
        right = torch.nn.functional.conv2d(*(torch.from_numpy(operands[name]) for name in "xw")).numpy()
        assert verify(right, answer, problem.output.dtype).right
        known = set(judge._sample.places.tolist())
        elsewhere = next(place for place in range(right.size) if place not in known)
        for place, wrong in ((elsewhere, 1.0), (elsewhere, np.nan), (0, 1e-3)):
            spoilt = right.copy()
            spoilt.reshape(-1)[place] += wrong
            assert not verify(spoilt, answer, problem.output.dtype).right

    def test_without_a_library_only_what_was_never_written_is_found_elsewhere(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        problem = Conv2d(input=(2, 8, 20, 20), weight=(16, 8, 3, 3))
        operands = random_operands(problem, 0)
        judge = sampled.SampledJudge(sampled.sample(problem, operands, 0), DeviceKind.HOST)

        def fails(*_: Any, **__: Any) -> None:
            raise RuntimeError("out of memory")

        monkeypatch.setattr(sampled, "torch_peer", fails)
        answer = judge.references(problem, operands)["y"]
        right = reference(problem, operands)[0].astype(np.float32)
        assert verify(right, answer, problem.output.dtype).right
        right.reshape(-1)[0] = np.nan
        assert not verify(right, answer, problem.output.dtype).right

    def test_small_and_strided_layers_are_judged_whole(self) -> None:
        assert sampled.has_sample(Conv2d((64, 64, 32, 32), (64, 64, 3, 3)))
        assert not sampled.has_sample(Conv2d((1, 4, 8, 8), (4, 4, 3, 3)))
        assert not sampled.has_sample(Conv2d((64, 64, 32, 32), (64, 64, 3, 3), stride=2))


class TestLines:
    def test_a_line_that_was_cut_off_costs_itself_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "results.jsonl"
        lines.add(path, row(2.0, key="a"))
        with path.open("a") as file:
            file.write('{"set": "grid", "key": "b", "ra')
        lines.add(path, {"set": "grid", "key": "c", "failed": "why"})
        assert [each["key"] for each in lines.read(path)] == ["a", "c"]
        assert lines.read(tmp_path / "none.jsonl") == []

    def test_the_last_row_of_a_problem_counts(self) -> None:
        rows = [{"run": {}}, row(1.0, key="a"), row(2.0, key="b"), row(3.0, key="a"), row(4.0, key="a", set="small")]
        assert [each["ratio"] for each in lines.latest(rows)] == [3.0, 2.0, 4.0]


class TestTables:
    def test_a_summary_is_arithmetic(self) -> None:
        assert tables.summary([0.5, 2.0, 8.0]) == ("3", "2.00", "0.50", "8.00", "67%")

    def test_by_k_beside_the_paper(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = [row(2.0, k=3, y=1), row(8.0, k=3), row(0.5, k=7, name="slow one"), row(None, k=7, y=4)]
        rows.append({"set": "grid", "key": "x", "name": "bad one", "failed": "it crashed"})
        tables.print_tables(rows)
        told = capsys.readouterr().out
        assert "grid: 4 points measured, 1 failed" in told
        assert "- bad one: it crashed" in told
        assert "| 3 | 2 | 4.00 | 2.00 | 8.00 | 100% | 5.0 | 7.0 | at most 1.84 |" in told
        assert "| 7 | 1 | 0.50 | 0.50 | 0.50 | 0% | 5.0 | 7.0 | figure alone |" in told
        assert "| slow one | 10.0 | conv2d_fft | 5.0 | 0.50 |" in told

    def test_section_5_4_compares_pipelines(self, capsys: pytest.CaptureFixture[str]) -> None:
        turns = [{"conv2d_fft_cublas": 10.0, "conv2d_cufft": 20.0}, {"conv2d_fft_cublas": 10.0, "conv2d_cufft": 5.0}]
        rows = [row(3.0, set="small", key=str(each), in_turns_us=each) for each in (*turns, {"conv2d_direct": 1.0})]
        assert tables.pipelines(rows) == [2.0, 0.5]
        tables.print_tables(rows)
        assert "| 2 points | 1.25 | 1.06 | 1.00 | 0.50 | 2.00 |" in capsys.readouterr().out

    def test_table_3_adds_up_the_layers_of_a_network(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = [f"alexnet{number}" for number in range(2, 6)]
        rows = [row(3.0, set="layers", key=f"{name} {p}", name=f"{name} {p}", **{"pass": str(p)})
                for name in names for p in Pass]  # fmt: skip
        tables.print_tables(rows)
        told = capsys.readouterr().out
        assert "| fprop | 0.040 | 0.120 | 3.00 | 147.32 and 94.34 ms: 1.56 |" in told
        assert "overfeat" not in told

    def test_table_5_has_the_steps_of_a_winner(self, capsys: pytest.CaptureFixture[str]) -> None:
        steps = {"first": 1.0, "second": 2.0, "product": 3.0, "result": 4.0, "bias": 0.5}
        breakdown.print_steps([row(2.0, name="L3 dgrad", steps_us=steps, **{"pass": "dgrad"}), row(2.0, steps_us={})])
        told = capsys.readouterr().out.splitlines()
        assert told[-1].startswith(
            "| L3 dgrad | conv2d_fft | 1.0 | 2.0 | 3.0 | 4.0 | bias 0.5 | 10.5 | 10.0 | 3.08, 0.89"
        )
        assert len(told) == 3


class TestFigures:
    def test_a_cell_is_the_mean_of_its_points_and_the_rest_is_told(self) -> None:
        rows = [row(2.0), row(8.0, **{"pass": "dgrad"}), row(3.0, k=5), row(None, y=64)]
        found = figures.heat_map(3, rows)
        assert found.speed_ups == {(16 * 64 * 64, 32): pytest.approx(4.0)}
        assert found.points == 1
        cells = len(found.sizes) * 7
        assert found.empty == cells - len(found.idle) - 1
        assert (16 * 64 * 64, 1) in found.idle
        assert f"{found.empty} cells are not measured (empty)" in figures.title(found)
        assert "1 sampled points in 1 cells, at most 2 a cell" in figures.title(found)

    def test_the_mean_is_that_of_all_points_as_in_the_table(self) -> None:
        found = figures.heat_map(3, [row(1.0), row(1.0, **{"pass": "dgrad"}), row(8.0, y=64)])
        assert found.mean == pytest.approx(2.0)
        assert "geometric mean 2.00" in figures.title(found)

    @pytest.mark.parametrize(
        ("ratios", "told"), [((2.0, 8.0), "4.0"), ((0.5, 8.0), "2.0 (0.50)"), ((0.5,), "0.50"), ((12.0,), "12")]
    )
    def test_a_cell_tells_a_point_where_cudnn_is_faster(self, ratios: tuple[float, ...], told: str) -> None:
        (cell,) = figures.heat_map(3, [row(ratio) for ratio in ratios]).speed_ups.values()
        assert figures._told(cell, min(ratios)) == told

    def test_each_k_is_drawn_that_has_points(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("matplotlib")
        results = tmp_path / "rows.jsonl"
        for each in ({"run": {"device": "a made-up GPU"}}, row(0.5), row(20.0, k=13)):
            lines.add(results, each)
        figures.main(str(results), str(tmp_path / "images"))
        drawn = {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}
        assert drawn.keys() == {"conv2d-figure1.svg", "conv2d-figure6.svg"}
        assert "figure 2: 5x5 filters" in capsys.readouterr().out
        figures.main(str(results), str(tmp_path / "images"))
        assert all((tmp_path / "images" / name).read_bytes() == image for name, image in drawn.items())


class TestCandidates:
    def test_defaults_come_first_and_the_simplest_kernel_not_at_all(self) -> None:
        problem = Conv2d((64, 64, 30, 30), (64, 64, 5, 5))
        found = list(candidates.configs(problem, H200, 3))
        families = candidates.families(problem, H200)
        assert [family for family, _ in found[: len(families)]] == families
        assert "conv2d_plain" not in {family.name for family in families}
        assert len(found) == len(set(found))
        counts = collections.Counter(family.name for family, _ in found)
        likeliest = families[0]
        assert isinstance(likeliest, Conv2dFft)
        assert counts.pop(likeliest.name) == 4
        # Starts of the others are those of the likeliest one, but for the product, or one part in three of them.
        assert set(counts.values()) <= {1, 2}
        assert len(found) <= 10

    @pytest.mark.parametrize("number", range(0, 204, 25))
    def test_nothing_is_tried_that_is_expected_to_be_far_behind(self, number: int) -> None:
        problem = points.sample(1)[number].problem
        tried_ones = candidates.families(problem, H200)
        able = [each for each in families_for(problem, H200) if isinstance(each, Conv2dFft)]
        least = min(each.expected_ns(problem, H200) for each in able)
        expected = [each.expected_ns(problem, H200) for each in tried_ones if isinstance(each, Conv2dFft)]
        assert expected[0] == min(expected)
        assert max(expected) <= 1.3 * least
        assert ("conv2d_direct" in {each.name for each in tried_ones}) == (direct_ns(problem, H200) <= 3 * least)
        assert "conv2d_cufft" not in {each.name for each in tried_ones}

    def test_a_layer_that_transforms_do_not_solve_has_the_others(self) -> None:
        problem = Conv2d((64, 64, 30, 30), (64, 64, 5, 5), stride=2)  # type: ignore[arg-type]
        found = [each.name for each in candidates.families(problem, H200)]
        assert found == ["conv2d_warpgroup", "conv2d_direct", "conv2d_mma"]

    def test_only_what_is_asked_for_is_tried(self) -> None:
        problem = Conv2d((64, 64, 30, 30), (64, 64, 5, 5))
        found = {family.name for family, _ in candidates.configs(problem, H200, 3, (), ("conv2d_fft_tensor",))}
        assert found == {"conv2d_fft_tensor"}

    def test_what_is_wanted_comes_first_and_often(self) -> None:
        problem = Conv2d((16, 16, 13, 13), (16, 16, 3, 3))
        found = list(candidates.configs(problem, H200, 2, ("conv2d_cufft", "conv2d_fft_cublas")))
        counts = collections.Counter(family.name for family, _ in found)
        assert counts["conv2d_cufft"] == counts["conv2d_fft_cublas"] == 3
        assert {family.name for family, _ in found[:2]} == {"conv2d_cufft", "conv2d_fft_cublas"}

    def test_each_unit_is_compiled_once_as_it_is_in_the_whole(self) -> None:
        problem = Conv2d((16, 16, 14, 14), (16, 16, 3, 3))
        programs = [family.program(problem, config) for family, config in candidates.configs(problem, H200, 1)]
        singles = candidates.single_units(programs)
        wanted = {repr(each) for program in programs for each in program.compilations().values()}
        found = [repr(each) for single in singles for each in single.compilations().values()]
        assert sorted(found) == sorted(wanted)
        assert len(found) < sum(len(program.units) for program in programs)

    def test_of_families_far_behind_no_more_is_tried(self) -> None:
        problem = Conv2d((64, 64, 30, 30), (64, 64, 5, 5))
        families = {family.name: family for family in families_for(problem, H200)}

        class Bench:
            """A bench with fast transforms, slow sums, and one config that is wrong."""

            ran: list[str]

            def evaluate(self, program: Any, compiled: Any, best_ns: float | None) -> Any:  # noqa: ARG002
                self.ran.append(program.family)
                outcome: Any = measurement(timing({"conv2d_fft": 1e6}.get(program.family, 1e7)))
                return type("Evaluated", (), {"outcome": failure(FailureKind.WRONG) if len(self.ran) == 2 else outcome})

        bench = Bench()
        bench.ran = []
        found = tried.Tried(problem, H200, families, ("conv2d_cufft",), bench)
        made = []
        for name in (
            "conv2d_fft",
            "conv2d_fft",
            "conv2d_fft_tiled",
            "conv2d_fft_tiled",
            "conv2d_cufft",
            "conv2d_cufft",
        ):
            family = families[name]
            config = family.default(problem, H200)
            future: Any = type("Done", (), {"result": lambda _: type("Compiled", (), {"binaries": {}})()})()
            made.append(candidates.Candidate(family, config, family.program(problem, config), future))
        times = [found.evaluate(each) for each in made]
        assert times == [1e6, None, 1e7, None, 1e7, 1e7]
        assert found.failures == {"wrong": 1, "passed over": 1}
        assert [each.program.family for each in found.chosen()] == ["conv2d_fft", "conv2d_cufft"]
        assert found.by_family() == {"conv2d_fft": 1e6, "conv2d_fft_tiled": 1e7, "conv2d_cufft": 1e7}

    def test_slow_compilers_are_waited_for_while_nothing_is_right(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tried, "COMPILING_S", 0.0)
        problem = Conv2d((64, 64, 30, 30), (64, 64, 5, 5))
        families = {family.name: family for family in families_for(problem, H200)}
        outcome = type("Evaluated", (), {"outcome": measurement(timing(1e6))})
        bench: Any = type("Bench", (), {"evaluate": lambda *_: outcome})()
        found = tried.Tried(problem, H200, families, (), bench)
        family = families["conv2d_fft"]
        config = family.default(problem, H200)
        program = family.program(problem, config)
        slow, never = (candidates.Candidate(family, config, program, Future()) for _ in range(2))
        compiled: Any = type("Compiled", (), {"binaries": {}})()
        timer = threading.Timer(0.05, slow.compiling.set_result, (compiled,))
        timer.start()
        found.evaluate_all((slow, never))
        timer.join()
        assert found.times == [(slow, 1e6)]
        assert found.failures == {"compilers too slow": 1}
        assert never.compiling.cancelled()


def test_rows_are_json(tmp_path: Path) -> None:
    lines.add(tmp_path / "a", row(2.0))
    assert json.loads((tmp_path / "a").read_text())["ratio"] == 2.0
