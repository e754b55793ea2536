"""Memory for CALL workspaces that programs share: who gets which block, when it grows, moves and is given back."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from streams_on_paper import Streams
from warpsmith.devices.call_memory import MOST_STREAMS, CallMemory
from warpsmith.devices.launches import BoundLaunches
from warpsmith.devices.module import BoundLaunch, CallArguments
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import StreamIdentity
from warpsmith.devices.workspaces import Workspaces
from warpsmith.errors import DeviceError, OutOfMemory
from warpsmith.generator.steps import Lifetime, Workspace

KIB = 1 << 10


@pytest.fixture
def device() -> Streams:
    return Streams()


def program(device: Any, nbytes: int, **options: bool) -> Workspaces:
    return Workspaces(device, (Workspace("scratch", nbytes),), **options)


def called(workspaces: Workspaces, stream: int | None = None) -> int:
    """Address of the memory of a call."""
    with workspaces.borrow(stream) as addresses:
        return addresses["scratch"]


def test_fifty_programs_hold_the_largest_and_not_the_sum(device: Streams) -> None:
    sizes = [KIB * (number + 1) for number in range(50)]
    random.Random(0).shuffle(sizes)
    programs = [program(device, nbytes) for nbytes in sizes]
    for _ in range(2):
        for each in programs:
            called(each)
        assert list(device.live.values()) == [max(sizes)]
    assert len({called(each) for each in programs}) == 1


def test_programs_that_are_not_called_hold_nothing(device: Streams) -> None:
    kept = [program(device, KIB) for _ in range(3)]
    assert (len(kept), device.live) == (3, {})


class TestGrowth:
    def test_waits_for_the_stream_and_for_no_other(self, device: Streams) -> None:
        """Another stream may be captured, which waiting for the device would spoil."""
        small, large = program(device, KIB), program(device, 4 * KIB)
        called(small, 7)
        other = called(small, 8)
        device.is_capturing = True
        moved = called(large, 7)
        assert (device.finished, device.waited) == ([7], 0)
        assert device.live == {other: KIB, moved: 4 * KIB}
        assert called(small, 7) == moved
        assert called(small, 8) == other
        assert device.finished == [7]

    def test_keeps_memory_that_may_be_in_use(self, device: Streams) -> None:
        small, large = program(device, KIB), program(device, 4 * KIB)
        before = called(small, 7)
        device.unfinished = {7}
        assert called(large, 7) != before
        assert sorted(device.live.values()) == [KIB, 4 * KIB]
        del small, large
        assert device.live == {}

    def test_too_little_memory_is_an_error_of_that_call_alone(self, device: Streams) -> None:
        small, large = program(device, KIB), program(device, 4 * KIB)
        called(small)
        device.room = 2 * KIB
        with pytest.raises(OutOfMemory):
            called(large)
        called(small)
        assert list(device.live.values()) == [KIB]
        device.room = 4 * KIB
        called(large)
        assert list(device.live.values()) == [4 * KIB]


class TestThreads:
    def test_on_one_stream_take_turns_whatever_they_call(self, device: Streams) -> None:
        programs, inside, most, lock = [program(device, KIB << each) for each in range(4)], 0, 0, threading.Lock()

        def work(own: Workspaces) -> None:
            nonlocal inside, most
            for _ in range(200):
                with own.borrow(7):
                    with lock:
                        inside += 1
                        most = max(most, inside)
                    time.sleep(0)  # another thread's turn
                    with lock:
                        inside -= 1

        in_threads(work, programs)
        assert most == 1
        assert list(device.live.values()) == [8 * KIB]

    def test_on_two_streams_are_inside_at_once(self, device: Streams) -> None:
        one, other = program(device, KIB), program(device, 4 * KIB)
        meeting, found = threading.Barrier(2, timeout=20), dict[int, int]()

        def work(given: tuple[Workspaces, int]) -> None:
            own, stream = given
            with own.borrow(stream) as addresses:
                meeting.wait()
                found[stream] = addresses["scratch"]

        in_threads(work, [(one, 7), (one, 8)])
        in_threads(work, [(one, 7), (other, 8)])
        assert len(set(found.values())) == 2

    def test_that_waited_for_a_block_which_was_dropped_get_the_next_one(self, device: Streams) -> None:
        small, large = program(device, KIB), [program(device, 4 * KIB)]
        called(small, 7)
        called(large[0], 7)
        block = CallMemory.shared(device)._of_streams[StreamIdentity(7)]  # type: ignore[arg-type]
        block.lock = LateLock(large.clear)
        addresses = {called(small, 7), called(small, 7)}
        assert block.is_dropped
        assert device.live == dict.fromkeys(addresses, KIB)
        assert len(addresses) == 1

    def test_call_while_streams_come_and_go(self, device: Streams) -> None:
        programs = [program(device, KIB) for _ in range(4)]
        inside: set[int] = set()

        def work(own: Workspaces) -> None:
            draw = random.Random(id(own))
            for _ in range(300):
                with own.borrow(draw.randrange(2 * MOST_STREAMS)) as addresses:
                    address = addresses["scratch"]
                    assert address in device.live
                    assert address not in inside
                    inside.add(address)
                    time.sleep(0)
                    inside.remove(address)

        in_threads(work, programs)
        called(programs[0], 1000)
        assert len(device.live) <= MOST_STREAMS

    def test_in_a_forked_child_nobody_waits_for_the_parents(self, device: Streams) -> None:
        own, ready, done = program(device, KIB), threading.Event(), threading.Event()

        def hold() -> None:
            with own.borrow(7):
                ready.set()
                done.wait(20)

        thread = threading.Thread(target=hold)
        thread.start()
        ready.wait(20)
        child = os.fork()
        if child == 0:
            os._exit(0 if called(own, 7) else 1)
        _, status = os.waitpid(child, 0)
        done.set()
        thread.join()
        assert status == 0


class LateLock(ForkLock):
    """A lock before which something else happens."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__()
        self._before = before

    def acquire(self) -> None:
        self._before()
        super().acquire()


