"""Bundles of programs with several units, library calls and workspaces: format 2, if format 1 lacks the words."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import binary
from builders import winner as stored_winner
from warpsmith.devices.compiler import Binary, Usage
from warpsmith.errors import BundleError
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.gate import Gate
from warpsmith.generator.library_calls import Strided
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import LibraryCall, Lifetime, Pointer, Program, Workspace
from warpsmith.generator.registry import family_named
from warpsmith.plans.bundle import MANIFEST, load_bundle
from warpsmith.plans.bundle_program import check_program
from warpsmith.store.record import Record
from warpsmith.tuner.export import export

INVERSE = Fft((12, 20), 9, kind="c2r")
"""A program of a kernel, a workspace and a library call."""
FORWARD = Fft(250, 9)
"""A program of a library call alone."""
FILTER = Filter2d(image=(64, 64), filter=(3, 3))

Change = Callable[[Any], object]


def winner(problem: Problem, family: str = "fft_cufft") -> Record:
    found = family_named(family)
    assert found is not None
    return stored_winner(problem, family=found, compiler="nvrtc 13.0; cufft 12.0.0")


def program_of(problem: Problem) -> Program:
    family = family_named("fft_cufft")
    assert family is not None
    return family.program(problem, family.default(problem, H200))


class OneCompiler:
    """Stands in for NVRTC."""

    def compile_program(self, program: Program) -> dict[str, Binary]:
        usage = {"k": Usage(20, 0, 0)}
        return {unit.name: binary(f"code of {unit.name}".encode(), kernels=usage) for unit in program.units}


@pytest.fixture(autouse=True)
def _compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.tuner.export.cuda_compiler", lambda *_: OneCompiler())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    export([winner(INVERSE)], tmp_path / "b")
    return tmp_path / "b"


def manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text())


def change(folder: Path, how: Change) -> None:
    content = manifest(folder)
    how(content)
    (folder / MANIFEST).write_text(json.dumps(content))


def refusal(folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestContent:
    def test_has_the_text_and_the_code_of_each_unit(self, folder: Path) -> None:
        content = manifest(folder)
        assert content["version"] == 2
        (entry,) = content["kernels"]
        assert "source" not in entry
        (source,), (binary,) = entry["sources"], entry["binaries"]
        assert (source["unit"], binary["unit"], binary["registers"]) == ("scale", "scale", 20)
        assert (folder / source["path"]).read_text() == program_of(INVERSE).units[0].source
        assert (folder / binary["path"]).read_bytes() == b"code of scale"
        assert load_bundle(folder).problems == (INVERSE,)

    def test_of_a_call_alone_has_no_files(self, tmp_path: Path) -> None:
        report = export([winner(FORWARD)], tmp_path)
        assert (report.kernels, report.cubins, report.skipped) == (1, 0, ())
        (entry,) = manifest(tmp_path)["kernels"]
        assert (entry["sources"], entry["binaries"]) == ([], [])
        assert load_bundle(tmp_path).problems == (FORWARD,)

    def test_of_launches_of_one_text_stays_as_it_was_beside_it(self, tmp_path: Path) -> None:
        export([winner(FILTER, "filter2d_plain")], tmp_path / "a")
        assert manifest(tmp_path / "a")["version"] == 1
        export([winner(FILTER, "filter2d_plain"), winner(INVERSE)], tmp_path / "b")
        assert manifest(tmp_path / "b")["version"] == 2
        assert manifest(tmp_path / "b")["kernels"][0] == manifest(tmp_path / "a")["kernels"][0]
        assert load_bundle(tmp_path / "b").problems == (FILTER, INVERSE)

    def test_comes_back_as_the_program_that_was_tuned(self, folder: Path) -> None:
        (kernel,) = load_bundle(folder)._kernels
        assert kernel.program == program_of(INVERSE)
        (binary,) = kernel.binaries
        assert (binary.unit, binary.binary.kernels) == ("scale", {"fft_cufft_scale": Usage(20, 0, 0)})

    def test_its_files_go_with_the_next_export(self, folder: Path) -> None:
        before = {path.name for path in (folder / "kernels").iterdir()}
        export([winner(FILTER, "filter2d_plain")], folder)
        after = {path.name for path in (folder / "kernels").iterdir()}
        assert not before & after
        assert manifest(folder)["version"] == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("how", "told"),
        [
            (lambda content: content.update(version=1), "a program of several units stands in format 1"),
            (lambda content: content["kernels"][0]["sources"].clear(), "is damaged (KeyError"),
            (lambda content: content["kernels"][0]["sources"][0].update(unit="other"), "is damaged (KeyError"),
            (lambda content: content["kernels"][0]["sources"][0].update(unit=7), "the unit of a file must be text"),
            (lambda content: content["kernels"][0]["sources"].append(content["kernels"][0]["sources"][0]), "one unit"),
            (lambda content: content["kernels"][0].update(sources={"scale": 1}), "is damaged"),
            (lambda content: content["kernels"][0]["binaries"][0].update(unit="other"), "is damaged (KeyError"),
            (lambda content: content["kernels"][0]["binaries"][0].update(unit=7), "the unit of a file must be text"),
            (lambda content: content["kernels"][0]["program"].update(units=["scale", "scale"]), "have one name"),
            (lambda content: content["kernels"][0]["program"].update(units=[]), "no unit 'scale' to launch from"),
            (lambda content: content["kernels"][0]["program"]["steps"].reverse(), "are not those that were tuned"),
            (lambda content: content["kernels"][0]["program"]["steps"][1].update(library="cublas"), "is damaged"),
        ],
    )
    def test_what_is_not_as_an_export_writes_it(self, folder: Path, how: Change, told: str) -> None:
        change(folder, how)
        assert told in refusal(folder)

    def test_a_path_of_a_unit_that_leads_outside(self, folder: Path) -> None:
        (folder.parent / "secret").write_text("secret")
        entry = {"unit": "scale", "path": "../secret", "sha256": hashlib.sha256(b"secret").hexdigest()}
        change(folder, lambda content: content["kernels"][0].update(sources=[entry]))
        assert "which leads out of the bundle's folder" in refusal(folder)


def with_steps(how: Callable[[LibraryCall], LibraryCall]) -> Program:
    program = program_of(INVERSE)
    return dataclasses.replace(program, steps=(program.steps[0], how(program.calls[0])))


class TestChecks:
    """Checks beyond fingerprints, which a bundle's maker writes too: a library trusts the sizes that it is given."""

    def test_take_what_is_generated(self) -> None:
        for problem in (INVERSE, FORWARD, Fft(250, 9, layout="frequency"), Fft((6, 8), 9, kind="c2c", norm="ortho")):
            check_program(program_of(problem), problem)

    @pytest.mark.parametrize(
        "how",
        [
            lambda call: dataclasses.replace(call, parameters=dataclasses.replace(call.parameters, batch=10)),
            lambda call: dataclasses.replace(call, parameters=dataclasses.replace(call.parameters, sizes=(12, 22))),
            lambda call: dataclasses.replace(
                call, parameters=dataclasses.replace(call.parameters, target=Strided((12, 20), 2, 240))
            ),
            lambda call: dataclasses.replace(call, arguments=(Pointer("scaled", 8), call.arguments[1])),
            lambda call: dataclasses.replace(call, arguments=(call.arguments[0], Pointer("signal", 4))),
        ],
    )
    def test_refuse_a_call_that_reaches_beyond_its_memory(self, how: Callable[[LibraryCall], LibraryCall]) -> None:
        with pytest.raises(ValueError, match="a call of cufft reaches beyond"):
            check_program(with_steps(how), INVERSE)

    @pytest.mark.parametrize("offset", [-4, True, 10**12, "4"])
    def test_refuse_an_offset_that_is_none(self, offset: Any) -> None:
        program = program_of(INVERSE)
        launch = dataclasses.replace(program.launches[0], arguments=(Pointer("spectrum", offset), Pointer("scaled")))
        with pytest.raises(ValueError, match="is no size"):
            check_program(dataclasses.replace(program, steps=(launch, *program.calls)), INVERSE)

    @pytest.mark.parametrize(
        "arguments", [(Pointer("scaled"),), (Pointer("scaled"), Pointer("elsewhere")), (Pointer("scaled"),) * 3]
    )
    def test_refuse_other_arguments(self, arguments: tuple[Pointer, ...]) -> None:
        with pytest.raises(ValueError, match=r"none of its buffers|takes 2 buffers; got [13]"):
            check_program(with_steps(lambda call: dataclasses.replace(call, arguments=arguments)), INVERSE)

    def test_refuse_a_unit_whose_name_is_a_path(self) -> None:
        program = program_of(INVERSE)
        units = (dataclasses.replace(program.units[0], name="../scale"),)
        launch = dataclasses.replace(program.launches[0], unit="../scale")
        with pytest.raises(ValueError, match="is no name"):
            check_program(dataclasses.replace(program, units=units, steps=(launch, *program.calls)), INVERSE)

    def test_know_workspaces_that_are_kept(self) -> None:
        program = program_of(INVERSE)
        kept = (*program.workspaces, Workspace("state", 64, Lifetime.KEPT))
        check_program(dataclasses.replace(program, workspaces=kept), INVERSE)
        with pytest.raises(ValueError, match="is no size"):
            check_program(dataclasses.replace(program, workspaces=(*kept, Workspace("w", -1))), INVERSE)


def test_the_host_has_no_winners_of_it() -> None:
    family = family_named("fft_cufft")
    assert family is not None
    assert Gate(INVERSE, HOST).program_if_legal(family, family.default(INVERSE, H200)) is None
