"""Writing bundles: all or nothing, over an earlier one too."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import binary, winner
from warpsmith.devices.compiler import Binary
from warpsmith.errors import BadArgument, BundleError, CompileError, NothingStored
from warpsmith.files import write_whole
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import HOST
from warpsmith.generator.program import Program
from warpsmith.plans.bundle import MANIFEST, load_bundle
from warpsmith.tuner.export import export

SMALL, WIDE = Filter2d(image=(64, 64), filter=(3, 3)), Filter2d(image=(64, 80), filter=(3, 3))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@dataclasses.dataclass
class Compilers:
    """Stands in for NVRTC and nvcc, which a machine without the CUDA packages lacks."""

    release: str = "13.0"
    refuses: frozenset[str] = frozenset()

    def choose(self, arch: str, choice: str = "auto") -> Compilers:
        if not arch.startswith("sm_"):
            raise BadArgument(arch)
        return dataclasses.replace(self, release=f"{choice} {self.release} for {arch}")

    def compile_program(self, program: Program) -> dict[str, Binary]:
        name, *_, arch = self.release.split()
        if name in self.refuses:
            raise CompileError(f"{name} is missing")
        image = f"{self.release}: {program.fingerprint}".encode()
        return {"": binary(image, arch=arch, compiler=self.release, registers=20)}


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Compilers:
    stand_in = Compilers()
    monkeypatch.setattr("warpsmith.tuner.export.cuda_compiler", lambda *words: stand_in.choose(*words))
    return stand_in


class TestContent:
    def test_is_what_the_manifest_says(self, tmp_path: Path) -> None:
        report = export([winner(SMALL, device=HOST), winner(WIDE, device=HOST)], tmp_path / "b")
        assert (report.folder, report.kernels, report.cubins, report.skipped) == (tmp_path / "b", 2, 0, ())
        manifest = json.loads((tmp_path / "b" / MANIFEST).read_text())
        assert (manifest["format"], manifest["version"]) == ("warpsmith-bundle", 1)
        assert [entry["problem_key"] for entry in manifest["kernels"]] == [SMALL.key(), WIDE.key()]
        for entry in manifest["kernels"]:
            content = (tmp_path / "b" / entry["source"]["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == entry["source"]["sha256"]
            assert b"__global__" in content
        assert len(files(tmp_path / "b")) == 3

    def test_is_readable_by_others(self, tmp_path: Path) -> None:
        export([winner(SMALL, device=HOST)], tmp_path / "b")
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in (tmp_path / "b").rglob("*.cu"))

    @pytest.mark.usefixtures("compilers")
    def test_holds_a_cubin_for_the_winners_own_gpu(self, tmp_path: Path) -> None:
        report = export([winner(SMALL), winner(SMALL, device=HOST)], tmp_path / "b")
        assert (report.kernels, report.cubins) == (2, 1)
        (path,) = (tmp_path / "b").rglob("*.cubin")
        assert path.read_bytes().startswith(b"nvrtc 13.0 for sm_90: ")
        (entry, _) = json.loads((tmp_path / "b" / MANIFEST).read_text())["kernels"]
        (binary,) = entry["binaries"]
        assert (binary["arch"], binary["kind"], binary["registers"]) == ("sm_90", "cubin", 20)
        load_bundle(tmp_path / "b")

    @pytest.mark.usefixtures("compilers")
    def test_holds_a_cubin_for_each_architecture_named(self, tmp_path: Path) -> None:
        report = export([winner(SMALL), winner(WIDE, device=HOST)], tmp_path / "b", ("sm_80", "sm_100"))
        assert report.cubins == 4
        assert (
            sorted(path.suffixes[0] for path in (tmp_path / "b").rglob("*.cubin")) == [".sm_100"] * 2 + [".sm_80"] * 2
        )

    def test_lacks_a_cubin_that_no_compiler_makes(self, tmp_path: Path, compilers: Compilers) -> None:
        compilers.refuses = frozenset({"nvrtc"})
        assert export([winner(SMALL)], tmp_path / "a").cubins == 1
        compilers.refuses = frozenset({"nvrtc", "nvcc"})
        report = export([winner(SMALL)], tmp_path / "b")
        assert report.cubins == 0
        assert report.skipped == (f"{SMALL.key()}: no cubin for sm_90: nvcc is missing",)
        load_bundle(tmp_path / "b")

    def test_is_the_same_each_time(self, tmp_path: Path) -> None:
        for name in "ab":
            export([winner(SMALL, device=HOST), winner(WIDE, device=HOST)], tmp_path / name)
        assert files(tmp_path / "a") == files(tmp_path / "b")


class TestOverAnEarlierBundle:
    def test_its_files_go(self, tmp_path: Path) -> None:
        export([winner(SMALL, device=HOST), winner(WIDE, device=HOST)], tmp_path)
        (tmp_path / "notes.txt").write_text("mine")
        (tmp_path / "kernels" / "mine.cu").write_text("mine too")
        export([winner(WIDE, device=HOST)], tmp_path)
        assert load_bundle(tmp_path).problems == (WIDE,)
        left = files(tmp_path)
        assert left.pop("notes.txt") == b"mine"
        assert left.pop("kernels/mine.cu") == b"mine too"
        assert len(left) == 2

    def test_damage_is_repaired(self, tmp_path: Path) -> None:
        export([winner(SMALL, device=HOST)], tmp_path)
        before = files(tmp_path)
        for path in (tmp_path / "kernels").iterdir():
            path.write_text("altered")
        export([winner(SMALL, device=HOST)], tmp_path)
        assert files(tmp_path) == before

    @pytest.mark.parametrize("path", ["../precious.txt", "/precious.txt", "kernels/../../precious.txt", "notes.txt", 7])
    def test_its_manifest_removes_nothing_outside_the_bundles_kernels(self, tmp_path: Path, path: object) -> None:
        folder = tmp_path / "b"
        export([winner(SMALL, device=HOST)], folder)
        (tmp_path / "precious.txt").write_text("precious")
        (folder / "notes.txt").write_text("mine")
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["kernels"][0]["source"]["path"] = path
        (folder / MANIFEST).write_text(json.dumps(manifest))
        if isinstance(path, str):
            export([winner(WIDE, device=HOST)], folder)
        else:
            with pytest.raises(BundleError, match="holds other files"):
                export([winner(WIDE, device=HOST)], folder)
        assert (tmp_path / "precious.txt").read_text() == "precious"
        assert (folder / "notes.txt").read_text() == "mine"

    def test_nothing_to_export_leaves_it(self, tmp_path: Path) -> None:
        export([winner(SMALL, device=HOST)], tmp_path)
        before = files(tmp_path)
        with pytest.raises(NothingStored, match="nothing to export"):
            export([], tmp_path)
        with pytest.raises(BadArgument):
            export([winner(WIDE, device=HOST)], tmp_path, ("sm_what",))
        assert files(tmp_path) == before


class FullDisk:
    """Puts a number of files in place, then reports a full disk."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self._replace: Callable[..., None] = os.replace

    def __call__(self, source: Any, target: Any) -> None:
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        self._replace(source, target)


