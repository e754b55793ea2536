"""Judgement of a candidate before it runs: each rule at its edge."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from builders import SMALL as PROBLEM
from builders import binary, numbered
from builders import launch as made_launch
from builders import program as made_program
from warpsmith.devices.compiler import Binaries, Usage
from warpsmith.generator.device import Device
from warpsmith.generator.family import Work
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.library_calls import CufftTransform, Direction, Strided, TransformKind
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import Launch, LibraryCall, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.run.screen import MAX_SPILL_BYTES, MIN_WARPS, Screen, resident_warps

CRASH = Failure(FailureKind.CRASH, "illegal address")
GOOD = Usage(registers=32, spill_bytes=0, shared_bytes=0)
SIDE = Strided((8,), 1, 8)
CALL = LibraryCall(
    CufftTransform(TransformKind.C2C, (8,), 1, Direction.FORWARD, SIDE, SIDE), (Pointer("signal"), Pointer("spectrum"))
)
MILLISECOND = Work(multiply_adds=132 * 128 * 1_980_000, loaded_bytes=0)
"""Work of one millisecond: 1,980,000 cycles on each of an H200's 132 multiprocessors, at 1980 MHz."""


@dataclasses.dataclass
class Busy:
    """A family whose programs have the given work."""

    its: Work | None

    def work(self, problem: Filter2d, config: Config) -> Work | None:
        assert (problem, config) == (PROBLEM, Config.of({"n": 1}))
        return self.its


def launch(block: tuple[int, int, int] = (256, 1, 1), shared_bytes: int = 0) -> Launch:
    return made_launch(grid=(1000, 1, 1), block=block, shared_bytes=shared_bytes)


def program(*launches: Launch) -> Program:
    return made_program("// source", *(launches or (launch(),)), family="busy", config=numbered(1))


def screen(
    work: Work | None = MILLISECOND,
    *,
    best_ns: float | None = 1e9,
    device: Device = H200,
    drops: bool = True,
    poisoned: Any = (),
    spared: Any = (),
    expected_ns: float = math.inf,
    likely_ns: float = math.inf,
) -> Screen:
    families: Any = {"busy": Busy(work)}
    made = Screen(
        PROBLEM,
        device,
        families,
        dict(poisoned),
        drops=drops,
        spared=spared,
        expected_ns=expected_ns,
        likely_ns=likely_ns,
    )
    if best_ns is not None:
        made.expect(best_ns)
    return made


def usage(**changes: int | None) -> Usage:
    return dataclasses.replace(GOOD, **changes)


def binaries(of: Usage = GOOD, **others: Usage) -> Binaries:
    """One unit with `kernel`, whose usage is `of`, and other kernels."""
    return {"": binary(kernels={"kernel": of, **others})}


class TestPoison:
    @pytest.mark.parametrize("drops", [False, True])
    @pytest.mark.parametrize("best_ns", [None, 1e9])
    @pytest.mark.parametrize("device", [H200, HOST], ids=["gpu", "host"])
    def test_is_not_run_again_wherever_it_is(self, device: Device, best_ns: float | None, drops: bool) -> None:
        made = screen(None, device=device, best_ns=best_ns, drops=drops, poisoned={"bad": CRASH})
        told = Failure(FailureKind.CRASH, "not run again: illegal address")
        assert made.of_program(program(), "bad") == told
        assert made.of_program(program(), "good") is None

    def test_is_told_in_the_same_words_ever_after(self) -> None:
        """The stored message comes back as the reason in the next run."""
        once = screen(poisoned={"bad": CRASH}).of_program(program(), "bad")
        assert once is not None
        assert screen(poisoned={"bad": once}).of_program(program(), "bad") == once


class TestWork:
    @pytest.mark.parametrize(("best_ns", "drops"), [(1e6, False), (1e6 - 1, True), (1e6 + 1, False), (1.0, True)])
    def test_longer_than_the_best_time_is_dropped(self, best_ns: float, drops: bool) -> None:
        failure = screen(best_ns=best_ns).of_program(program(), "f")
        assert (failure is not None) == drops

    def test_says_both_times(self) -> None:
        told = "its work takes 1000.0 us at the least, the best so far 123.4 us"
        assert screen(best_ns=123_400).of_program(program(), "f") == Failure(FailureKind.DROPPED, told)

    def test_is_held_against_the_best_of_now(self) -> None:
        made = screen(best_ns=2e6)
        assert made.of_program(program(), "f") is None
        made.expect(0.5e6)
        assert made.of_program(program(), "f") is not None

    def test_that_is_not_known_drops_nothing(self) -> None:
        assert screen(None, best_ns=1.0).of_program(program(), "f") is None


