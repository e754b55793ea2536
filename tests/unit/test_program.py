"""Programs: equality, and the round trip through a manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest

from warpsmith.generator.library_calls import CufftTransform, Direction, Library, Strided, TransformKind
from warpsmith.generator.problem import DType
from warpsmith.generator.program import (
    ByValue,
    Compilation,
    Constant,
    Launch,
    LibraryCall,
    Lifetime,
    Pointer,
    Program,
    TensorMap,
    Texture,
    Transformed,
    Unit,
    Workspace,
    launch_spec,
)
from warpsmith.generator.space import Config

FIRST, SECOND = (f'extern "C" __global__ void {name}() {{ {name}_one(); }}\n' for name in ("spread", "gather"))
"""Texts of one kernel each, which call different functions."""
SPREAD = Launch("spread", (3, 2, 1), (32, 4, 1), (Pointer("image"), Pointer("scratch"), ByValue("weights")), 4096)
ROWS = Texture("mask", DType.FLOAT16, 40, 30, 128)
GATHER = Launch(
    "gather",
    (7, 1, 1),
    (64, 1, 1),
    (
        Pointer("scratch"),
        ROWS,
        Texture("line", DType.UINT8, 99),
        TensorMap("mask", DType.FLOAT16, (1, 30, 40, 64), (-1, 0), (32, 40), (1, 1), 64, 128),
        Pointer("result"),
        Transformed("taps", ((0.5, -1.0),)),
    ),
    constants=(Constant("constant_taps", "taps"),),
)
PROGRAM = Program.of_source(
    family="two_step",
    config=Config.of({"columns": 4, "store": "plain"}),
    source='extern "C" __global__ void spread() {}\nextern "C" __global__ void gather() {}\n',
    launches=(SPREAD, GATHER),
    workspaces=(Workspace("scratch", 1024),),
)


def relaunched(**changes: object) -> Program:
    """PROGRAM with its first launch changed."""
    return dataclasses.replace(PROGRAM, steps=(dataclasses.replace(SPREAD, **changes), GATHER))  # type: ignore[arg-type]


def with_texture(**changes: object) -> Program:
    """PROGRAM with its first texture changed."""
    texture = dataclasses.replace(ROWS, **changes)  # type: ignore[arg-type]
    gather = dataclasses.replace(GATHER, arguments=(GATHER.arguments[0], texture, *GATHER.arguments[2:]))
    return dataclasses.replace(PROGRAM, steps=(SPREAD, gather))


TRANSFORM = CufftTransform(
    TransformKind.R2C, (8, 6), 5, Direction.FORWARD, Strided((8, 6), 1, 48), Strided((8, 4), 5, 1)
)
CALL = LibraryCall(TRANSFORM, (Pointer("image", 64), Pointer("state")))
SEVERAL = Program(
    family="several",
    config=Config.of({"parts": 2}),
    units=(Unit("first", FIRST), Unit("second", SECOND)),
    steps=(
        dataclasses.replace(SPREAD, unit="first"),
        CALL,
        dataclasses.replace(GATHER, unit="second", arguments=(Pointer("scratch", 256), Pointer("result"))),
    ),
    workspaces=(Workspace("scratch", 1024), Workspace("state", 4096, Lifetime.KEPT)),
)


def with_call(**changes: object) -> Program:
    """SEVERAL with its library called in another way."""
    call = LibraryCall(dataclasses.replace(TRANSFORM, **changes), CALL.arguments)  # type: ignore[arg-type]
    return dataclasses.replace(SEVERAL, steps=(SEVERAL.steps[0], call, SEVERAL.steps[2]))


UNIT_STEPS = (dataclasses.replace(SPREAD, unit="u"), dataclasses.replace(GATHER, unit="u"))
UNITS = (Unit("u", PROGRAM.source), Unit("v", PROGRAM.source))
CHANGED = {
    "source": dataclasses.replace(PROGRAM, units=(Unit("", PROGRAM.source + "__device__ int one() { return 1; }\n"),)),
    "entry": relaunched(entry="spread2"),
    "grid": relaunched(grid=(3, 1, 2)),
    "block": relaunched(block=(4, 32, 1)),
    "arguments": relaunched(arguments=(Pointer("scratch"), Pointer("image"), ByValue("weights"))),
    "kind of an argument": relaunched(arguments=(Pointer("image"), Pointer("scratch"), Pointer("weights"))),
    "matrix": dataclasses.replace(
        PROGRAM,
        steps=(
            SPREAD,
            dataclasses.replace(GATHER, arguments=(*GATHER.arguments[:-1], Transformed("taps", ((0.5, 1.0),)))),
        ),
    ),
    "shared bytes": relaunched(shared_bytes=8192),
    "constants": relaunched(constants=(Constant("constant_weights", "weights"),)),
    "texture buffer": with_texture(buffer="masks"),
    "texture dtype": with_texture(dtype=DType.FLOAT32),
    "texture width": with_texture(width=41),
    "texture height": with_texture(height=31),
    "texture pitch": with_texture(pitch=256),
    "texture channels": with_texture(channels=2),
    "order of launches": dataclasses.replace(PROGRAM, steps=(GATHER, SPREAD)),
    "number of launches": dataclasses.replace(PROGRAM, steps=(SPREAD,)),
    "workspace size": dataclasses.replace(PROGRAM, workspaces=(Workspace("scratch", 2048),)),
    "workspace name": dataclasses.replace(PROGRAM, workspaces=(Workspace("sums", 1024),)),
    "number of workspaces": dataclasses.replace(PROGRAM, workspaces=()),
    "workspace lifetime": dataclasses.replace(PROGRAM, workspaces=(Workspace("scratch", 1024, Lifetime.KEPT),)),
    "begins early": relaunched(begins_early=True),
    "unit": Program("two_step", PROGRAM.config, UNITS, UNIT_STEPS, PROGRAM.workspaces),
    "offset": relaunched(arguments=(Pointer("image", 4), Pointer("scratch"), ByValue("weights"))),
}
"""PROGRAM with one thing changed."""

CHANGED_CALLS = {
    "kind": with_call(kind=TransformKind.C2C),
    "sizes": with_call(sizes=(8, 5)),
    "batch": with_call(batch=4),
    "direction": with_call(kind=TransformKind.C2C, direction=Direction.INVERSE),
    "source": with_call(source=Strided((8, 6), 1, 50)),
    "target": with_call(target=Strided((8, 4), 1, 32)),
}
"""SEVERAL with one parameter of its library call changed."""


class TestFingerprint:
    @pytest.mark.parametrize("what", CHANGED)
    def test_changes_with_what_runs(self, what: str) -> None:
        assert CHANGED[what].fingerprint != PROGRAM.fingerprint

    @pytest.mark.parametrize("what", CHANGED_CALLS)
    def test_changes_with_a_librarys_parameters(self, what: str) -> None:
        assert CHANGED_CALLS[what].fingerprint != SEVERAL.fingerprint

    def test_covers_every_parameter_of_a_transform(self) -> None:
        assert {field.name for field in dataclasses.fields(CufftTransform)} <= CHANGED_CALLS.keys()
        assert len({each.fingerprint for each in CHANGED_CALLS.values()}) == len(CHANGED_CALLS)

    def test_tells_texts_apart_by_their_units(self) -> None:
        """Both programs have the same two texts, each under the other's name."""
        swapped = (Unit("first", SECOND), Unit("second", FIRST))
        assert dataclasses.replace(SEVERAL, units=swapped).fingerprint != SEVERAL.fingerprint

    def test_is_blind_to_the_names_of_kernels_units_and_workspaces(self) -> None:
        def renamed(name: str) -> Program:
            units = (Unit(f"{name}_unit", f'extern "C" __global__ void {name}(float* out) {{}}\n'),)
            steps = (Launch(name, (1, 1, 1), (32, 1, 1), (Pointer(f"{name}_scratch"),), unit=f"{name}_unit"),)
            return Program("one", Config.of({}), units, steps, (Workspace(f"{name}_scratch", 256),))

        assert renamed("first").fingerprint == renamed("second").fingerprint

    def test_tells_which_kernel_and_which_workspace_comes_first(self) -> None:
        text = "".join(f'extern "C" __global__ void {name}(float* out) {{}}\n' for name in ("one", "two"))
        workspaces = (Workspace("a", 256), Workspace("b", 256))

        def launched(*entries: tuple[str, str]) -> Program:
            steps = tuple(Launch(name, (1, 1, 1), (32, 1, 1), (Pointer(buffer),)) for name, buffer in entries)
            return Program.of_source("two", Config.of({}), text, steps, workspaces)

        orders = [launched(("one", "a"), ("two", "b")), launched(("two", "a"), ("one", "b"))]
        orders += [launched(("one", "b"), ("two", "a")), launched(("one", "a"), ("one", "b"))]
        assert len({each.fingerprint for each in orders}) == len(orders)

    def test_of_schema_5_is_still_known(self) -> None:
        """Bundles and stores of schema 5 hash the text, the launches and the workspaces in these words."""
        launches = [launch_spec(launch) for launch in PROGRAM.launches]
        text = json.dumps([PROGRAM.source, launches, [{"name": "scratch", "nbytes": 1024}]])
        stored = hashlib.sha256(text.encode()).hexdigest()[:16]
        assert PROGRAM.has_fingerprint(stored)
        assert not PROGRAM.has_fingerprint(stored[::-1])
        assert not any("unit" in launch for launch in launches)

    def test_covers_every_field_of_a_launch(self) -> None:
        tried = {name.replace(" ", "_") for name in CHANGED}
        assert {field.name for field in dataclasses.fields(Launch)} <= tried

    def test_covers_every_field_of_a_texture(self) -> None:
        tried = {name.removeprefix("texture ") for name in CHANGED}
        assert {field.name for field in dataclasses.fields(Texture)} <= tried

    def test_says_nothing_of_constants_where_there_are_none(self) -> None:
        """Stored times of launches from before constants existed stay valid."""
        assert "constants" not in launch_spec(SPREAD)

    def test_is_of_what_runs_and_not_of_how_it_was_found(self) -> None:
        renamed = dataclasses.replace(PROGRAM, family="other", config=Config.of({}))
        assert renamed.fingerprint == PROGRAM.fingerprint