class TestFullDisk:
    @pytest.fixture
    def earlier(self, tmp_path: Path, compilers: Compilers) -> Iterator[Path]:
        """A bundle, and a compiler that has changed since."""
        export([winner(SMALL)], tmp_path / "b")
        compilers.release = "13.1"
        yield tmp_path / "b"
        assert load_bundle(tmp_path / "b").problems

    @pytest.mark.parametrize("writes", range(5))
    def test_leaves_the_earlier_bundle(self, earlier: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
        before = files(earlier)
        monkeypatch.setattr(os, "replace", FullDisk(writes))
        with pytest.raises(BundleError, match=r"cannot write the bundle .*: No space left on device; choose another"):
            export([winner(SMALL), winner(WIDE)], earlier)
        assert files(earlier) == before

    def test_is_no_matter_after_the_last_write(self, earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "replace", FullDisk(5))
        export([winner(SMALL), winner(WIDE)], earlier)
        assert load_bundle(earlier).problems == (SMALL, WIDE)
        assert all(b"13.1" in content for name, content in files(earlier).items() if name.endswith(".cubin"))

    @pytest.mark.parametrize("writes", range(3))
    def test_leaves_nothing_where_nothing_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
    ) -> None:
        monkeypatch.setattr(os, "replace", FullDisk(writes))
        with pytest.raises(BundleError, match="No space left"):
            export([winner(SMALL, device=HOST), winner(WIDE, device=HOST)], tmp_path / "new" / "b")
        assert list(tmp_path.iterdir()) == []

    def test_interruption_leaves_nothing_either(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            export([winner(SMALL, device=HOST)], tmp_path / "b")
        assert list(tmp_path.iterdir()) == []


def test_whole_file_is_written_through_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"first")
    write_whole(path, b"second")
    assert files(tmp_path) == {"a": b"second"}
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"third")
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "a", b"third")
    assert files(tmp_path) == {"a": b"second"}
