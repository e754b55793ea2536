"""`warpsmith bench fft`: which transforms it takes, what it prints, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from builders import measurement, timing, winner
from warpsmith.cli.app import run
from warpsmith.cli.benching import Row, Subject
from warpsmith.cli.operations.fft_bench import FBFFT_SIZES, default_norm, filled
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft, Kind, Layout, Norm
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.store import location
from warpsmith.store.location import own_store
from warpsmith.store.record import COPY, Baseline, LeftOut
from warpsmith.store.store import Store
from warpsmith.tuner.finals.compare import Comparison

HOST = DeviceRef.parse("host").device()
PADDED = Fft((8, 8), 5, valid=(7, 6))
TWO = ("bench", "fft", "--device", "host", "--size", "8x8", "--size", "8x6", "--valid", "7x6", "--batch", "5")
SCIPY, OTHER = "scipy 1.2.3 fft.rfftn", "another 4.5"
POLICY = "median, 5 runs a sample, eager, in turns, warm caches"
TIMED = timing(2000.0, 1900.0, 2500.0, samples=30, policy=POLICY)
MEASURED = measurement(TIMED, max_error=1.25e-7)
MEAN = "geometric mean of the speed-up over the fastest peer: "


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `one.db`, a store of PADDED's winner. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "one.db")
    with Store.open("one.db", write=True) as store:
        store.put_winner(winner(PADDED, MEASURED, HOST, family=families_for(PADDED, HOST)[0]))
    return tmp_path


Beside = Mapping[tuple[int, ...], Mapping[str, float]]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Beside], None]:
    """Replaces timing: our transforms take 2 us and the copy 1 us. Gives what ran beside them in ns, by size."""

    def plant(beside: Beside) -> None:
        def compare(problem: Problem, _program: Program, _ref: DeviceRef, _seed: int, *_: object) -> Comparison:
            assert isinstance(problem, Fft)
            names = {COPY: 1000.0, **beside.get(problem.size, {})}
            baselines = tuple(Baseline(name, timing(ns, policy=POLICY)) for name, ns in names.items())
            return Comparison(MEASURED, TIMED, baselines, {"compiler": "g++ 12.2.0"})

        monkeypatch.setattr("warpsmith.cli.benching.compare", compare)

    return plant


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Fft]]:
    """The transforms that a command would measure."""

    def call(*arguments: str) -> list[Fft]:
        seen: list[Problem] = []

        def measure(subjects: Sequence[Subject], *_: object) -> tuple[Row, ...]:
            seen.extend(subject.problem for subject in subjects)
            raise WarpsmithError("seen enough")

        monkeypatch.setattr("warpsmith.cli.operations.fft_bench.measure", measure)
        assert run(["bench", "fft", *arguments]) == 1
        return [problem for problem in seen if isinstance(problem, Fft)]

    return call


Document = Callable[..., Any]
Printed = Callable[..., str]
Problems = Callable[..., list[Fft]]
Timed = Callable[[Beside], None]


class TestProblems:
    @pytest.mark.parametrize(("device", "points"), [("cuda:0", 1 << 26), ("host", 1 << 20)])
    def test_default_is_fbfft_s_sizes_with_as_much_signal_each(
        self, problems: Problems, device: str, points: int
    ) -> None:
        found = problems("--device", device)
        assert [f"{rows}x{columns}" for rows, columns in (each.size for each in found)] == list(FBFFT_SIZES)
        assert [each.batch * each.points for each in found] == [points] * len(FBFFT_SIZES)
        assert {(each.kind, each.norm, each.layout, each.valid) for each in found} == {
            (Kind.R2C, Norm.BACKWARD, Layout.BATCH, None)
        }

    @pytest.mark.parametrize(
        ("problem", "batch"),
        [
            (Fft((32, 32)), 65536),
            (Fft((32, 32), 7), 65536),
            (Fft((32, 32), valid=(27, 27)), 65536),  # zeros count
            (Fft((32, 32), kind=Kind.C2R), 65536),
            (Fft((32, 32), kind=Kind.C2C), 32768),
            (Fft((210,)), 319566),  # what remains is less than a transform
            (Fft((32767, 32767)), 1),
        ],
    )
    def test_fill_a_gpu(self, problem: Fft, batch: int) -> None:
        made = filled(problem, DeviceKind.CUDA)
        assert made == dataclasses.replace(problem, batch=batch)
        assert filled(problem, DeviceKind.HOST).batch == max(batch // 64, 1)

    def test_options(self, problems: Problems) -> None:
        asked = ("--size", "16", "--size", "8", "--batch", "3", "--kind", "c2c", "--inverse", "--valid", "5")
        found = problems(*asked, "--norm", "ortho", "--layout", "frequency", "--device", "host")
        same = {"kind": Kind.C2C, "inverse": True, "valid": (5,), "norm": Norm.ORTHO, "layout": Layout.FREQUENCY}
        assert found == [Fft((size,), 3, **same) for size in (16, 8)]  # type: ignore[arg-type]

    @pytest.mark.parametrize("kind", list(Kind))
    def test_the_default_norm_scales_no_real_transform(self, problems: Problems, kind: Kind) -> None:
        (problem,) = problems("--kind", kind, "--size", "8", "--device", "host")
        assert (
            problem.norm == default_norm(kind, inverse=False) == (Norm.FORWARD if kind is Kind.C2R else Norm.BACKWARD)
        )
        assert problem.scale == 1

    def test_nor_does_it_scale_an_inverse_one(self, problems: Problems) -> None:
        (problem,) = problems("--kind", "c2c", "--inverse", "--size", "8", "--device", "host")
        assert (problem.norm, problem.scale) == (Norm.FORWARD, 1.0)

    def test_another_norm_is_taken(self, problems: Problems) -> None:
        (problem,) = problems("--kind", "c2r", "--norm", "backward", "--size", "8", "--device", "host")
        assert problem.norm is Norm.BACKWARD


class TestTable:
    HEADER = (
        "| transform | batch | match | time | GB/s | copy | % of copy "
        f"| {SCIPY} | speed-up over the fastest peer | largest error |"
    )

    def test_of_winners_beside_others(self, timed: Timed, printed: Printed) -> None:
        timed({(8, 8): {SCIPY: 6000.0}, (8, 6): {SCIPY: 1500.0}})
        where, what, blank, header, _, first, second, end, mean = printed(*TWO, "--store", "one.db").splitlines()
        assert where == f"{HOST.name}, compiler g++ 12.2.0"
        assert what == "r2c transforms, norm backward, layout batch; medians, taken in turns, eager, warm caches"
        assert (blank, end) == ("", "")
        assert header == self.HEADER
        # 5 transforms of 42 numbers and 40 complex ones: 2440 bytes
        assert first == (
            "| 8x8, valid 7x6 | 5 | exact | 2.00 us | 1.22 | 1.00 us | 50.0% | 6.00 us | 3.00x | 1.2e-07 |"
        )
        assert second.startswith("| 8x6, valid 7x6 | 5 | default | 2.00 us | ")
        assert second.endswith(" | 1.50 us | 0.75x | 1.2e-07 |")
        assert mean == f"{MEAN}{math.sqrt(3 * 0.75):.2f}x"

    def test_where_a_peer_is_not_beside_each(self, timed: Timed, printed: Printed) -> None:
        timed({(8, 6): {SCIPY: 8000.0, OTHER: 5000.0}})
        *_, header, _, first, second, _, mean = printed(*TWO).splitlines()
        assert header == self.HEADER.replace(SCIPY, f"{SCIPY} | {OTHER}")
        assert first.endswith(" | - | - | - | 1.2e-07 |")
        assert second.endswith(" | 8.00 us | 5.00 us | 2.50x | 1.2e-07 |")
        assert mean == f"{MEAN}2.50x"

    def test_a_peer_under_other_conditions_has_a_time_and_no_speed_up(
        self, monkeypatch: pytest.MonkeyPatch, printed: Printed, document: Document
    ) -> None:
        cold = dataclasses.replace(TIMED, policy="median, 5 runs a sample, CUDA graph, in turns, cold L2")
        left_out = (LeftOut("cuFFT through CuPy", "cupy is not installed"),)
        comparison = Comparison(MEASURED, TIMED, (Baseline(COPY, TIMED), Baseline(SCIPY, cold, "a note")), {}, left_out)
        monkeypatch.setattr("warpsmith.cli.benching.compare", lambda *_: comparison)
        asked = (*TWO[:6], "--valid", "7x6", "--batch", "5")
        *_, row, _, last = printed(*asked).splitlines()
        assert "| 100.0% | 2.00 us | - |" in row
        assert last == "left out  cuFFT through CuPy: cupy is not installed"
        (told,) = document(*asked)["rows"]
        why = "timed under other conditions (CUDA graph, cold L2; ours eager, warm caches): a note"
        assert told["verdict"] == f"no verdict against {SCIPY}: {why}"
        assert told["conditions"] == "eager, warm caches"
        assert [each["fair"] for each in told["verdicts"]] == [True, False]
        assert told["left_out"] == [{"name": "cuFFT through CuPy", "reason": "cupy is not installed"}]

    def test_without_peers_has_no_mean(self, timed: Timed, printed: Printed) -> None:
        timed({})
        *_, header, _, first, _ = printed(*TWO).splitlines()
        assert header == self.HEADER.replace(f"{SCIPY} | ", "")
        assert first.endswith(" | 50.0% | - | 1.2e-07 |")

    def test_names_the_direction_of_complex_transforms(self, timed: Timed, printed: Printed) -> None:
        timed({})
        asked = ("bench", "fft", "--size", "16", "--device", "host", "--kind")
        _, what, *_, row = printed(*asked, "c2c", "--inverse").splitlines()
        assert what.startswith("inverse c2c transforms, norm forward, layout batch;")
        assert row.startswith("| 16 | 32768 | default |")
        assert printed(*asked, "c2r").splitlines()[1].startswith("c2r transforms, norm forward,")


@pytest.mark.usefixtures("compile_unoptimised")
def test_measures_and_saves_what_it_prints(document: Document, folder: Path) -> None:
    answer = document(*TWO, "--store", "one.db", "--save", "bench.json")
    assert answer["device"] == HOST.spec()
    assert [row["problem"] for row in answer["rows"]] == [
        PADDED.spec(),
        dataclasses.replace(PADDED, size=(8, 6)).spec(),
    ]
    assert [row["match"] for row in answer["rows"]] == ["exact", "default"]
    for row in answer["rows"]:
        names = [baseline["name"] for baseline in row["baselines"]]
        assert COPY in names
        assert any(name.startswith("scipy ") for name in names) == (find_spec("scipy") is not None)
        assert row["ours"]["median_ns"] > 0
        assert 0 < row["measurement"]["max_error"] <= 1e-6
    assert json.loads((folder / "bench.json").read_text()) == answer


class TestPlot:
    def test_has_a_line_a_library_and_a_place_a_size(self, timed: Timed, printed: Printed, folder: Path) -> None:
        pytest.importorskip("matplotlib")
        timed({(8, 8): {SCIPY: 6000.0}, (8, 6): {SCIPY: 1500.0}})
        printed(*TWO, "--plot", "sizes.svg")
        elements = list(ElementTree.fromstring((folder / "sizes.svg").read_bytes()).iter())
        drawn = {name for each in elements if (name := each.get("id", "")).startswith("line-")}
        assert drawn == {"line-warpsmith", "line-scipy-1-2-3-fft-rfftn", "line-copy"}
        assert {"transform (points)", "8x8, valid 7x6", "8x6, valid 7x6"} <= {each.text for each in elements}

    def test_without_matplotlib_nothing_is_measured(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        monkeypatch.setattr("warpsmith.tuner.plots.find_spec", lambda _: None)
        monkeypatch.setattr("warpsmith.cli.benching.compare", lambda *_: pytest.fail("it measured"))
        assert run([*TWO, "--plot", "a.svg"]) == 1
        assert capsys.readouterr().err == 'warpsmith: error: a plot needs Matplotlib: pip install "warpsmith[plots]"\n'
        assert not (folder / "a.svg").exists()


class TestRefused:
    @pytest.fixture
    def told(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
        """The one line of a command that is refused before anything is measured, without and with --json."""
        monkeypatch.setattr("warpsmith.cli.benching.compare", lambda *_: pytest.fail("it measured"))

        def call(code: int, *arguments: str) -> str:
            words = ["bench", "fft", "--device", "host", *arguments]
            assert run(words) == code
            plain = capsys.readouterr()
            assert plain.out == ""
            assert run([*words, "--json"]) == code
            (line,) = plain.err.splitlines()
            told = line.removeprefix("warpsmith: error: ")
            assert json.loads(capsys.readouterr().out) == {"error": told, "exit_code": code}
            assert not own_store().exists()
            return told

        return call

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (("--size", "1"), "each dimension of a transform needs at least 2 points"),
            (("--size", "8", "--size", "8x"), "--size must be N or ROWSxCOLUMNS, such as 256 or 32x32; got '8x'"),
            (("--batch", "0"), "batch must be 1 or more; got 0"),
            (("--batch", "many"), "'--batch'"),
            (("--kind", "d2z"), "unknown kind 'd2z'; choose one of r2c, c2r, c2c"),
            (("--inverse",), "r2c is always forward"),
            (("--valid", "9x9"), "valid must be a part of 8x8; got 9x9"),
            (("--size", "8", "--size", "8x8", "--valid", "4"), "valid must be a part of 8x8; got 4"),
            (("--norm", "unitary"), "unknown norm 'unitary'; choose one of backward, ortho, forward"),
            (("--norm", ""), "unknown norm ''; choose one of backward"),
            (("--layout", "rows"), "unknown layout 'rows'; choose one of batch, transposed, frequency"),
            (
                ("--size", "8", "--layout", "transposed"),
                "layout transposed needs two dimensions; this transform has one",
            ),
            (("--device", "tpu"), "unknown device 'tpu'"),
            (("--image", "8x8"), "No such option: --image"),
            (("--size", "8", "--size", "37"), "no kernel family solves fft size=37 "),
        ],
    )
    def test_arguments(self, told: Callable[..., str], options: tuple[str, ...], why: str) -> None:
        assert why in told(2, *options)

    def test_a_plot_of_another_kind(self, told: Callable[..., str]) -> None:
        pytest.importorskip("matplotlib")
        assert told(2, "--plot", "a.pdf") == "unknown kind of plot 'pdf'; choose one of svg, png"

    @pytest.mark.parametrize("option", ["--save", "--plot"])
    @pytest.mark.parametrize("name", [".", "none/a.svg", "one.db/a.svg"])
    def test_files_that_cannot_be_written(self, told: Callable[..., str], option: str, name: str) -> None:
        assert told(1, option, name).startswith(f"cannot write {name}: ")

    def test_a_store_that_is_not_there(self, told: Callable[..., str]) -> None:
        assert "there is no store at typo.db" in told(1, "--store", "typo.db")
