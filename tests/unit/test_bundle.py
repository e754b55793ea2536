"""Reading bundles: one line names any damage, and a sound bundle needs nothing from the tuner."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from builders import winner
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, BundleError, DeviceError, NothingStored
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.presets import H200
from warpsmith.plans.bundle import MANIFEST, Bundle, load_bundle
from warpsmith.plans.loaded import Verified
from warpsmith.plans.match import MatchKind
from warpsmith.store.record import Checked, Verdict, marked
from warpsmith.tuner.export import export

PROBLEM = Filter2d(image=(61, 47), filter=(3, 5), border=Border.REFLECT)
HOST = DeviceRef.parse("host").device()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of one kernel."""
    export([winner(PROBLEM, device=HOST)], tmp_path / "b")
    return tmp_path / "b"


def refusal(folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    assert caught.value.exit_code == 1
    return message


class TestDamage:
    def test_no_bundle(self, tmp_path: Path) -> None:
        assert refusal(tmp_path) == f"{tmp_path} is not a bundle: it has no {MANIFEST}"
        assert "is not a bundle" in refusal(tmp_path / "none")
        (tmp_path / "file").touch()
        assert "Not a directory" in refusal(tmp_path / "file")
        (tmp_path / MANIFEST).mkdir()
        assert "Is a directory" in refusal(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"{", b"\x89PNG\r\n\x1a\n\xff", b'{"format"', b"[" * 100_000])
    def test_manifest_that_is_no_json(self, folder: Path, content: bytes) -> None:
        (folder / MANIFEST).write_bytes(content)
        assert "is damaged" in refusal(folder)

    @pytest.mark.parametrize("content", ["[]", "7", "null", "{}", '{"format": "web-app", "version": 1}'])
    def test_manifest_of_something_else(self, folder: Path, content: str) -> None:
        (folder / MANIFEST).write_text(content)
        assert "is not of a warpsmith bundle" in refusal(folder)

    def test_manifest_cut_short(self, folder: Path) -> None:
        content = (folder / MANIFEST).read_bytes()
        (folder / MANIFEST).write_bytes(content[: len(content) // 2])
        assert "is damaged" in refusal(folder)

    @pytest.mark.parametrize("version", [3, 0, "1", None])
    def test_another_format(self, folder: Path, version: object) -> None:
        self._change(folder, lambda manifest: manifest.update(version=version))
        assert refusal(folder) == f"{folder} has bundle format {version}; this version reads 1 and 2: upgrade warpsmith"

    @pytest.mark.parametrize(
        "change",
        [
            lambda manifest: manifest.pop("kernels"),
            lambda manifest: manifest.update(kernels=None),
            lambda manifest: manifest.update(kernels={"a": 1}),
            lambda manifest: manifest.update(kernels=[None]),
            lambda manifest: manifest.update(kernels=[[]]),
            lambda manifest: manifest.update(kernels=["kernel"]),
            lambda manifest: manifest["kernels"][0].update(operation="teleport"),
            lambda manifest: manifest["kernels"][0].update(problem_key="filter2d image=1x1"),
            lambda manifest: manifest["kernels"][0]["problem"].update(image=[610, 470]),
            lambda manifest: manifest["kernels"][0]["problem"].update(filter=[99, 99]),
            lambda manifest: manifest["kernels"][0]["device"].pop("kind"),
            lambda manifest: manifest["kernels"][0]["device"].update(multiprocessors=3000),
            lambda manifest: manifest["kernels"][0]["trial"].update(config=[]),
            lambda manifest: manifest["kernels"][0]["trial"].update(measurement=None),
            lambda manifest: manifest["kernels"][0].update(trial=None),
            lambda manifest: manifest["kernels"][0].pop("program"),
            lambda manifest: manifest["kernels"][0].update(program=[]),
            lambda manifest: manifest["kernels"][0]["program"].update(launches=None),
            lambda manifest: manifest["kernels"][0]["program"]["launches"][0].update(grid=[1, 1]),
            lambda manifest: manifest["kernels"][0]["program"]["launches"][0].update(grid=[999, 999, 1]),
            lambda manifest: manifest["kernels"][0]["program"]["launches"][0].update(arguments=[7]),
            lambda manifest: manifest["kernels"][0].pop("source"),
            lambda manifest: manifest["kernels"][0].update(source="kernel.cu"),
            lambda manifest: manifest["kernels"][0]["source"].pop("sha256"),
            lambda manifest: manifest["kernels"][0]["source"].update(path=7),
            lambda manifest: manifest["kernels"][0]["source"].update(path="a\0b"),
            lambda manifest: manifest["kernels"][0].update(binaries=None),
            lambda manifest: manifest["kernels"][0].update(binaries=[{}]),
            lambda manifest: manifest["kernels"][0].update(
                binaries=[{"kind": "spell", **manifest["kernels"][0]["source"]}]
            ),
        ],
    )
    def test_manifest_with_a_wrong_value(self, folder: Path, change: Callable[[Any], object]) -> None:
        self._change(folder, change)
        message = refusal(folder)
        assert message.startswith(f"{folder / MANIFEST} is damaged (")
        assert message.endswith("; export the bundle again")

    def _change(self, folder: Path, change: Callable[[Any], object]) -> None:
        manifest = json.loads((folder / MANIFEST).read_text())
        change(manifest)
        (folder / MANIFEST).write_text(json.dumps(manifest))

    def test_altered_source(self, folder: Path) -> None:
        (source,) = folder.rglob("*.cu")
        source.write_text(source.read_text().replace("+", "-", 1))
        assert refusal(folder) == f"{source} was altered since its export; export the bundle again"

    def test_missing_source(self, folder: Path) -> None:
        (source,) = folder.rglob("*.cu")
        source.unlink()
        assert refusal(folder) == f"cannot read {source}: No such file or directory; export the bundle again"

    def test_after_loading_is_no_matter(self, folder: Path) -> None:
        bundle = load_bundle(folder)
        for path in (*folder.rglob("*.cu"), folder / MANIFEST):
            path.unlink()
        assert bundle.plan(PROBLEM, "host").problem == PROBLEM


class TestPlan:
    def test_of_a_problem_that_is_not_in_it(self, folder: Path) -> None:
        other = dataclasses.replace(PROBLEM, border=Border.WRAP)
        with pytest.raises(NothingStored) as caught:
            load_bundle(folder).plan(other, "host")
        assert str(caught.value) == f"the bundle {folder} has no kernel for {other.key()} on a host device"
        assert caught.value.exit_code == 3

    def test_for_another_kind_of_device(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.export._cubins", lambda *_: iter(()))
        export([winner(PROBLEM, device=H200)], tmp_path)
        with pytest.raises(NothingStored, match="on a host device"):
            load_bundle(tmp_path).plan(PROBLEM, "host")

    def test_on_a_device_that_is_not_there(self, folder: Path) -> None:
        with pytest.raises(BadArgument, match="unknown device 'tpu'"):
            load_bundle(folder).plan(PROBLEM, "tpu")
        with pytest.raises(DeviceError):
            load_bundle(folder).plan(PROBLEM, "cuda:999")

    def test_without_a_compiler(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "/none")
        with pytest.raises(BundleError, match=r"has no host code, and none can be made: .*apt-get install g\+\+"):
            load_bundle(folder).plan(PROBLEM, "host")

    def test_says_how_it_was_found(self, tmp_path: Path) -> None:
        elsewhere = dataclasses.replace(HOST, name="Another CPU")
        export([winner(PROBLEM, device=elsewhere)], tmp_path)
        match = load_bundle(tmp_path).plan(PROBLEM, "host").match
        assert match.kind is MatchKind.DEVICE
        assert match.reasons == (f"exact: exported for {elsewhere.key()}, this is {HOST.key()}",)
        export([winner(PROBLEM, device=elsewhere), winner(PROBLEM, device=HOST)], tmp_path)
        match = load_bundle(tmp_path).plan(PROBLEM, "host").match
        assert match.kind is MatchKind.EXACT
        assert match.record == winner(PROBLEM, device=HOST)

    def test_what_does_not_compile_here_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        others = [dataclasses.replace(HOST, name=name) for name in ("One CPU", "Another CPU")]
        export([winner(PROBLEM, device=each) for each in others], tmp_path)
        bundle, binaries = load_bundle(tmp_path), Bundle._binaries
        first = bundle._ranked(PROBLEM, HOST)[0].record.device

        def refused(self: Bundle, kernel: Any, *rest: Any) -> Any:
            if kernel.record.device == first:
                raise BundleError("has no code")
            return binaries(self, kernel, *rest)

        monkeypatch.setattr(Bundle, "_binaries", refused)
        match = bundle.plan(PROBLEM, "host").match
        assert match.record is not None
        assert match.record.device != first
        assert match.reasons[1:] == (f"exported for {first.key()}: has no code",)

    def test_what_a_later_look_found_wrong_does_not_answer(self, tmp_path: Path) -> None:
        wrong = marked(winner(PROBLEM, device=HOST), Checked("2026-01-01", Verdict.WRONG, None, None))
        export([wrong], tmp_path)
        with pytest.raises(BundleError, match="was not right when it was last looked at: tune again"):
            load_bundle(tmp_path).plan(PROBLEM, "host")
        elsewhere = dataclasses.replace(HOST, name="Another CPU")
        export([wrong, winner(PROBLEM, device=elsewhere)], tmp_path)
        assert load_bundle(tmp_path).plan(PROBLEM, "host").match.kind is MatchKind.DEVICE

    def test_winners_of_this_device_are_exempt_from_the_check_of_first_use(self, tmp_path: Path) -> None:
        export([winner(PROBLEM, device=HOST)], tmp_path / "a")
        export([winner(PROBLEM, device=dataclasses.replace(HOST, name="Another CPU"))], tmp_path / "b")
        here, elsewhere = (load_bundle(tmp_path / name).plan(PROBLEM, "host").verified for name in "ab")
        assert here.by is Verified.STORED
        assert (elsewhere.by, elsewhere.reason) == (Verified.NOT, "the bundle's kernel was tuned on another device")

    def test_computes_what_scipy_does(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        image, weights = rng.random((61, 47), dtype=np.float32), rng.random((3, 5), dtype=np.float32)
        result = load_bundle(str(folder)).plan(PROBLEM, "host")(image, weights)
        expected = ndimage.correlate(image.astype(float), weights.astype(float), mode="reflect")
        assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


RUN = """
import sys
import warpsmith as ws
loaded_by_import = {"numpy", "optuna", "sqlalchemy", "alembic", "jinja2", "typer", "rich"} & set(sys.modules)
assert not loaded_by_import, loaded_by_import
import numpy as np
problem = ws.Filter2d(image=(61, 47), filter=(3, 5), border="symmetric")
bundle = ws.load_bundle(sys.argv[1])
assert bundle.problems == (problem,)
rng = np.random.default_rng(0)
image, weights = rng.random((61, 47), dtype=np.float32), rng.random((3, 5), dtype=np.float32)
result = bundle.plan(problem, "host")(image, weights)
loaded = {"optuna", "sqlalchemy", "alembic", "jinja2", "typer", "rich", "scipy"} & set(sys.modules)
assert not loaded, loaded
from scipy import ndimage
expected = ndimage.correlate(image.astype(float), weights.astype(float), mode="reflect")
print(np.abs(result - expected).max() / np.abs(expected).max())
"""


def test_needs_nothing_of_the_tuners(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(folder)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert float(ran.stdout) <= 1e-6
