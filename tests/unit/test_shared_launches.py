"""Programs that share memory: who may read what, on which stream, and the state after a failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from warpsmith.devices.call_memory import MOST_PRIVATE_STREAMS
from warpsmith.devices.launches import SharedLaunches, SharedWorkspaces
from warpsmith.devices.module import Allocation, BoundLaunch, CallArguments
from warpsmith.devices.runtime import StreamIdentity
from warpsmith.errors import BadArgument, DeviceError
from warpsmith.generator.steps import Lifetime, Workspace

KEPT = Workspace("spectra", 1000, Lifetime.KEPT)


class OnPaper:
    """A device of streams: identities by handle, memory by address."""

    def __init__(self) -> None:
        self.identities: dict[int, StreamIdentity] = {}
        self.live: dict[int, int] = {}

    def identify(self, stream: int | None) -> StreamIdentity:
        return self.identities.get(stream or 0, StreamIdentity(stream or 0))

    def allocate(self, nbytes: int) -> Allocation:
        # What was given back is given away again.
        address = next(each for each in range(1 << 20, 1 << 30, 1 << 20) if each not in self.live)
        self.live[address] = nbytes
        return Allocation(address, nbytes)

    def free(self, allocation: Allocation) -> None:
        del self.live[allocation.address]

    def synchronize(self) -> None:
        return


@dataclasses.dataclass
class Loaded:
    """A program that notes where its memory lies, or fails."""

    workspaces: tuple[Workspace, ...]
    notes: list[Mapping[str, int]] = dataclasses.field(default_factory=list)
    fails: bool = False

    @property
    def workspace_bytes(self) -> int:
        return sum(-(-each.nbytes // 256) * 256 for each in self.workspaces if each.lifetime is Lifetime.CALL)

    def bind(self, addresses: object, values: object, workspaces: Mapping[str, int]) -> BoundLaunch:  # noqa: ARG002
        def run(stream: int | None) -> None:  # noqa: ARG001
            self.notes.append(workspaces)
            if self.fails:
                raise DeviceError("it failed")

        return run


@dataclasses.dataclass
class Pair:
    """A program that makes spectra, and one that reads them."""

    device: Any = dataclasses.field(default_factory=OnPaper)
    writer: Loaded = dataclasses.field(default_factory=lambda: Loaded((KEPT, Workspace("own", 100))))
    reader: Loaded = dataclasses.field(default_factory=lambda: Loaded((KEPT, Workspace("parts", 300))))

    def __post_init__(self) -> None:
        executables: Any = (self.writer, self.reader)
        self.memory = SharedWorkspaces(self.device, executables)
        made, nothing = frozenset({"spectra"}), frozenset[str]()
        self.write = self._launches(self.writer, {}, made, nothing)
        self.read = self._launches(self.reader, {"spectra": "write first"}, nothing, nothing)
        self.spoil = self._launches(self.reader, {}, nothing, made)

    def _launches(
        self, executable: Any, needs: Mapping[str, str], makes: frozenset[str], outdates: frozenset[str]
    ) -> SharedLaunches:
        return SharedLaunches(executable, self.device, CallArguments((), ()), self.memory, needs, makes, outdates)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_read_where_the_other_wrote_and_have_scratch_memory_in_one_place(pair: Pair) -> None:
    pair.write.launch((), (), None)
    pair.read.launch((), (), None)
    (written,), (read,) = pair.writer.notes, pair.reader.notes
    assert written["spectra"] == read["spectra"]
    assert written["own"] == read["parts"] == read["spectra"] + 1024
    assert list(pair.device.live.values()) == [pair.memory.nbytes] == [1024 + 512]


def test_nothing_is_read_that_was_not_written(pair: Pair) -> None:
    for _ in range(2):
        with pytest.raises(BadArgument, match="write first"):
            pair.read.launch((), (), None)
        pair.write.launch((), (), None)
        pair.read.launch((), (), None)
        pair.spoil.launch((), (), None)


def test_what_a_failure_leaves_is_not_read(pair: Pair) -> None:
    pair.write.launch((), (), None)
    pair.writer.fails = True
    with pytest.raises(DeviceError):
        pair.write.launch((), (), None)
    with pytest.raises(BadArgument, match="write first"):
        pair.read.launch((), (), None)


def test_streams_and_captures_have_memory_of_their_own(pair: Pair) -> None:
    """A graph's replay writes after its capture, so its data are not there yet, and it overwrites no other's."""
    pair.write.launch((), (), 7)
    for other in (None, 8):
        with pytest.raises(BadArgument, match="write first"):
            pair.read.launch((), (), other)
    pair.device.identities[7] = StreamIdentity(7, capture=1)
    with pytest.raises(BadArgument, match="write first"):
        pair.read.launch((), (), 7)
    pair.write.launch((), (), 7)
    pair.read.launch((), (), 7)
    del pair.device.identities[7]
    pair.read.launch((), (), 7)
    captured, before = (each["spectra"] for each in pair.reader.notes)
    assert captured != before


def test_a_stream_whose_memory_was_given_to_others_has_lost_what_was_there(pair: Pair) -> None:
    pair.write.launch((), (), 1)
    for other in range(2, MOST_PRIVATE_STREAMS + 2):
        pair.write.launch((), (), other)
    with pytest.raises(BadArgument, match="write first"):
        pair.read.launch((), (), 1)


def test_a_caller_s_own_memory_is_refused(pair: Pair) -> None:
    with pytest.raises(BadArgument, match="workspace: these programs share memory of their own"):
        pair.write.launch((), (), None, Allocation(256, 1 << 20))


def test_programs_that_disagree_on_a_size_share_nothing() -> None:
    executables: Any = (Loaded((KEPT,)), Loaded((dataclasses.replace(KEPT, nbytes=8),)))
    with pytest.raises(ValueError, match="disagree on its size"):
        SharedWorkspaces(OnPaper(), executables)  # type: ignore[arg-type]


def test_all_of_it_is_given_back(pair: Pair) -> None:
    for stream in (1, 2):
        pair.write.launch((), (), stream)
    pair.memory.close()
    assert not pair.device.live