class TestSpec:
    def test_comes_back_through_json(self) -> None:
        spec = json.loads(json.dumps(PROGRAM.spec()))
        back = Program.from_spec(spec, {"": PROGRAM.source})
        assert back == PROGRAM
        assert back.fingerprint == PROGRAM.fingerprint

    def test_leaves_the_source_to_a_file_of_its_own(self) -> None:
        assert PROGRAM.source not in json.dumps(PROGRAM.spec())
        assert list(PROGRAM.spec()) == ["family", "config", "launches", "workspaces"]
        assert list(SEVERAL.spec()) == ["family", "config", "units", "steps", "workspaces"]

    def test_of_several_units_comes_back_too(self) -> None:
        spec = json.loads(json.dumps(SEVERAL.spec()))
        back = Program.from_spec(spec, {unit.name: unit.source for unit in SEVERAL.units})
        assert back == SEVERAL
        assert back.fingerprint == SEVERAL.fingerprint

    @pytest.mark.parametrize(
        "wrong",
        [
            {"library": "cublas"},
            {"arguments": [{"by_value": "image"}]},
            {"parameters": {}},
            {"parameters": {**TRANSFORM.spec(), "sizes": []}},
            {"parameters": {**TRANSFORM.spec(), "sizes": [8, 0]}},
            {"parameters": {**TRANSFORM.spec(), "batch": True}},
            {"parameters": {**TRANSFORM.spec(), "batch": 2**31}},
            {"parameters": {**TRANSFORM.spec(), "kind": "z2z"}},
            {"parameters": {**TRANSFORM.spec(), "direction": "inverse"}},
            {"parameters": {**TRANSFORM.spec(), "source": {"embed": [8], "stride": 1, "distance": 8}}},
        ],
        ids=str,
    )
    def test_of_no_call_of_a_library_is_refused(self, wrong: dict[str, Any]) -> None:
        spec = json.loads(json.dumps(SEVERAL.spec()))
        spec["steps"][1] |= wrong
        with pytest.raises((ValueError, TypeError, LookupError)):
            Program.from_spec(spec, {unit.name: unit.source for unit in SEVERAL.units})


