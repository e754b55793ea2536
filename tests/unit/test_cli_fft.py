"""`warpsmith ... fft`: tuned on the host, queried in every way, and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsmith.cli.app import run
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.generator.fft import Fft
from warpsmith.generator.registry import OPERATIONS
from warpsmith.plans.bundle import load_bundle
from warpsmith.store import location
from warpsmith.store.location import own_store

SMALL = ("fft", "--size", "8x6", "--batch", "5", "--valid", "7x6", "--layout", "frequency")
PROBLEM = Fft((8, 6), 5, valid=(7, 6), layout="frequency")  # type: ignore[arg-type]
ON_HOST = ("--device", "host")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, quickest: HostCompiler) -> str:
    """A store with a winner for SMALL, tuned on the command line."""
    store = str(tmp_path_factory.mktemp("tuned") / "a.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(quickest.executable))
        assert run(["tune", *SMALL, *ON_HOST, "--trials", "3", "--store", store]) == 0
    return store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command without and with --json, which must both be refused alike; returns the line."""

    def call(code: int, *arguments: str) -> str:
        assert run(list(arguments)) == code
        plain = capsys.readouterr()
        assert plain.out == ""
        assert run([*arguments, "--json"]) == code
        (line,) = plain.err.splitlines()
        told = line.removeprefix("warpsmith: error: ")
        assert json.loads(capsys.readouterr().out) == {"error": told, "exit_code": code}
        assert not own_store().exists()
        return told

    return call


Document = Callable[..., Any]
Printed = Callable[..., str]
Refused = Callable[..., str]


@pytest.mark.usefixtures("compile_unoptimised")
class TestTuned:
    def test_tune_goes_on_where_an_earlier_run_ended(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        shape = ("fft", "--size", "16", "--batch", "9", "--kind", "c2c", "--inverse", "--norm", "ortho")
        command = ["tune", *shape, *ON_HOST, "--store", "new/a.db", "--json", "--trials"]
        assert run([*command, "2"]) == 0
        shown = capsys.readouterr()
        first = json.loads(shown.out)
        assert "[2/2]" in shown.err
        assert (first["trials"], first["reused"], first["interrupted"]) == (2, 0, False)
        assert (folder / "new" / "a.db").exists()
        assert run([*command, "3"]) == 0
        again = json.loads(capsys.readouterr().out)
        assert again["reused"] == 2
        assert again["record"]["problem"] == Fft((16,), 9, kind="c2c", inverse=True, norm="ortho").spec()  # type: ignore[arg-type]

    def test_query(self, tuned: str, document: Document, printed: Printed) -> None:
        asked = ("query", *SMALL, *ON_HOST, "--store", tuned)
        answer = document(*asked)
        assert answer["match"] == "exact"
        assert answer["problem"] == PROBLEM.spec()
        assert answer["problem_key"] == PROBLEM.key()
        assert answer["family"] in {family.name for family in OPERATIONS["fft"].families}
        assert answer["vendor"].startswith("scipy ")
        assert printed(*asked).startswith(f"match     exact\nproblem   {PROBLEM.key()}\n")

    def test_query_of_another_batch_is_near(self, tuned: str, document: Document) -> None:
        answer = document("query", *SMALL[:3], "--batch", "40", *SMALL[5:], *ON_HOST, "--store", tuned)
        assert answer["match"] == "near"
        assert answer["problem"]["batch"] == 40
        (reason,) = answer["reasons"]
        assert reason.startswith("exact: fft size=8x6 batch=40 kind=r2c valid=7x6 layout=frequency is not stored")

    def test_verify(self, tuned: str, document: Document, printed: Printed) -> None:
        asked = ("verify", *SMALL, *ON_HOST, "--store", tuned)
        answer = document(*asked)
        assert (answer["right"], answer["match"]) == (True, "exact")
        assert 0 <= answer["max_error"] <= answer["bound"] == 1e-6
        assert re.search(r"^correct   largest error \S+ of twice the result's root mean square", printed(*asked), re.M)

    def test_verify_of_what_is_not_stored_takes_the_default(self, document: Document) -> None:
        answer = document("verify", "fft", "--size", "12", "--kind", "c2r", "--batch", "3", *ON_HOST)
        assert (answer["right"], answer["match"]) == (True, "default")

    def test_explain(self, tuned: str, document: Document, printed: Printed) -> None:
        asked = ("explain", *SMALL, *ON_HOST, "--store", tuned)
        answer = document(*asked)
        assert len(answer["trials"]) == 3
        assert set(answer["families"]) == {family.name for family in OPERATIONS["fft"].families}
        assert answer["families"]["fft_block"] is None
        assert printed(*asked, "--source") == answer["source"]
        assert answer["source"].count('extern "C" __global__') == 1
        assert "trials    3 stored" in printed(*asked)

    def test_export_and_load(self, tuned: str, document: Document, folder: Path) -> None:
        assert document("export", *SMALL, "--store", tuned, "--out", "bundle")["kernels"] == 1
        plan = load_bundle(folder / "bundle").plan(PROBLEM, "host")
        assert plan.match.kind == "exact"
        signal = np.random.default_rng(0).standard_normal((5, 7, 6)).astype(np.float32)
        expected = np.moveaxis(np.fft.rfft2(signal.astype(float), (8, 6)), 0, -1)
        result = plan(signal)
        assert np.linalg.norm(result - expected) <= 5e-7 * np.linalg.norm(expected)

    def test_report_has_it(self, tuned: str, document: Document) -> None:
        (record,) = document("report", "--store", tuned)["records"]
        assert record["problem"] == PROBLEM.spec()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (("--size", "256"), "size=256 batch=1 kind=r2c"),
        (("--size", "32x32", "--batch", "4096"), "size=32x32 batch=4096 kind=r2c"),
        (
            ("--size", "32x32", "--batch", "4096", "--kind", "r2c", "--valid", "27x27", "--layout", "frequency"),
            "size=32x32 batch=4096 kind=r2c valid=27x27 layout=frequency",
        ),
        (("--size", "32X32", "--valid", "32x32"), "size=32x32 batch=1 kind=r2c"),
        (("--size", "64", "--kind", "c2c", "--inverse"), "size=64 batch=1 kind=c2c inverse=yes"),
        (("--size", "64", "--kind", "c2r", "--inverse"), "size=64 batch=1 kind=c2r"),
        (("--size", "8x8", "--layout", "transposed", "--order", "reversed"), "layout=transposed order=reversed"),
        (("--size", "8", "--norm", "forward"), "size=8 batch=1 kind=r2c norm=forward"),
        (("--size", "8", "--valid", "5", "--border", "reflect:2+1"), "valid=5 border=reflect:2+1"),
    ],
)
def test_what_is_not_stored_is_named_with_exit_code_3(refused: Refused, options: tuple[str, ...], key: str) -> None:
    told = refused(3, "query", "fft", *options, *ON_HOST)
    assert f"{key}; run `warpsmith tune fft` first" in told


