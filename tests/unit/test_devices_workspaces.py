"""Workspaces: who borrows which memory, and when it is given back."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from streams_on_paper import Streams
from warpsmith.devices.call_memory import MOST_STREAMS
from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import StreamIdentity
from warpsmith.devices.workspaces import Block, Workspaces
from warpsmith.errors import BadArgument, OutOfMemory
from warpsmith.generator.program import Lifetime, Workspace
from warpsmith.generator.steps import ALIGNMENT

SPECTRA = Workspace("spectra", 1000)
PRODUCTS = Workspace("products", 24)
STATE = Workspace("state", 300, Lifetime.KEPT)


@pytest.fixture
def device() -> Streams:
    return Streams()


def made(device: Any, *workspaces: Workspace) -> Workspaces:
    return Workspaces(device, workspaces or (SPECTRA, PRODUCTS, STATE))


def borrowed(workspaces: Workspaces, stream: int | None = None) -> dict[str, int]:
    with workspaces.borrow(stream) as addresses:
        return dict(addresses)


class TestBlock:
    def test_lays_out_those_of_a_lifetime_aligned(self) -> None:
        block = Block.of((SPECTRA, STATE, PRODUCTS), Lifetime.CALL)
        assert (block.offsets, block.nbytes) == ({"spectra": 0, "products": 1024}, 1280)
        assert block.at(4096) == {"spectra": 4096, "products": 5120}
        assert Block.of((SPECTRA, STATE), Lifetime.KEPT).nbytes == 512
        assert Block.of((), Lifetime.CALL).nbytes == 0


class TestStreams:
    def test_one_has_the_same_memory_each_time(self, device: Streams) -> None:
        workspaces = made(device)
        first = borrowed(workspaces)
        assert first.keys() == {"spectra", "products"}
        assert all(address % ALIGNMENT == 0 for address in first.values())
        assert [borrowed(workspaces) for _ in range(3)] == [first] * 3
        assert list(device.live.values()) == [1280]

    def test_two_share_none(self, device: Streams) -> None:
        """Calls without a stream and with one share none either: the default stream is a stream too."""
        workspaces = made(device)
        starts = [borrowed(workspaces, stream)["spectra"] for stream in (None, 7, 8, 7, None)]
        assert len(set(starts)) == 3
        assert starts[:2] == [starts[4], starts[3]]
        assert all(abs(a - b) >= 1280 for a in set(starts) for b in set(starts) - {a})

    def test_a_handle_that_is_given_away_again_is_another_stream(self, device: Streams) -> None:
        """The work of the handle's earlier owner may not have ended."""
        workspaces = made(device)
        before = borrowed(workspaces, 7)
        device.identities[7] = StreamIdentity(1234)
        assert borrowed(workspaces, 7) != before

    def test_threads_on_one_stream_take_turns(self, device: Streams) -> None:
        """Otherwise the steps of the two calls would interleave."""
        workspaces, inside, most, lock = made(device), 0, 0, threading.Lock()

        def call() -> None:
            nonlocal inside, most
            for _ in range(200):
                with workspaces.borrow(7):
                    with lock:
                        inside += 1
                        most = max(most, inside)
                    time.sleep(0)  # another thread's turn
                    with lock:
                        inside -= 1

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 1

    def test_many_have_no_more_memory_than_the_latest_need(self, device: Streams) -> None:
        workspaces = made(device)
        for stream in range(3 * MOST_STREAMS):
            borrowed(workspaces, stream)
        assert len(device.live) == MOST_STREAMS
        assert device.waited == 2 * MOST_STREAMS  # a kernel may be at work in what is freed
        latest = range(2 * MOST_STREAMS, 3 * MOST_STREAMS)
        before = dict(device.live)
        for stream in latest:
            borrowed(workspaces, stream)
        assert device.live == before

    def test_while_one_is_captured_nothing_is_waited_for(self, device: Streams) -> None:
        workspaces = made(device)
        device.is_capturing = True
        for stream in range(2 * MOST_STREAMS):
            borrowed(workspaces, stream)
        assert len(device.live) == 2 * MOST_STREAMS
        device.is_capturing = False
        borrowed(workspaces, 2 * MOST_STREAMS)
        assert len(device.live) == MOST_STREAMS


