"""`warpsmith ... filter1d`: options that describe a problem, what is told of it, and what is refused."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import warpsmith as ws
from warpsmith.cli.app import run
from warpsmith.cli.operations import filter1d_bench
from warpsmith.cli.operations.filter1d import filter1d
from warpsmith.cli.operations.filter1d_bench import bench_filter1d, workload
from warpsmith.cli.options import join
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.problem import Problem
from warpsmith.store import location
from warpsmith.store.location import own_store
from warpsmith.tuner.operations.registry import JUDGES

SHAPE = ("--signal", "40", "--taps", "4")
ON_HOST = ("--device", "host")
with_judge = pytest.mark.skipif(Filter1d.operation not in JUDGES, reason="nothing judges filters of signals yet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command without and with --json, which must both be refused alike; returns the line."""

    def call(code: int, *words: str) -> str:
        assert run(list(words)) == code
        plain = capsys.readouterr()
        assert plain.out == ""
        assert run([*words, "--json"]) == code
        (line,) = plain.err.splitlines()
        told = line.removeprefix("warpsmith: error: ")
        assert json.loads(capsys.readouterr().out) == {"error": told, "exit_code": code}
        assert not own_store().exists()
        return told

    return call


def given(*options: str) -> Problem:
    """The problem that the options describe."""
    found: list[Problem] = []

    def verb(problem: Problem) -> None:
        found.append(problem)

    app = typer.Typer()
    app.command()(join(filter1d, verb))
    result = CliRunner().invoke(app, list(options))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "fields"),
        [
            ((), {}),
            (("--batch", "3", "--mode", "causal"), {"batch": 3, "mode": "causal"}),
            (("--lags", "-3,7", "--down", "2"), {"lags": (-3, 7), "down": 2}),
            (("--lags=-3, 7",), {"lags": (-3, 7)}),
            (("--convolve", "--mode", "same"), {"convolve": True, "mode": "same"}),
            (
                ("--channels", "6", "--filters", "3", "--layout", "btc", "--pitch", "32"),
                {"channels": 6, "filters": 3, "layout": "btc", "pitch": 32},
            ),
            (
                ("--dtype", "float16", "--taps-dtype", "float16", "--result-dtype", "float32"),
                {"dtype": "float16", "taps_dtype": "float16", "result_dtype": "float32"},
            ),
            (
                ("--dtype", "int16", "--batch", "2", "--result-pitch", "256"),
                {"dtype": "int16", "batch": 2, "result_pitch": 256},
            ),
            (("--bias", "--activation", "silu"), {"bias": True, "activation": "silu"}),
            (("--activation", "swish"), {"activation": "silu"}),
            (
                ("--mode", "causal", "--state", "both", "--packed", "5"),
                {"mode": "causal", "state": "both", "packed": 5},
            ),
            (
                ("--mode", "causal", "--state", "carried", "--state-width", "5", "--state-rows", "9", "--circular"),
                {"mode": "causal", "state": "carried", "state_width": 5, "state_rows": 9, "circular": True},
            ),
        ],
    )
    def test_are_a_problem(self, options: tuple[str, ...], fields: dict[str, Any]) -> None:
        assert given(*SHAPE, *options) == Filter1d(40, 4, **fields)

    def test_every_field_has_one(self) -> None:
        assert list(inspect.signature(filter1d).parameters) == list(inspect.signature(Filter1d).parameters)

    def test_the_bench_has_those_of_every_field_but_arrays_of_values(self) -> None:
        options = set(inspect.signature(bench_filter1d).parameters)
        assert set(inspect.signature(Filter1d).parameters) - options == {"weights", "pitch", "result_pitch"}

    def test_help_states_the_order_of_the_taps(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["query", "filter1d", "--help"]) == 0
        text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert "tap 0 on the oldest sample of a window" in text
        assert "scipy.signal.convolve and numpy.convolve do: tap 0 meets the newest sample of a window" in text


