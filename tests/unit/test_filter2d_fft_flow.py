"""All chunks of tiles in one launch: every job runs once and after its inputs, and some block always goes on."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.fft.fft_family import Filter2dFft
from warpsmith.generator.filter2d.fft.fft_geometry import FLOWING, Filter2dFftGeometry
from warpsmith.generator.filter2d.fft.fft_text import Flow
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Lifetime, Pointer
from warpsmith.generator.space import Config, Value

FAMILY = Filter2dFft()
LARGE = Filter2d((9216, 9216), (65, 65), accuracy="imagewise", nonfinite="any")  # type: ignore[arg-type]
SMALL = dataclasses.replace(LARGE, image=(700, 800))


DEFAULT = FAMILY.default(LARGE, H200).values()


def config(problem: Filter2d, **wanted: Value) -> Config:
    made = Config.of({**DEFAULT, **wanted})
    assert FAMILY.space(problem, H200).why_not(made) is None
    return made


def small(pairs: int) -> Config:
    return config(
        SMALL, pairs=pairs, y_radices="16x16", x_radices="16x16", columns=8, column_threads=128, row_threads=128
    )


FLOWS = [(LARGE, config(LARGE)), *((SMALL, small(pairs)) for pairs in (1, 2, 3, 8))]
"""Flows of many chunks, the last one partial, then of fewer chunks and of one."""


Job = tuple[int, int, int]
"""A job is (part, chunk, block); part is 0 for rows, 1 for columns and 2 for results."""


def jobs(flow: Flow) -> list[Job]:
    """Jobs in the order in which the kernel numbers and takes them."""
    found = []
    for number in range(flow.jobs):
        place = number
        for gap in flow.gaps:
            place += gap.jobs if place >= gap.start else 0
        turn, rest = divmod(place, flow.turn)
        part = 0 if rest < flow.rows else 1 if rest < flow.rows + flow.columns else 2
        found.append((part, turn - part, rest - sum(flow.parts[:part])))
    return found


def awaited(flow: Flow, job: Job) -> tuple[int, int] | None:
    """Part and chunk that must be done before: the job reads its results or overwrites its memory."""
    part, chunk, _ = job
    if part > 0:
        return part - 1, chunk
    return (2, chunk - flow.geometry.slots) if chunk >= flow.geometry.slots else None


def test_the_default_of_a_large_image_is_one_launch() -> None:
    program = FAMILY.program(LARGE, FAMILY.default(LARGE, H200))
    _, _, begin, flow = program.launches
    assert (begin.entry, flow.entry) == ("filter2d_fft_begin", "filter2d_fft_flow")
    assert begin.arguments == (Pointer("progress"),)
    assert flow.grid[0] % H200.multiprocessors == 0
    counters = next(each for each in program.workspaces if each.name == "progress")
    assert (counters.lifetime, counters.holds) == (Lifetime.CALL, ())  # each run sets them to zero for itself


@pytest.mark.parametrize(("problem", "chosen"), FLOWS, ids=lambda each: each.key())
def test_every_job_is_taken_once_behind_those_it_waits_for(problem: Filter2d, chosen: Config) -> None:
    geometry = Filter2dFftGeometry.of(problem, chosen)
    flow = Flow(geometry)
    found, chunks = jobs(flow), len(geometry.chunks)
    assert len(set(found)) == len(found)
    assert Counter(job[:2] for job in found) == {
        (part, chunk): flow.parts[part] for part in range(3) for chunk in range(chunks)
    }
    assert all(0 <= block < flow.parts[part] for part, _, block in found)
    done: Counter[tuple[int, int]] = Counter()
    for job in found:
        if (before := awaited(flow, job)) is not None:
            assert done[before] == flow.parts[before[0]], job
        done[job[:2]] += 1
    assert 4 * (1 + 3 * chunks) == flow.counter_bytes


@pytest.mark.parametrize("blocks", [1, 2, 7, 264])
def test_some_block_always_goes_on(blocks: int) -> None:
    """Blocks hold the current job and the next one. In the worst order the last block that can go on does."""
    flow = Flow(Filter2dFftGeometry.of(SMALL, small(1)))
    order = iter(jobs(flow))
    held = [[job for job in (next(order, None), next(order, None)) if job] for _ in range(blocks)]
    done: Counter[tuple[int, int]] = Counter()
    while any(held):
        ready = [
            mine
            for mine in held
            if mine and ((before := awaited(flow, mine[0])) is None or done[before] == flow.parts[before[0]])
        ]
        assert ready, "every block waits"
        done[ready[-1].pop(0)[:2]] += 1
        ready[-1].extend([job for job in (next(order, None),) if job])
    assert done.total() == flow.jobs


def test_blocks_of_one_launch_are_alike_and_as_many_as_find_room() -> None:
    space, default = FAMILY.space(LARGE, H200), FAMILY.default(LARGE, H200)
    assert default.integer("buffers") == FLOWING
    for change in ({"row_threads": 96}, {"blocks": 0}, {"blocks": 3 * H200.multiprocessors}, {"buffers": 1}):
        assert space.why_not(Config.of({**default.values(), **change})) is not None
    assert space.contains(Config.of({**default.values(), "buffers": 1, "blocks": 0}))