def in_threads(work: Callable[[Any], None], given: list[Any]) -> None:
    failed: list[BaseException] = []

    def noted(each: Any) -> None:
        try:
            work(each)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=noted, args=(each,)) for each in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


class TestGraphs:
    def test_keep_their_memory_when_others_grow(self, device: Streams) -> None:
        small, large = program(device, KIB), program(device, 4 * KIB)
        device.identities[7] = StreamIdentity(0, 1)
        of_graph = called(small, 7)
        del device.identities[7]
        for stream in (7, None, 8):
            called(small, stream)
            assert called(large, stream) != of_graph
        assert device.live[of_graph] == KIB

    def test_keep_what_they_outgrow(self, device: Streams) -> None:
        """Calls that are in the graph already use it, and it may run beside calls on the same stream."""
        small, large = program(device, KIB), program(device, 4 * KIB)
        device.identities[7] = StreamIdentity(0, 1)
        first, second = called(small, 7), called(large, 7)
        assert device.live == {first: KIB, second: 4 * KIB}
        assert called(small, 7) == second
        assert (device.finished, device.waited) == ([], 0)
        device.identities[7] = StreamIdentity(0, 2)
        assert called(small, 7) not in (first, second)

    def test_have_memory_for_each_of_their_branches(self, device: Streams) -> None:
        """Streams that join a capture run beside each other when the graph runs."""
        own, other = program(device, KIB), program(device, KIB)
        device.identities |= {7: StreamIdentity(0, 1), 8: StreamIdentity(0, 1)}
        assert called(own, 7) == called(other, 7) != called(own, 8) == called(other, 8)

    def test_go_with_the_programs_that_they_contain(self, device: Streams) -> None:
        one, other, third = (program(device, KIB) for _ in range(3))
        device.identities[7] = StreamIdentity(0, 1)
        of_graph = called(one, 7)
        called(other, 7)
        elsewhere = called(third)
        del one
        assert set(device.live) == {of_graph, elsewhere}
        del other
        assert set(device.live) == {elsewhere}