COMMANDS = ("tune", "query", "verify", "explain")
"""Commands that take a problem; all read its options under the same names."""
BAD_PROBLEMS: Sequence[tuple[tuple[str, ...], str]] = [
    (("--size", "1"), "each dimension of a transform needs at least 2 points"),
    (("--size", "8x1"), "each dimension of a transform needs at least 2 points"),
    (("--size", "0"), "size must be one or two positive sizes"),
    (("--size", "8x8x8"), "--size must be N or ROWSxCOLUMNS, such as 256 or 32x32; got '8x8x8'"),
    (("--size", "-8"), "--size must be N or ROWSxCOLUMNS"),
    (("--size", ""), "--size must be N or ROWSxCOLUMNS"),
    (("--size", "eight"), "--size must be N or ROWSxCOLUMNS"),
    (("--size", "99999"), "size must be one or two positive sizes below 32768"),
    (("--size", "8", "--batch", "0"), "batch must be 1 or more; got 0"),
    (("--size", "8", "--batch", "many"), "'--batch'"),
    (("--size", "8", "--kind", "d2z"), "unknown kind 'd2z'; choose one of r2c, c2r, c2c"),
    (("--size", "8", "--inverse"), "r2c is always forward"),
    (("--size", "8", "--valid", "9"), "valid must be a part of 8; got 9"),
    (("--size", "8x8", "--valid", "4"), "valid must be a part of 8x8; got 4"),
    (("--size", "8", "--valid", "4x"), "--valid must be N or ROWSxCOLUMNS"),
    (("--size", "8", "--valid", "5", "--border", "2"), "border must be MODE:PADS, such as mirror:1"),
    (("--size", "8", "--valid", "5", "--border", "zeros:1"), "unknown border 'zeros'; choose one of reflect"),
    (("--size", "8", "--norm", "unitary"), "unknown norm 'unitary'; choose one of backward, ortho, forward"),
    (("--size", "8", "--layout", "rows"), "unknown layout 'rows'; choose one of batch, transposed, frequency"),
    (("--size", "8", "--layout", "transposed"), "layout transposed needs two dimensions; this transform has one"),
    (("--size", "8", "--order", "shifted"), "unknown order 'shifted'; choose one of natural, reversed"),
    (("--size", "12", "--order", "reversed"), "bit-reversed order needs powers of two; got 12"),
    (("--size", "8", "--image", "8x8"), "No such option: --image"),
    ((), "Missing option '--size'"),
]


@pytest.mark.parametrize(
    ("command", "options", "why"), [(COMMANDS[n % 4], *each) for n, each in enumerate(BAD_PROBLEMS)]
)
def test_what_makes_no_problem_is_refused_with_exit_code_2(
    refused: Refused, command: str, options: tuple[str, ...], why: str
) -> None:
    assert why in refused(2, command, "fft", *options, *ON_HOST)


PRIME, LARGE = "fft_block: has no radix for a prime above 31", "fft_block: half of one transform"


@pytest.mark.parametrize(
    ("command", "size", "why"),
    [("tune", "37", PRIME), ("query", "512x512", LARGE), ("verify", "512x512", LARGE), ("explain", "37", PRIME)],
)
def test_what_no_family_solves_is_told_with_their_reasons(refused: Refused, command: str, size: str, why: str) -> None:
    told = refused(2, command, "fft", "--size", size, *ON_HOST)
    assert told.startswith(f"no kernel family solves fft size={size} batch=1 kind=r2c: ")
    assert why in told
    assert "filter2d" not in told


def test_help_names_every_option(printed: Printed) -> None:
    shown = printed("tune", "fft", "--help")
    for option in ("--size", "--batch", "--kind", "--inverse", "--valid", "--norm", "--layout", "--order", "--trials"):
        assert option in shown
    assert "numpy.fft" in shown
