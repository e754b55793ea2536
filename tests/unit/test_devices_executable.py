"""Executables: units and libraries loaded, steps bound in their order, all given back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from warpsmith.devices.compiler import Binary, BinaryKind, Usage, most_used
from warpsmith.devices.executable import Executable
from warpsmith.devices.module import BoundLaunch
from warpsmith.errors import LaunchError, OutOfMemory
from warpsmith.generator.library_calls import CufftTransform, Direction, Library, Strided, TransformKind
from warpsmith.generator.program import Launch, LibraryCall, Lifetime, Pointer, Program, Unit, Workspace
from warpsmith.generator.space import Config

SIDE = Strided((8,), 1, 8)
TRANSFORM = CufftTransform(TransformKind.C2C, (8,), 1, Direction.FORWARD, SIDE, SIDE)
FIRST = Launch("kernel", (1, 1, 1), (1, 1, 1), (Pointer("x"), Pointer("scratch")), unit="one")
CALL = LibraryCall(TRANSFORM, (Pointer("scratch"), Pointer("state", 64)))
LAST = Launch("kernel", (1, 1, 1), (1, 1, 1), (Pointer("state"), Pointer("y")), unit="two")
PROGRAM = Program(
    "test",
    Config.of({}),
    (Unit("one", "// 1"), Unit("two", "// 2")),
    (FIRST, CALL, LAST),
    (Workspace("scratch", 100), Workspace("state", 200, Lifetime.KEPT)),
)
BINARIES = {name: Binary(BinaryKind.CUBIN, name.encode(), "sm_90", "nvrtc") for name in ("one", "two")}


class OnPaper:
    """A device that notes loading, binding, launching and closing."""

    def __init__(self, scratch_bytes: int = 1000, fails: str = "") -> None:
        self.notes: list[Any] = []
        self._scratch_bytes, self._fails = scratch_bytes, fails

    def load(self, binary: Binary) -> Part:
        return self._part(binary.image.decode())

    def library(self, library: Library) -> LibraryOf:
        assert library is Library.CUFFT
        return LibraryOf(self)

    def _part(self, name: str) -> Part:
        if name == self._fails:
            raise OutOfMemory(f"no room for {name}")
        self.notes.append(f"load {name}")
        return Part(self, name, self._scratch_bytes)


@dataclasses.dataclass
class LibraryOf:
    device: OnPaper

    def load(self, call: LibraryCall) -> Part:
        assert call == CALL
        return self.device._part("call")


@dataclasses.dataclass
class Part:
    """A loaded module or library call."""

    device: OnPaper
    name: str
    workspace_bytes: int

    def bind(self, *arguments: Any) -> BoundLaunch:
        self.device.notes.append((self.name, *arguments))
        return lambda stream: self.device.notes.append(f"{self.name} on {stream}")

    def close(self) -> None:
        self.device.notes.append(f"close {self.name}")


def load(device: Any, program: Program = PROGRAM, binaries: Mapping[str, Binary] = BINARIES) -> Executable:
    return Executable.load(device, program, binaries)


def test_loads_each_unit_and_each_call() -> None:
    device = OnPaper()
    executable = load(device)
    assert device.notes == ["load one", "load two", "load call"]
    executable.close()
    assert device.notes[3:] == ["close call", "close two", "close one"]


@pytest.mark.parametrize(
    ("fails", "noted"),
    [("one", []), ("two", ["load one", "close one"]), ("call", ["load one", "load two", "close two", "close one"])],
)
def test_closes_what_was_loaded_before_a_failure(fails: str, noted: list[str]) -> None:
    device = OnPaper(fails=fails)
    with pytest.raises(OutOfMemory, match=f"no room for {fails}"):
        load(device)
    assert device.notes == noted


def test_a_unit_without_a_binary_is_told() -> None:
    with pytest.raises(LaunchError, match="a program of test has no binary of its unit 'two'"):
        load(OnPaper(), binaries={"one": BINARIES["one"]})


def test_what_a_library_needs_is_one_workspace_more() -> None:
    executable = load(OnPaper())
    mine, state, scratch = executable.workspaces
    assert (mine, state) == PROGRAM.workspaces
    assert (scratch.nbytes, scratch.lifetime) == (1000, Lifetime.CALL)
    assert executable.workspace_bytes == 256 + 1024
    assert load(OnPaper(scratch_bytes=0)).workspaces == PROGRAM.workspaces
    assert load(OnPaper(scratch_bytes=0)).workspace_bytes == 256


def test_libraries_use_the_same_memory_one_after_the_other() -> None:
    """All library calls share one workspace, as large as the largest one needs."""
    device = OnPaper()
    two = dataclasses.replace(PROGRAM, steps=(FIRST, CALL, CALL, LAST))
    sizes = iter((0, 0, 300, 1000))  # of both units, and of both calls
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_part", lambda name: Part(device, name, next(sizes)))
        executable = load(device, two)
    *mine, scratch = executable.workspaces
    assert tuple(mine) == PROGRAM.workspaces
    assert (scratch.nbytes, executable.workspace_bytes) == (1000, 256 + 1024)
    executable.bind({"x": 1, "y": 2}, {}, {"scratch": 3, "state": 4, scratch.name: 5000})
    assert [note[-1] for note in device.notes if note[0] == "call"] == [5000, 5000]


def test_binds_every_step_to_its_memory_and_does_them_in_order() -> None:
    device = OnPaper()
    executable = load(device)
    device.notes.clear()
    workspaces = {each.name: 1000 * i for i, each in enumerate(executable.workspaces, start=1)}
    call = executable.bind({"x": 1, "y": 2}, {"w": b"3"}, workspaces)
    memory = {"x": 1, "y": 2, **workspaces}
    assert device.notes == [
        ("one", FIRST, memory, {"w": b"3"}),
        ("call", memory, 3000),
        ("two", LAST, memory, {"w": b"3"}),
    ]
    device.notes.clear()
    call(7)
    call(None)
    assert device.notes == [f"{name} on {stream}" for stream in (7, None) for name in ("one", "call", "two")]


def test_a_part_is_of_what_is_loaded_already() -> None:
    device = OnPaper()
    executable = load(device)
    device.notes.clear()
    rest = dataclasses.replace(PROGRAM, units=PROGRAM.units[1:], steps=(CALL, LAST))
    part = executable.part(rest)
    mine, state, scratch = part.workspaces
    assert (mine, state, scratch.nbytes) == (*PROGRAM.workspaces, 1000)
    part.bind({"y": 2}, {}, {each.name: 1 for each in part.workspaces})(7)
    assert device.notes[-2:] == ["call on 7", "two on 7"]
    part.close()
    assert not any(str(note).startswith(("load", "close")) for note in device.notes)


def test_a_single_step_is_called_itself() -> None:
    """A bound call of most programs costs no more than the launch."""
    device = OnPaper()
    alone = Program("test", PROGRAM.config, PROGRAM.units[:1], (FIRST,), PROGRAM.workspaces)
    call = load(device, alone).bind({"x": 1}, {}, {"scratch": 2, "state": 3})
    assert type(call).__name__ == "function"


def test_a_record_keeps_the_most_of_all_kernels() -> None:
    binaries = {
        "one": dataclasses.replace(BINARIES["one"], kernels={"a": Usage(32, 0, 4096), "b": Usage(40, None, 0)}),
        "two": dataclasses.replace(BINARIES["two"], kernels={"a": Usage(20, 8, None)}),
    }
    assert most_used(binaries) == Usage(40, 8, 4096)
    assert binaries["one"].usage("a") == Usage(32, 0, 4096)
    assert binaries["one"].usage("c") == Usage()
    assert most_used({}) == Usage()
    assert most_used(BINARIES) == Usage()