class TestSpared:
    """Programs that a winner is compared with; they run unless they are hopeless and slow."""

    SPARED = (("busy", Config.of({"n": 1})),)

    @pytest.mark.parametrize(
        ("work_ms", "best_ns", "drops"),
        [(2, 1.9e6, False), (2, 0.5e6 + 1, False), (2, 0.5e6 - 1, True), (0.3, 1.0, False), (0.301, 1.0, True)],
    )
    def test_is_dropped_at_four_times_the_best_and_three_tenths_of_a_millisecond(
        self, work_ms: float, best_ns: float, drops: bool
    ) -> None:
        work = Work(int(MILLISECOND.multiply_adds * work_ms), 0)
        assert (screen(work, best_ns=best_ns, spared=self.SPARED).of_program(program(), "f") is not None) == drops

    def test_is_dropped_before_there_is_a_time_by_what_stages_let_expect(self) -> None:
        work = Work(2 * MILLISECOND.multiply_adds, 0)
        told = "its work takes 2000.0 us at the least, the best about 400.0 us by its stages"
        made = screen(work, best_ns=None, spared=self.SPARED, expected_ns=0.4e6)
        assert made.of_program(program(), "f") == Failure(FailureKind.DROPPED, told)
        assert screen(work, best_ns=None, expected_ns=0.4e6).of_program(program(), "f") is not None
        assert screen(work, best_ns=None, expected_ns=0.6e6).of_program(program(), "f") is None
        assert screen(work, best_ns=None, expected_ns=1.0, drops=False).of_program(program(), "f") is None

    def test_waits_for_others_where_a_model_expects_a_quarter_of_its_work(self) -> None:
        work = Work(2 * MILLISECOND.multiply_adds, 0)
        assert screen(work, best_ns=None, likely_ns=0.4e6).should_wait(program())
        assert not screen(work, best_ns=None, likely_ns=0.6e6).should_wait(program())
        assert not screen(work, best_ns=None).should_wait(program())
        assert not screen(work, best_ns=1.0, likely_ns=0.4e6).should_wait(program())  # of_work says more
        assert not screen(None, best_ns=None, likely_ns=0.4e6).should_wait(program())
        assert not screen(work, best_ns=None, likely_ns=1.0, drops=False).should_wait(program())
        assert screen(work, best_ns=None, likely_ns=0.4e6).of_program(program(), "f") is None

    def test_is_run_whatever_its_machine_code_says(self) -> None:
        assert screen(spared=self.SPARED).of_binaries(program(), binaries(usage(spill_bytes=4000))) is None


class TestBinary:
    @pytest.mark.parametrize(
        ("spill_bytes", "drops"), [(None, False), (0, False), (MAX_SPILL_BYTES, False), (MAX_SPILL_BYTES + 1, True)]
    )
    def test_that_spills_much_is_dropped(self, spill_bytes: int | None, drops: bool) -> None:
        failure = screen().of_binaries(program(), binaries(usage(spill_bytes=spill_bytes)))
        told = Failure(FailureKind.DROPPED, f"each thread spills {spill_bytes} bytes of registers")
        assert failure == (told if drops else None)

    # Blocks of four warps, and as much shared memory as leaves room for two of them, or for one.
    @pytest.mark.parametrize(("kib", "warps"), [(113, 8), (114, 4)])
    def test_of_which_few_warps_fit_is_dropped(self, kib: int, warps: int) -> None:
        failure = screen().of_binaries(program(launch((128, 1, 1), kib << 10)), binaries())
        told = Failure(FailureKind.DROPPED, f"a multiprocessor holds {warps} of its warps at once")
        assert failure == (told if warps < MIN_WARPS else None)

    def test_is_as_good_as_its_best_launch(self) -> None:
        """Nothing shows which launch takes the time."""
        few = launch((128, 1, 1), 114 << 10)
        for launches in ((launch(), few), (few, launch()), (launch(), launch())):
            assert screen().of_binaries(program(*launches), binaries()) is None
        assert screen().of_binaries(program(few, few), binaries()) is not None

    def test_each_launch_is_judged_by_its_own_kernel(self) -> None:
        """Judged by the largest usage of any kernel, both would be dropped: the one that spills has room, and the other
        does not spill.

        `wide` has 255 registers, and a block of it fits once; `kernel` has few registers.
        """
        spills, wide = usage(spill_bytes=MAX_SPILL_BYTES + 1), usage(registers=255)
        large = dataclasses.replace(launch((128, 1, 1), 114 << 10), entry="wide")
        small = launch((32, 1, 1))
        assert screen().of_binaries(program(small, large), binaries(GOOD, wide=spills)) is None
        assert screen().of_binaries(program(small), binaries(GOOD, wide=wide)) is None
        assert screen().of_binaries(program(small), binaries(GOOD, wide=spills)) is None
        assert screen().of_binaries(program(large), binaries(GOOD, wide=spills)) is not None
        assert screen().of_binaries(program(small, large), binaries(spills, wide=wide)) is not None

    def test_a_librarys_part_is_not_known(self) -> None:
        few = launch((128, 1, 1), 114 << 10)
        with_call = dataclasses.replace(program(few), steps=(few, CALL))
        assert screen().of_binaries(with_call, binaries()) is None
        alone = Program("busy", Config.of({"n": 1}), (), (CALL,))
        assert screen().of_binaries(alone, {}) is None