class TestUnits:
    def test_are_compiled_with_what_their_own_launches_need(self) -> None:
        assert SEVERAL.compilations() == {
            "first": Compilation(FIRST, ("spread",), (), 4096),
            "second": Compilation(SECOND, ("gather",), ("constant_taps",), 0),
        }
        assert PROGRAM.compilation() == Compilation(PROGRAM.source, ("spread", "gather"), ("constant_taps",), 4096)

    def test_and_calls_are_all_shown(self) -> None:
        shown = SEVERAL.source
        assert shown.startswith("// calls cufft r2c forward, 8x6 points, 5 at once: image -> state\n")
        assert f"// unit first\n{FIRST}" in shown
        assert f"// unit second\n{SECOND}" in shown

    def test_that_nothing_is_launched_from_are_refused_where_they_are_missing(self) -> None:
        with pytest.raises(ValueError, match="no unit 'second' to launch from"):
            dataclasses.replace(SEVERAL, units=SEVERAL.units[:1])

    def test_of_one_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match="one name"):
            dataclasses.replace(SEVERAL, units=(*SEVERAL.units, SEVERAL.units[0]))
        with pytest.raises(ValueError, match="one name"):
            dataclasses.replace(SEVERAL, workspaces=(Workspace("scratch", 1), Workspace("scratch", 2)))

    def test_are_not_texts(self) -> None:
        with pytest.raises(TypeError, match=r"Program\.of_source"):
            Program("test", Config.of({}), "// text", ())  # type: ignore[arg-type]

    def test_a_program_may_have_none(self) -> None:
        alone = Program("library", Config.of({}), (), (LibraryCall(TRANSFORM, (Pointer("x"), Pointer("y"))),))
        assert alone.compilations() == {}
        assert alone.libraries == (Library.CUFFT,)
        assert alone.pointed_to == {"x", "y"}
        assert Program.from_spec(json.loads(json.dumps(alone.spec())), {}) == alone