class TestWeights:
    def written(self, array: Any) -> str:
        np.save("w.npy", array)
        return "w.npy"

    @pytest.mark.parametrize("shape", [(4,), (1, 4)])
    def test_of_one_filter(self, shape: tuple[int, ...]) -> None:
        path = self.written(np.arange(4, dtype=np.float64).reshape(shape))
        assert given(*SHAPE, "--weights", path) == Filter1d(40, 4, weights=(0, 1, 2, 3))

    def test_of_several_say_how_many(self) -> None:
        path = self.written(np.arange(8, dtype=np.int16).reshape(2, 4))
        several = Filter1d(40, 4, channels=6, filters=2, weights=tuple(range(8)))
        assert given(*SHAPE, "--channels", "6", "--weights", path) == several
        assert given(*SHAPE, "--channels", "6", "--filters", "2", "--weights", path) == several

    @pytest.mark.parametrize(
        ("shape", "options", "why"),
        [
            ((3,), (), "w.npy holds an array of shape (3,); 4 taps need (4,)"),
            ((2, 3), (), "w.npy holds an array of shape (2, 3); 2 filters of 4 taps need (2, 4)"),
            ((2, 4), ("--filters", "3"), "w.npy holds an array of shape (2, 4); 3 filters of 4 taps need (3, 4)"),
            ((2, 4), ("--channels", "3"), "filters must divide the number of channels, 3; got 2"),
            ((1, 1, 4), (), "w.npy holds an array of shape (1, 1, 4); 4 taps need (4,)"),
        ],
    )
    def test_of_another_shape(
        self, refused: Callable[..., str], shape: tuple[int, ...], options: tuple[str, ...], why: str
    ) -> None:
        assert refused(2, "query", "filter1d", *SHAPE, *options, "--weights", self.written(np.ones(shape))) == why

    def test_that_are_complex(self, refused: Callable[..., str]) -> None:
        path = self.written(np.ones(4, np.complex64))
        told = refused(2, "query", "filter1d", *SHAPE, "--dtype", "complex64", "--weights", path)
        assert told == "w.npy must hold real numbers; it holds complex64"

    def test_that_are_no_array(self, refused: Callable[..., str]) -> None:
        Path("w.npy").write_text("1 2 3 4")
        told = refused(2, "query", "filter1d", *SHAPE, "--weights", "w.npy")
        assert told == "w.npy is not a .npy file; write the weights with numpy.save"
        assert "cannot read the weights none.npy" in refused(2, "query", "filter1d", *SHAPE, "--weights", "none.npy")


COMMANDS = ("tune", "query", "verify", "explain")
BAD_PROBLEMS = [
    (("--signal", "0", "--taps", "4"), "signal must be 1 to"),
    (("--signal", "40", "--taps", "0"), "taps must be 1 to"),
    (("--signal", "40"), "Missing option '--taps'"),
    (("--signal", "4x4", "--taps", "4"), "'--signal'"),
    ((*SHAPE, "--batch", "0"), "batch must be 1 to"),
    ((*SHAPE, "--down", "0"), "down must be 1 to"),
    ((*SHAPE, "--channels", "6", "--filters", "4"), "filters must divide the number of channels, 6; got 4"),
    (("--signal", "4", "--taps", "5", "--mode", "valid"), "choose a mode other than valid"),
    ((*SHAPE, "--mode", "wrap"), "unknown mode 'wrap'; choose one of full, same, valid, causal"),
    ((*SHAPE, "--mode", "full", "--lags", "0,1"), "mode and lags both say which outputs to compute"),
    ((*SHAPE, "--lags", "0"), "--lags must be FIRST,LAST, such as -2,100; got '0'"),
    ((*SHAPE, "--lags", "0,x"), "--lags must be FIRST,LAST, such as -2,100; got '0,x'"),
    ((*SHAPE, "--lags", "0,40"), "lags must rise and lie in -3 to 39"),
    ((*SHAPE, "--lags", "9,8"), "lags must rise and lie in -3 to 39"),
    ((*SHAPE, "--layout", "nct"), "unknown layout 'nct'; choose one of bct, btc"),
    ((*SHAPE, "--dtype", "float64"), "unknown dtype 'float64'; choose one of float32, float16, bfloat16, complex64"),
    ((*SHAPE, "--taps-dtype", "float16"), "dtype of the taps of a float32 signal 'float16'; choose one of float32"),
    ((*SHAPE, "--taps-dtype", "float99"), "unknown dtype of the taps of a float32 signal 'float99'"),
    ((*SHAPE, "--result-dtype", "uint8"), "unknown result dtype 'uint8'; choose one of float32, float16, bfloat16"),
    ((*SHAPE, "--activation", "relu"), "unknown activation 'relu'; choose one of silu"),
    ((*SHAPE, "--dtype", "complex64", "--bias"), "a bias and an activation are for real signals; this one is"),
    ((*SHAPE, "--state", "now"), "unknown state 'now'; choose one of before, after, both, carried"),
    ((*SHAPE, "--state", "both"), "a state needs a causal slice, mode causal; this one is mode full"),
    ((*SHAPE, "--mode", "causal", "--packed", "0"), "packed must be 1 to 1073741823; got 0"),
    ((*SHAPE, "--mode", "causal", "--circular"), "circular need state='carried'"),
    ((*SHAPE, "--batch", "2", "--pitch", "156"), "pitch must be 160 bytes or more, in steps of 4; got 156"),
]


@pytest.mark.parametrize(
    ("command", "options", "why"), [(COMMANDS[n % 4], *each) for n, each in enumerate(BAD_PROBLEMS)]
)
def test_a_bad_problem_is_told_in_one_line(
    refused: Callable[..., str], command: str, options: tuple[str, ...], why: str
) -> None:
    assert why in refused(2, command, "filter1d", *options)