@pytest.mark.parametrize(
    "nothing",
    [{"best_ns": None}, {"device": HOST}, {"drops": False}, {"device": HOST, "best_ns": 1.0}],
    ids=["no best yet", "host", "told not to", "host with a best"],
)
def test_nothing_is_dropped(nothing: dict[str, Any]) -> None:
    made = screen(Work(10**18, 10**18), **{"best_ns": 1.0, **nothing})
    assert made.of_program(program(), "f") is None
    assert (
        made.of_binaries(program(launch((32, 1, 1), 200 << 10)), binaries(usage(registers=255, spill_bytes=4000)))
        is None
    )


@pytest.mark.parametrize(
    ("block", "registers", "static", "dynamic", "warps"),
    [
        # Threads alone: 2048 of them.
        ((256, 1, 1), None, None, 0, 64),
        ((16, 16, 1), 32, 0, 0, 64),  # 32 * 32 registers a warp, of 65536: just enough
        ((8, 8, 2), 32, 0, 0, 64),
        ((1024, 1, 1), 32, 0, 0, 64),
        ((384, 1, 1), 32, 0, 0, 60),  # 5 blocks of 12 warps
        ((1000, 1, 1), 32, 0, 0, 64),  # 31.25 warps are 32
        ((65, 1, 1), 32, 0, 0, 63),  # 3 warps, the last with one thread: 21 blocks
        # 32 blocks at the most.
        ((64, 1, 1), 32, 0, 0, 64),
        ((33, 1, 1), 32, 0, 0, 64),
        ((32, 1, 1), 32, 0, 0, 32),
        ((1, 1, 1), None, None, 0, 32),
        # Registers come in portions of 256 a warp: 33 * 32 are 1280, so 51 warps fit, 48 in portions of 4.
        ((256, 1, 1), 33, 0, 0, 48),
        ((256, 1, 1), 40, 0, 0, 48),  # 1280 too
        ((256, 1, 1), 41, 0, 0, 40),  # 1536: 42, so 40
        ((256, 1, 1), 64, 0, 0, 32),
        ((256, 1, 1), 65, 0, 0, 24),  # 2304: 28, three blocks of 8
        ((256, 1, 1), 128, 0, 0, 16),
        ((256, 1, 1), 255, 0, 0, 8),  # 8192: 8
        ((64, 1, 1), 255, 0, 0, 8),
        ((96, 1, 1), 255, 0, 0, 6),  # 8 warps hold two blocks of 3
        ((96, 1, 1), 90, 0, 0, 18),  # 3072: 21, so 20, six blocks of 3
        ((32, 1, 1), 168, 0, 0, 12),  # 5376: 12
        ((512, 1, 1), 129, 0, 0, 0),  # 4352: 15, so 12: no block of 16 fits
        # Shared memory: 228 KiB; every block takes 1 KiB more than it requests.
        ((256, 1, 1), 32, 0, 113 << 10, 16),
        ((256, 1, 1), 32, 0, (113 << 10) + 1, 8),
        ((256, 1, 1), 32, 48 << 10, 65 << 10, 16),
        ((256, 1, 1), 32, 48 << 10, (65 << 10) + 1, 8),
        ((256, 1, 1), 32, None, 75 << 10, 24),
        ((256, 1, 1), 32, 0, 227 << 10, 8),
        ((256, 1, 1), 32, 0, 228 << 10, 0),  # more than a block may have
        # The least of them all counts.
        ((256, 1, 1), 64, 0, 75 << 10, 24),
        ((256, 1, 1), 128, 0, 75 << 10, 16),
    ],
)
def test_warps_that_an_h200_holds(
    block: tuple[int, int, int], registers: int | None, static: int | None, dynamic: int, warps: int
) -> None:
    made = usage(registers=registers, shared_bytes=static)
    assert resident_warps(launch(block, dynamic), made, H200) == warps


@pytest.mark.parametrize(
    ("capability", "blocks"),
    [((7, 5), 16), ((8, 0), 32), ((8, 6), 16), ((8, 9), 24), ((9, 0), 32)],
)
def test_blocks_that_a_multiprocessor_of_other_devices_holds(capability: tuple[int, int], blocks: int) -> None:
    device = dataclasses.replace(H200, compute_capability=capability)
    assert resident_warps(launch((32, 1, 1)), usage(registers=32), device) == blocks
    assert resident_warps(launch((1024, 1, 1)), usage(registers=32), device) == 64