@pytest.mark.parametrize(
    ("program", "plain"),
    [
        (PROGRAM, True),
        (CHANGED["offset"], False),
        (CHANGED["unit"], False),
        (CHANGED["workspace lifetime"], False),
        (SEVERAL, False),
        (dataclasses.replace(PROGRAM, steps=(*PROGRAM.steps, CALL)), False),
    ],
)
def test_format_1_of_bundles_has_words_for_launches_of_one_text_alone(program: Program, plain: bool) -> None:
    assert program.is_plain == plain


class TestStrided:
    def test_counts_as_cufft_does(self) -> None:
        side = Strided((9, 7), 2, 200)
        assert side.strides() == (14, 2)
        assert side.reach(3, (8, 6)) == 2 * 200 + 7 * 14 + 5 * 2 + 1

    def test_a_transform_knows_how_far_it_reaches(self) -> None:
        assert TRANSFORM.half == (8, 4)
        assert TRANSFORM.source_bytes == 5 * 48 * 4
        assert TRANSFORM.target_bytes == 5 * 8 * 4 * 8


def test_by_value_names_the_operands_that_travel_with_the_launch() -> None:
    assert PROGRAM.by_value == {"weights", "taps"}
    plain = dataclasses.replace(GATHER, constants=(), arguments=GATHER.arguments[:-1])
    assert dataclasses.replace(PROGRAM, steps=(plain,)).by_value == frozenset()


def test_pointed_to_names_textures_too() -> None:
    assert PROGRAM.pointed_to == {"image", "scratch", "mask", "line", "result"}
