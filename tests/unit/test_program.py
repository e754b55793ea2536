"""Programs: what makes two of them one, and the way through a manifest."""

from __future__ import annotations

import dataclasses
import json

import pytest

from warpsmith.generator.problem import DType
from warpsmith.generator.program import (
    ByValue,
    Constant,
    Launch,
    Pointer,
    Program,
    Texture,
    Transformed,
    Workspace,
    launch_spec,
)
from warpsmith.generator.space import Config

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
        Pointer("result"),
        Transformed("taps", ((0.5, -1.0),)),
    ),
    constants=(Constant("constant_taps", "taps"),),
)
PROGRAM = Program(
    family="two_step",
    config=Config.of({"columns": 4, "store": "plain"}),
    source='extern "C" __global__ void spread() {}\nextern "C" __global__ void gather() {}\n',
    launches=(SPREAD, GATHER),
    workspaces=(Workspace("scratch", 1024),),
)


def relaunched(**changes: object) -> Program:
    """PROGRAM with its first launch changed."""
    return dataclasses.replace(PROGRAM, launches=(dataclasses.replace(SPREAD, **changes), GATHER))  # type: ignore[arg-type]


def with_texture(**changes: object) -> Program:
    """PROGRAM with its first texture changed."""
    texture = dataclasses.replace(ROWS, **changes)  # type: ignore[arg-type]
    gather = dataclasses.replace(GATHER, arguments=(GATHER.arguments[0], texture, *GATHER.arguments[2:]))
    return dataclasses.replace(PROGRAM, launches=(SPREAD, gather))


CHANGED = {
    "source": dataclasses.replace(PROGRAM, source=PROGRAM.source + "\n"),
    "entry": relaunched(entry="spread2"),
    "grid": relaunched(grid=(3, 1, 2)),
    "block": relaunched(block=(4, 32, 1)),
    "arguments": relaunched(arguments=(Pointer("scratch"), Pointer("image"), ByValue("weights"))),
    "kind of an argument": relaunched(arguments=(Pointer("image"), Pointer("scratch"), Pointer("weights"))),
    "matrix": dataclasses.replace(
        PROGRAM,
        launches=(
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
    "order of launches": dataclasses.replace(PROGRAM, launches=(GATHER, SPREAD)),
    "number of launches": dataclasses.replace(PROGRAM, launches=(SPREAD,)),
    "workspace size": dataclasses.replace(PROGRAM, workspaces=(Workspace("scratch", 2048),)),
    "workspace name": dataclasses.replace(PROGRAM, workspaces=(Workspace("sums", 1024),)),
    "number of workspaces": dataclasses.replace(PROGRAM, workspaces=()),
}
"""PROGRAM with one thing changed."""


class TestFingerprint:
    @pytest.mark.parametrize("what", CHANGED)
    def test_changes_with_what_runs(self, what: str) -> None:
        assert CHANGED[what].fingerprint != PROGRAM.fingerprint

    def test_covers_every_field_of_a_launch(self) -> None:
        tried = {name.replace(" ", "_") for name in CHANGED}
        assert {field.name for field in dataclasses.fields(Launch)} <= tried

    def test_covers_every_field_of_a_texture(self) -> None:
        tried = {name.removeprefix("texture ") for name in CHANGED}
        assert {field.name for field in dataclasses.fields(Texture)} <= tried

    def test_says_nothing_of_constants_where_there_are_none(self) -> None:
        """Stored times of launches from before there were any still hold."""
        assert "constants" not in launch_spec(SPREAD)

    def test_is_of_what_runs_and_not_of_how_it_was_found(self) -> None:
        renamed = dataclasses.replace(PROGRAM, family="other", config=Config.of({}))
        assert renamed.fingerprint == PROGRAM.fingerprint


class TestSpec:
    def test_comes_back_through_json(self) -> None:
        spec = json.loads(json.dumps(PROGRAM.spec()))
        back = Program.from_spec(spec, PROGRAM.source)
        assert back == PROGRAM
        assert back.fingerprint == PROGRAM.fingerprint

    def test_leaves_the_source_to_a_file_of_its_own(self) -> None:
        assert PROGRAM.source not in json.dumps(PROGRAM.spec())
        assert set(PROGRAM.spec()) == {field.name for field in dataclasses.fields(Program)} - {"source"}


def test_by_value_names_the_operands_that_travel_with_the_launch() -> None:
    assert PROGRAM.by_value == {"weights", "taps"}
    plain = dataclasses.replace(GATHER, constants=(), arguments=GATHER.arguments[:-1])
    assert dataclasses.replace(PROGRAM, launches=(plain,)).by_value == frozenset()


def test_pointed_to_names_textures_too() -> None:
    assert PROGRAM.pointed_to == {"image", "scratch", "mask", "line", "result"}