class TestEnd:
    def test_of_the_largest_leaves_what_the_others_need(self, device: Streams) -> None:
        small, large = program(device, KIB), program(device, 4 * KIB)
        called(large)
        del large
        assert device.live == {}  # nobody has called the small one yet
        called(small)
        assert list(device.live.values()) == [KIB]
        again = program(device, KIB)
        called(again)
        again.close()
        assert list(device.live.values()) == [KIB]
        del small
        assert device.live == {}

    def test_while_its_memory_is_in_use_waits_for_nobody(self, device: Streams) -> None:
        """Python may collect a program in a thread that is queueing steps of another one."""
        small, large = program(device, KIB), program(device, 4 * KIB)
        called(large)
        called(small)
        with small.borrow(None) as addresses:
            del large
            assert device.live == {addresses["scratch"]: 4 * KIB}
        third = program(device, 2 * KIB)
        called(third)
        del third
        assert device.live == {}
        called(small)
        assert list(device.live.values()) == [KIB]

    def test_while_the_memory_s_own_lock_is_held_waits_for_nobody(self, device: Streams) -> None:
        large = program(device, 4 * KIB)
        called(large)
        memory = CallMemory.shared(device)  # type: ignore[arg-type]
        with memory._lock:
            del large
            gc.collect()
        assert list(device.live.values()) == [4 * KIB]
        del memory
        assert device.live == {}

    def test_of_the_last_one_ends_the_memory(self, device: Streams) -> None:
        own = program(device, KIB)
        called(own)
        assert list(device.shared) == [CallMemory]
        own.close()
        assert (device.live, list(device.shared)) == ({}, [])
        called(own)  # it may be called again
        assert list(device.live.values()) == [KIB]
        del own
        assert device.live == {}

    def test_waits_for_no_device(self, device: Streams) -> None:
        """A program may be dropped while its thread captures another graph."""
        own = program(device, KIB)
        called(own)
        device.is_capturing = True
        del own
        assert (device.live, device.waited) == ({}, 0)


class TestPrivate:
    def test_contents_stay_whatever_others_call(self, device: Streams) -> None:
        own, other = program(device, KIB, is_private=True), program(device, 4 * KIB)
        with own.borrow_made(7) as (addresses, made):
            made.add("scratch")
        assert called(other, 7) != addresses["scratch"]
        another = program(device, KIB, is_private=True)
        with another.borrow_made(7) as (elsewhere, nothing):
            assert nothing == set()
        with own.borrow_made(7) as (again, still):
            assert (again, still) == (addresses, {"scratch"})
        assert elsewhere != addresses
        del other
        assert addresses["scratch"] in device.live

    def test_kept_workspaces_are_no_others(self, device: Streams) -> None:
        own = Workspaces(device, (Workspace("state", 300, Lifetime.KEPT), Workspace("scratch", KIB)))  # type: ignore[arg-type]
        state = own.allocate_kept().addresses["state"]
        large = program(device, 4 * KIB)
        called(own)
        assert state not in (called(large), called(own))
        del large
        assert state in device.live


class Program:
    """A loaded program that notes the memory that its steps were bound to."""

    def __init__(self, nbytes: int) -> None:
        self.workspaces = (Workspace("scratch", nbytes),)
        self.seen: list[int] = []
        self.bound = 0

    def bind(self, addresses: object, values: object, workspaces: Mapping[str, int]) -> BoundLaunch:  # noqa: ARG002
        self.bound += 1
        return lambda _: self.seen.append(workspaces["scratch"])


def test_a_steady_call_notices_that_its_memory_moved(device: Any) -> None:
    small, large = Program(KIB), Program(4 * KIB)
    of_small, of_large = (BoundLaunches(each, device, CallArguments((), ())) for each in (small, large))  # type: ignore[arg-type]
    for each in (of_small, of_small, of_large, of_small, of_small):
        each.launch((), (), None)
    assert small.seen == [small.seen[0]] * 2 + large.seen * 2
    assert small.bound == 2
    assert list(device.live) == large.seen


def test_a_handle_that_is_no_stream_leaves_nothing_locked(device: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(device, KIB)

    def refuse(_: int | None) -> StreamIdentity:
        raise DeviceError("it is no stream")

    with monkeypatch.context() as patch:
        patch.setattr(device, "identify", refuse)
        with pytest.raises(DeviceError):
            called(own, 99)
    assert called(own)