class TestGraphs:
    def test_have_memory_that_no_other_is_given(self, device: Streams) -> None:
        """A graph may run beside anything, including another graph of the same stream."""
        workspaces = made(device)
        eager = borrowed(workspaces, 7)
        found = []
        for capture in (1, 2):
            device.identities[7] = StreamIdentity(7, capture)
            found.append(borrowed(workspaces, 7))
            assert borrowed(workspaces, 7) == found[-1]  # a second call in one graph follows the first
        assert len({eager["spectra"], *(each["spectra"] for each in found)}) == 3

    def test_keep_it_whatever_else_is_called(self, device: Streams) -> None:
        workspaces = made(device)
        device.identities[7] = StreamIdentity(7, 1)
        of_graph = borrowed(workspaces, 7)["spectra"]
        for stream in range(100, 100 + 3 * MOST_STREAMS):
            assert borrowed(workspaces, stream)["spectra"] != of_graph
        assert of_graph in device.live


class TestGiven:
    def test_memory_of_the_callers_is_used(self, device: Streams) -> None:
        with made(device).borrow(7, Allocation(4096, 1280)) as addresses:
            assert addresses == {"spectra": 4096, "products": 5120}
        assert device.live == {}

    @pytest.mark.parametrize("given", [Allocation(4096, 1279), Allocation(4096 + 128, 4096)])
    def test_too_little_or_not_aligned_is_refused(self, device: Streams, given: Allocation) -> None:
        with pytest.raises(BadArgument, match="workspace: must have 1280 bytes at a multiple of 256; got"):
            made(device).borrow(7, given).__enter__()

    def test_is_not_asked_for_where_none_is_needed(self, device: Streams) -> None:
        with made(device, STATE).borrow(7, Allocation(1, 0)) as addresses:
            assert addresses == {}
        assert device.live == {}


class TestKept:
    def test_each_bound_program_has_its_own(self, device: Streams) -> None:
        workspaces = made(device)
        one, two = workspaces.allocate_kept(), workspaces.allocate_kept()
        assert one.addresses.keys() == {"state"}
        assert one.addresses != two.addresses
        assert list(device.live.values()) == [512, 512]
        workspaces.release(one)
        assert list(device.live) == [two.addresses["state"]]
        assert device.waited == 1

    def test_there_may_be_none(self, device: Streams) -> None:
        workspaces = made(device, SPECTRA)
        kept = workspaces.allocate_kept()
        workspaces.release(kept)
        assert (kept.addresses, device.live, device.waited) == ({}, {}, 0)


class TestEnd:
    @pytest.fixture
    def used(self, device: Streams) -> Workspaces:
        workspaces = made(device)
        borrowed(workspaces, 7)
        device.identities[8] = StreamIdentity(8, 1)
        borrowed(workspaces, 8)
        workspaces.allocate_kept()
        assert len(device.live) == 3
        return workspaces

    def test_gives_everything_back(self, device: Streams, used: Workspaces) -> None:
        used.close()
        used.close()
        assert device.live == {}

    def test_comes_with_the_last_who_holds_it(self, device: Streams) -> None:
        borrowed(made(device))
        assert device.live == {}

    def test_after_the_device_was_closed_is_no_error(self, device: Streams, used: Workspaces) -> None:
        device.live.clear()
        used.close()

    def test_too_little_memory_leaves_what_there_was(self, device: Streams, used: Workspaces) -> None:
        device.room, before = 0, dict(device.live)
        with pytest.raises(OutOfMemory):
            borrowed(used, 9)
        assert device.live == before
        device.room = 1 << 30
        assert borrowed(used, 9)
