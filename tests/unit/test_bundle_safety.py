"""Malicious bundles: nothing outside their folder is read, and none of their libraries is loaded."""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import winner
from golden_files import all_reviewed
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BundleError
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Compilation
from warpsmith.plans import bundle_files
from warpsmith.plans.bundle import MANIFEST, load_bundle
from warpsmith.plans.bundle_program import checked_text
from warpsmith.tuner.export import export

PROBLEM = Filter2d(image=(61, 47), filter=(3, 5), border=Border.REFLECT)
HOST = DeviceRef.parse("host").device()
GOLDEN = Path(__file__).parents[1] / "golden"

MAP = {
    "buffer": "image",
    "dtype": "float16",
    "shape": [1, 1, 2, 64],
    "first": [0, -1],
    "extent": [1, 2],
    "step": [1, 1],
    "channels": 64,
    "pixels": 8,
}

Change = Callable[[Any], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of one kernel, beside a file outside the bundle."""
    export([winner(PROBLEM, device=HOST)], tmp_path / "b")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "b"


def change(folder: Path, how: Change) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    how(manifest["kernels"][0])
    (folder / MANIFEST).write_text(json.dumps(manifest))


def refusal(folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def file(path: Path, told: str) -> dict[str, str]:
    """A manifest's entry of a file as its maker would write it, with the right checksum."""
    return {"path": told, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def cubin(path: Path, told: str) -> dict[str, Any]:
    fields = {"kind": "cubin", "arch": "sm_90", "compiler": "nvrtc 13.0"}
    return file(path, told) | fields | dict.fromkeys(("registers", "spill_bytes", "shared_bytes"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Real paths of the files opened from here on."""
    seen: list[str] = []
    os_open, builtin_open = os.open, builtins.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **k: seen.append(os.path.realpath(path)) or os_open(path, *rest, **k)
    )
    monkeypatch.setattr(builtins, "open", lambda p, *rest, **k: seen.append(str(p)) or builtin_open(p, *rest, **k))
    return seen


class TestPaths:
    @pytest.mark.parametrize(
        "told", ["../secret", "kernels/../../secret", "{absolute}", "..", "kernels\\..\\..\\secret"]
    )
    @pytest.mark.parametrize("place", ["source", "binaries"])
    def test_that_lead_outside_are_refused(self, folder: Path, opened: list[str], told: str, place: str) -> None:
        secret = folder.parent / "secret"
        path = told.format(absolute=secret)
        new = file(secret, path) if place == "source" else [cubin(secret, path)]
        change(folder, lambda kernel: kernel.update({place: new}))
        opened.clear()
        message = refusal(folder)
        assert f"{MANIFEST} names {path!r}, which leads out of the bundle's folder" in message
        assert opened == [str(folder / MANIFEST)]

    @pytest.mark.parametrize("link", ["file", "folder", "loop"])
    def test_links_that_lead_outside_are_refused(self, folder: Path, opened: list[str], link: str) -> None:
        (source,) = folder.rglob("*.cu")
        entry = file(source, str(source.relative_to(folder)))
        if link == "folder":
            source.parent.rename(folder.parent / "elsewhere")
            source.parent.symlink_to(folder.parent / "elsewhere")
        else:
            source.rename(folder.parent / "elsewhere")
            source.symlink_to(folder.parent / "elsewhere" if link == "file" else source)
        change(folder, lambda kernel: kernel.update(source=entry))
        opened.clear()
        assert "leads out of the bundle's folder" in refusal(folder)
        assert opened == [str(folder / MANIFEST)]

    def test_a_manifest_that_is_a_link_to_elsewhere_is_refused(self, folder: Path) -> None:
        (folder / MANIFEST).rename(folder.parent / "m")
        (folder / MANIFEST).symlink_to("../m")
        assert "leads out of the bundle's folder" in refusal(folder)

    def test_links_within_the_bundle_and_to_it_are_followed(self, folder: Path) -> None:
        (source,) = folder.rglob("*.cu")
        source.rename(folder / "moved.cu")
        source.symlink_to("../moved.cu")
        (folder.parent / "link").symlink_to(folder)
        assert load_bundle(folder.parent / "link").problems == (PROBLEM,)

    @pytest.mark.parametrize("told", [["kernels"], {"path": "x"}, None, 7, True, "", "a\0b", "a\nb"])
    def test_of_another_kind_are_damage(self, folder: Path, told: object) -> None:
        change(folder, lambda kernel: kernel["source"].update(path=told))
        assert "is damaged (" in refusal(folder)

    def test_a_later_kernels_path_stops_the_first_kernel_too(self, folder: Path, opened: list[str]) -> None:
        manifest = json.loads((folder / MANIFEST).read_text())
        bad = json.loads(json.dumps(manifest["kernels"][0]))
        bad["source"]["path"] = "../secret"
        manifest["kernels"].append(bad)
        (folder / MANIFEST).write_text(json.dumps(manifest))
        opened.clear()
        refusal(folder)
        assert opened == [str(folder / MANIFEST)]

    def test_a_pipe_is_refused_at_once(self, folder: Path) -> None:
        (source,) = folder.rglob("*.cu")
        source.unlink()
        os.mkfifo(source)
        told: list[str] = []
        thread = threading.Thread(target=lambda: told.append(refusal(folder)), daemon=True)
        thread.start()
        thread.join(10)
        assert told
        assert "is no regular file" in told[0]

    @pytest.mark.parametrize("limit", ["MANIFEST_BYTES", "FILE_BYTES"])
    def test_files_that_are_too_large_are_refused(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str
    ) -> None:
        monkeypatch.setattr(bundle_files, limit, 100)
        assert "is larger than" in refusal(folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """Bytes of a host library that creates a file when it is loaded, and the path of that file."""
    mark = tmp_path_factory.mktemp("mark") / "ran"
    source = (
        "#include <cstdio>\n"
        f'__attribute__((constructor)) static void run() {{ std::fclose(std::fopen("{mark}", "w")); }}\n'
        'extern "C" __global__ void kernel(float* y) { y[0] = 0.0f; }\n'
    )
    return HostCompiler().compile(Compilation(source)).image, mark


class TestLibraries:
    @pytest.mark.parametrize("kind", ["library", "cubin"])
    def test_are_never_loaded(self, folder: Path, library: tuple[bytes, Path], kind: str) -> None:
        """The kind is only a name in the manifest, so a library under another kind is not loaded either."""
        image, mark = library
        (folder / "kernels" / "code").write_bytes(image)
        entry = cubin(folder / "kernels" / "code", "kernels/code") | {"kind": kind, "arch": "host"}
        change(folder, lambda kernel: kernel.update(binaries=[entry]))
        assert "is damaged (" in refusal(folder)
        assert not mark.exists()

    def test_one_that_is_called_a_cubin_stays_unloaded_on_the_host(
        self, folder: Path, library: tuple[bytes, Path]
    ) -> None:
        image, mark = library
        (folder / "kernels" / "code").write_bytes(image)
        change(folder, lambda kernel: kernel.update(binaries=[cubin(folder / "kernels" / "code", "kernels/code")]))
        plan = load_bundle(folder).plan(PROBLEM, "host")
        assert plan.binaries[""].image != image
        assert not mark.exists()

    def test_would_have_run(self, library: tuple[bytes, Path], tmp_path: Path) -> None:
        """Loading the library does run its code, which the tests above prevent."""
        image, mark = library
        (tmp_path / "code.so").write_bytes(image)
        ctypes.CDLL(str(tmp_path / "code.so"))
        assert mark.exists()
        mark.unlink()

    def test_are_not_exported(self, folder: Path) -> None:
        (entry,) = json.loads((folder / MANIFEST).read_text())["kernels"]
        assert entry["binaries"] == []


class TestManifest:
    @pytest.mark.parametrize(
        "how",
        [
            lambda kernel: kernel["program"]["launches"][0].update(entry="a); int system(const char*); int x = (0"),
            lambda kernel: kernel["program"]["launches"][0].update(entry=["kernel"]),
            lambda kernel: kernel["program"]["launches"][0].update(entry=""),
            lambda kernel: kernel["program"]["launches"][0].update(block=[32, 4, -1]),
            lambda kernel: kernel["program"]["launches"][0].update(block=[32, 4, True]),
            lambda kernel: kernel["program"]["launches"][0].update(grid=[1, 1, 2**40]),
            lambda kernel: kernel["program"]["launches"][0].update(grid=["1", "1", "1"]),
            lambda kernel: kernel["program"]["launches"][0].update(shared_bytes=-1),
            lambda kernel: kernel["program"]["launches"][0].update(shared_bytes="1024"),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"pointer": "elsewhere"}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"pointer": ["image"]}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"by_value": "result"}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"tensor_map": {**MAP, "buffer": "x"}}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"tensor_map": {**MAP, "pixels": 0}}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"tensor_map": {**MAP, "step": [1]}}),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append(
                {"tensor_map": {**MAP, "dtype": "float32"}}
            ),
            lambda kernel: kernel["program"]["launches"][0]["arguments"].append(
                {"tensor_map": {**MAP, "shape": [64, 64, 64, 64]}}
            ),
            lambda kernel: kernel["program"]["launches"][0].update(constants=[{"symbol": "a b", "operand": "weights"}]),
            lambda kernel: kernel["program"]["workspaces"].append({"name": "result", "nbytes": 8}),
            lambda kernel: kernel["program"]["workspaces"].append({"name": "w", "nbytes": -8}),
            lambda kernel: kernel["program"]["workspaces"].append({"name": ["w"], "nbytes": 8}),
            lambda kernel: kernel["provenance"].update(environment=["driver"]),
            lambda kernel: kernel["provenance"].update(environment={"driver": [580]}),
            lambda kernel: kernel["provenance"].update(created=7),
            lambda kernel: kernel.update(
                baselines=[{"name": ["x"], "timing": kernel["trial"]["measurement"]["timing"]}]
            ),
            lambda kernel: kernel["device"].update(memory_bytes=float("inf")),
            lambda kernel: kernel["device"].update(name=["CPU"]),
            lambda kernel: kernel["problem"].update(weights=[[[[1.0]]]] * 15),
        ],
    )
    def test_with_a_wrong_value_that_its_fingerprint_fits(self, folder: Path, how: Change) -> None:
        """A malicious maker also writes the matching fingerprint and checksums."""

        def consistent(kernel: Any) -> None:
            how(kernel)
            try:
                (source,) = folder.rglob("*.cu")
                kernel["trial"]["fingerprint"] = Program.from_spec(
                    kernel["program"], {"": source.read_text()}
                ).fingerprint
            except TypeError:
                pass

        change(folder, consistent)
        message = refusal(folder)
        assert message.startswith(f"{folder / MANIFEST} is damaged (")
        assert "the launches of" not in message  # a check of values stood before that of the fingerprint

    def test_a_map_within_its_buffer_is_no_damage(self, folder: Path) -> None:
        """Shows that only the maps make the bundles above wrong."""
        change(folder, lambda kernel: kernel["program"]["launches"][0]["arguments"].append({"tensor_map": MAP}))
        assert "the launches of" in refusal(folder)  # the fingerprint does not belong to them

    @pytest.mark.parametrize("fields", [{"arch": ["sm_90"]}, {"registers": "32"}, {"compiler": 7}, {"options": "-x"}])
    def test_with_wrong_words_of_machine_code(self, folder: Path, fields: dict[str, Any]) -> None:
        (folder / "kernels" / "code").write_bytes(b"\x7fELF")
        entry = cubin(folder / "kernels" / "code", "kernels/code") | fields
        change(folder, lambda kernel: kernel.update(binaries=[entry]))
        assert "is damaged (" in refusal(folder)

    def test_that_is_deep(self, folder: Path) -> None:
        deep: list[Any] = []
        for _ in range(500):  # JSON's reader accepts this depth; a reader of problems may not
            deep = [deep]
        change(folder, lambda kernel: kernel["problem"].update(weights=deep))
        assert "lie within each other" in refusal(folder)


class TestText:
    @pytest.mark.parametrize(
        "line",
        [
            '#include "{secret}"',
            "#include <{secret}>",
            "# include <stdio.h>",
            "#/**/include <stdio.h>",
            "#inc\\\nlude <stdio.h>",
            "#\\\n include <stdio.h>",
            "%:include <stdio.h>",
            "??=include <stdio.h>",
            'const char* a = "/*";\n#include <stdio.h>\nconst char* b = "*/";',
            "#embed <{secret}>",
            "#line 1 <{secret}>",
            "#pragma GCC dependency <{secret}>",
            '_Pragma("once")',
            "#if __has_include(<{secret}>)\n#endif",
        ],
    )
    def test_reads_no_file_of_this_machine(self, folder: Path, line: str) -> None:
        (source,) = folder.rglob("*.cu")
        text = f"{line.format(secret=folder.parent / 'secret')}\n{source.read_text()}"
        source.write_text(text)

        def consistent(kernel: Any) -> None:
            kernel["source"] = file(source, str(source.relative_to(folder)))
            kernel["trial"]["fingerprint"] = Program.from_spec(kernel["program"], {"": text}).fingerprint

        change(folder, consistent)
        assert "which no exported kernel has" in refusal(folder)

    def test_of_generated_kernels_is_let_pass(self) -> None:
        texts = list(all_reviewed(GOLDEN).values())
        assert len(texts) > 20
        assert [checked_text(text) for text in texts] == texts

    def test_may_include_cudas_own_headers(self) -> None:
        checked_text("#include <cuda_fp16.h>\n#include <mma.h>\n")


class TestExport:
    def test_writes_and_removes_nothing_behind_a_link(self, folder: Path) -> None:
        """An attacker prepared the bundle into which the next one is exported."""
        theirs = folder.parent / "theirs"
        (folder / "kernels").rename(theirs)
        (theirs / "thesis.tex").write_text("precious")
        (folder / "kernels").symlink_to(theirs)
        change(folder, lambda kernel: kernel.update(source=file(theirs / "thesis.tex", "kernels/thesis.tex")))
        before = {path.name for path in theirs.iterdir()}
        with pytest.raises(BundleError, match="holds other files; export to an empty folder"):
            export([winner(PROBLEM, device=HOST)], folder)
        assert {path.name for path in theirs.iterdir()} == before