class TestUntuned:
    def test_query_says_that_nothing_is_stored(self, refused: Callable[..., str]) -> None:
        told = refused(3, "query", "filter1d", *SHAPE, "--mode", "same", *ON_HOST)
        assert told.startswith("nothing is stored for filter1d signal=40 taps=4 batch=1 mode=same dtype=float32; ")
        assert "`warpsmith tune filter1d`" in told

    def test_explain_names_the_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["explain", "filter1d", *SHAPE, *ON_HOST, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["problem_key"] == Filter1d(40, 4).key()
        assert told["match"] == "default"
        assert told["family"].startswith("filter1d_")

    def test_explain_shows_the_source(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["explain", "filter1d", *SHAPE, *ON_HOST, "--source"]) == 0
        assert "constexpr int kTaps = 4;" in capsys.readouterr().out


class TestWorkload:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({}, "signals of 40 samples, float32, mode full"),
            ({"batch": 3, "mode": "causal"}, "signals of 40 samples, batch 3, float32, mode causal"),
            (
                {"channels": 6, "filters": 2, "layout": "btc", "dtype": "int16", "lags": (-1, 9), "down": 2},
                "signals of 40 samples, channels 6, filters 2, btc, int16, lags -1 to 9, one output of 2",
            ),
            ({"bias": True}, "signals of 40 samples, float32, mode full, bias"),
            (
                {"mode": "causal", "state": "after", "packed": 3},
                "signals of 40 samples, float32, mode causal, 3 packed sequences, state after",
            ),
            (
                {"mode": "causal", "state": "carried", "state_width": 5, "state_rows": 9, "circular": True},
                "signals of 40 samples, float32, mode causal, state carried of 5 samples in 9 rows, circular",
            ),
            ({"bias": True, "activation": "silu"}, "signals of 40 samples, float32, mode full, bias, silu"),
        ],
    )
    def test_says_what_rows_have_in_common(self, fields: dict[str, Any], words: str) -> None:
        assert workload(Filter1d(40, 4, **fields)) == words

    def test_a_bench_measures_a_row_for_each_number_of_taps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        measured: list[Problem] = []

        def measure(subjects: Any, *_: Any) -> tuple[()]:
            measured.extend(each.problem for each in subjects)
            return ()

        monkeypatch.setattr(filter1d_bench, "measure", measure)
        monkeypatch.setattr(filter1d_bench, "_show", lambda _: None)
        assert run(["bench", "filter1d", *ON_HOST]) == 0
        assert measured == [Filter1d(2**24, taps) for taps in (5, 17, 33, 65, 129)]
        measured.clear()
        words = ("--taps", "3", "--taps", "9", "--signal", "64", "--mode", "same")
        assert run(["bench", "filter1d", *ON_HOST, *words]) == 0
        assert measured == [Filter1d(64, taps, mode="same") for taps in (3, 9)]  # type: ignore[arg-type]
        measured.clear()
        assert run(["bench", "filter1d", *ON_HOST, "--taps", "3", "--bias", "--activation", "swish"]) == 0
        assert measured == [Filter1d(2**24, 3, bias=True, activation="silu")]  # type: ignore[arg-type]

    def test_a_bench_of_a_bad_problem_is_refused(self, refused: Callable[..., str]) -> None:
        assert "unknown mode 'wrap'" in refused(2, "bench", "filter1d", "--mode", "wrap", *ON_HOST)


PROBLEM = Filter1d(300, 7, batch=2, mode="same", convolve=True)  # type: ignore[arg-type]
WORDS = ("filter1d", "--signal", "300", "--taps", "7", "--batch", "2", "--mode", "same", "--convolve")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, quickest: HostCompiler) -> str:
    """A store with a winner for PROBLEM, tuned on the command line."""
    store = str(tmp_path_factory.mktemp("tuned") / "a.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(quickest.executable))
        assert run(["tune", *WORDS, *ON_HOST, "--trials", "3", "--store", store]) == 0
    return store


@with_judge
@pytest.mark.usefixtures("compile_unoptimised")
class TestTuned:
    @pytest.fixture
    def document(self, tuned: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Mapping[str, Any]]:
        def call(*words: str) -> Mapping[str, Any]:
            assert run([*words, *ON_HOST, "--store", tuned, "--json"]) == 0
            found: Mapping[str, Any] = json.loads(capsys.readouterr().out)
            return found

        return call

    def test_query_and_explain_find_the_winner(self, document: Callable[..., Mapping[str, Any]]) -> None:
        for command in ("query", "explain"):
            told = document(command, *WORDS)
            assert (told["match"], told["problem_key"]) == ("exact", PROBLEM.key())
            assert told["family"].startswith("filter1d_")

    def test_a_plan_of_the_winner_filters(self, tuned: str) -> None:
        rng = np.random.default_rng(0)
        x, w = rng.standard_normal((2, 300), np.float32), rng.standard_normal(7, np.float32)
        plan = ws.plan(PROBLEM, device="host", store=tuned)
        assert plan.match.kind == "exact"
        expected = np.array([np.convolve(line, w, "same") for line in x.astype(np.float64)])
        np.testing.assert_allclose(plan(x, w), expected, atol=1e-5)

    def test_verify_is_right(self, document: Callable[..., Mapping[str, Any]]) -> None:
        assert document("verify", *WORDS)["right"] is True

    def test_bench_compares_it(self, document: Callable[..., Mapping[str, Any]]) -> None:
        words = [word for word in WORDS if word != "filter1d"]
        (row,) = document("bench", "filter1d", *words)["rows"]
        assert (row["match"], row["problem_key"]) == ("exact", PROBLEM.key())
