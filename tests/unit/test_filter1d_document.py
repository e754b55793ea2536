"""Slices, steps and counts of overlap-discard and overlap-add as "Parallel filters" prints them, and our kernels."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.overlap import (
    AddBlocks,
    BlockCounts,
    DiscardBlocks,
    Slices,
    addends,
    printed_add,
    printed_discard,
    step_blocks,
)
from warpsmith.generator.filter1d.overlap_add_family import Filter1dOverlapAdd, Filter1dOverlapAddGeometry, Way
from warpsmith.generator.filter1d.scatter_family import Filter1dScatter, Filter1dScatterGeometry
from warpsmith.generator.filter1d.shared_family import Filter1dShared, Filter1dSharedGeometry, aligning
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.space import Config, Value

SHARED, ADD, SCATTER = Filter1dShared(), Filter1dOverlapAdd(), Filter1dScatter()
Term = tuple[int, int, int]
"""Output, sample and tap of one product."""


def listed(slices: Slices) -> list[list[int]]:
    return [list(slices.of(number)) for number in range(slices.count)]


def config(family: Family, problem: Filter1d, **wanted: Value) -> Config:
    made = Config.of({**family.default(problem, H200).values(), **wanted})
    assert family.space(problem, H200).why_not(made) is None, family.space(problem, H200).why_not(made)
    return made


def problems(count: int) -> Iterator[Filter1d]:
    """Random short signals with random filters and slices of the result."""
    rng = random.Random(count)
    while count:
        signal, taps = rng.randint(1, 60), rng.randint(1, 40)
        fields: dict[str, Any] = {"down": rng.choice((1, 1, 2, 3, 5)), "channels": rng.choice((1, 2))}
        mode = rng.choice(("full", "same", "valid", "causal", None))
        if mode is None:
            fields["lags"] = tuple(sorted(rng.randint(1 - taps, signal - 1) for _ in range(2)))
        if mode != "valid" or taps <= signal:
            count -= 1
            yield Filter1d(signal, taps, mode=mode, **fields)


def terms(problem: Filter1d) -> list[Term]:
    """All products of one channel's result."""
    windows = ((i, problem.first_lag + i * problem.down) for i in range(problem.result_length))
    return [(i, lag + k, k) for i, lag in windows for k in range(problem.taps) if 0 <= lag + k < problem.signal]


class TestPrinted:
    def test_slices_are_those_of_its_example(self) -> None:
        """It prints blocks of L + M samples, M taps; a halo of M - 1 is enough."""
        assert listed(Slices(15, 5, 4)) == [[*range(9)], [*range(5, 14)], [*range(10, 15)]]
        assert listed(Slices(15, 5, 3)) == [[*range(8)], [*range(5, 13)], [*range(10, 15)]]

    @pytest.mark.parametrize("more", [0, 1], ids=["enough", "as printed"])
    def test_slices_give_the_whole_valid_result(self, more: int) -> None:
        signal, taps, length = np.arange(15.0) ** 2, np.array([1.0, -2, 3, 0.5]), 5
        slices = Slices(15, length, len(taps) - 1 + more)
        parts = [
            np.correlate(signal[each.start : each.stop], taps)[:length] for each in map(slices.of, range(slices.count))
        ]
        np.testing.assert_array_equal(np.concatenate(parts), np.correlate(signal, taps))

    def test_a_halo_of_one_less_is_too_small(self) -> None:
        blocks = DiscardBlocks.of(Filter1d(15, 4, mode="valid"), 5)  # type: ignore[arg-type]
        assert [blocks.samples(block) for block in range(blocks.count)] == [range(8), range(5, 13), range(10, 18)]
        assert blocks.tile == 5 + 4 - 1
        assert blocks.inside == range(2)

    def test_steps_are_those_of_its_example(self) -> None:
        assert [list(each) for each in step_blocks(10, 3)] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]

    def test_two_steps_are_too_few_where_the_overlap_is_longer_than_a_block(self) -> None:
        assert [addends(16, taps - 1) for taps in (1, 2, 17, 18, 33, 34)] == [1, 2, 2, 3, 3, 4]
        blocks = AddBlocks.of(Filter1d(100, 18), 16)
        assert set(blocks.results(0)) & set(blocks.results(2)) == {32}
        assert not set(blocks.results(0)) & set(blocks.results(3))

    def test_counts_are_those_of_its_table(self) -> None:
        assert printed_discard(1000, 33, 128) == BlockCounts(9, 128, 1064, 160, 1000, 1032, 1)
        assert printed_add(1000, 33, 128, 2) == BlockCounts(8, 160, 2000, 192, 1000, 1000, 2)


class TestOurCounts:
    """Counts of kernels as the document writes them: a thread makes one output, or one sum."""

    def test_overlap_discard_reads_the_halo_that_the_table_rounds_down(self) -> None:
        problem, length, taps = Filter1d(1000, 33), 128, 33
        geometry = Filter1dSharedGeometry.of(
            problem, config(SHARED, problem, threads=length, outputs=1, windows="apart", weights="argument")
        )
        ours, printed = geometry.blocks.counts(1, length), printed_discard(1000, taps, length)
        assert ours == dataclasses.replace(
            printed,
            work_items=9 * 128,  # whole groups
            global_reads=1000 + 7 * 32 + 8,  # a halo of each group but the first; the last group has 8 samples
        )
        assert ours.global_reads < 2 * 1000

    def test_a_padded_signal_has_one_group_too_many_where_its_end_has_no_output(self) -> None:
        blocks = DiscardBlocks.of(Filter1d(1000, 33), 258)
        assert (printed_discard(1000, 33, 258).groups, blocks.count) == (5, 4)

    def test_overlap_add_writes_the_tails_that_the_table_rounds_down(self) -> None:
        problem = Filter1d(1000, 33)
        chosen = config(ADD, problem, way="steps", steps=2, run=0, threads=64, outputs=2, windows="apart")
        geometry = Filter1dOverlapAddGeometry.of(problem, chosen)
        length = geometry.blocks.length
        assert length == 96
        assert geometry.counts == dataclasses.replace(
            printed_add(1000, 33, length, 2),
            group_size=64,  # a thread has two of the 128 sums
            work_items=11 * 64,
            global_writes=1000 + 11 * 32,
        )

    def test_a_thread_for_each_sum_is_the_tables_group(self) -> None:
        problem = Filter1d(1000, 33)
        chosen = config(ADD, problem, way="steps", steps=2, run=0, threads=128, outputs=1, windows="apart")
        counts, printed = Filter1dOverlapAddGeometry.of(problem, chosen).counts, printed_add(1000, 33, 96, 2)
        assert (counts.groups, counts.group_size, counts.local_elements) == (
            printed.groups,
            printed.group_size,
            printed.local_elements,
        )

    def test_sums_that_are_carried_are_written_once(self) -> None:
        problem = Filter1d(100_000, 33)
        geometry = Filter1dOverlapAddGeometry.of(problem, config(ADD, problem, way="carry", run=16))
        assert geometry.counts.global_writes == problem.result_length
        assert geometry.counts.steps == 2
        assert geometry.counts.groups == -(-geometry.blocks.count // 16)


class TestBlocks:
    """Blocks of random signals, filters and slices of the result."""

    def test_overlap_discard_makes_each_output_once_from_the_samples_of_its_tile(self) -> None:
        rng = random.Random(0)
        for problem in problems(300):
            length = rng.randint(1, 20)
            blocks = DiscardBlocks.of(problem, length, rng.randint(0, length))
            made = [(i, block) for block in range(blocks.count) for i in blocks.outputs.of(block)]
            assert [i for i, _ in made] == list(range(problem.result_length))
            for i, block in made:
                lag = problem.first_lag + i * problem.down
                samples = blocks.samples(block)
                assert samples.start <= lag <= lag + problem.taps <= samples.stop

    def test_blocks_without_checks_have_all_samples_and_outputs(self) -> None:
        rng = random.Random(1)
        for problem in problems(300):
            length = rng.randint(1, 20)
            blocks = DiscardBlocks.of(problem, length, rng.randint(0, length))
            whole = [
                block
                for block in range(1 if blocks.outputs.first else 0, blocks.count)
                if len(blocks.outputs.of(block)) == length
                and blocks.samples(block).start >= 0
                and blocks.samples(block).stop <= problem.signal
            ]
            assert list(blocks.inside) == whole
            reads = sum(len(set(blocks.samples(block)) & set(range(problem.signal))) for block in range(blocks.count))
            assert blocks.counts(3, 64).global_reads == 3 * reads

    def test_overlap_add_makes_each_product_once(self) -> None:
        rng = random.Random(2)
        for problem in problems(300):
            blocks = AddBlocks.of(problem, rng.randint(1, 20))
            assert sorted(added(blocks)) == sorted(terms(problem))
            writes = sum(len(blocks.results(block)) for block in range(blocks.count))
            assert blocks.counts(2, 64, 1).global_writes == 2 * writes

    def test_no_two_blocks_of_a_step_touch_one_output(self) -> None:
        rng = random.Random(3)
        for problem in problems(300):
            blocks = AddBlocks.of(problem, rng.randint(1, 20))
            for steps, step in itertools.product(range(blocks.addends, blocks.addends + 3), range(3)):
                if step < steps:
                    touched = [i for block in step_blocks(blocks.count, steps)[step] for i in blocks.results(block)]
                    assert len(set(touched)) == len(touched)

    def test_fewer_steps_than_that_would_not_do(self) -> None:
        blocks = AddBlocks.of(Filter1d(200, 30), 10)
        touched = [i for block in step_blocks(blocks.count, blocks.addends - 1)[0] for i in blocks.results(block)]
        assert len(set(touched)) < len(touched)

    def test_the_first_block_of_all_steps_to_touch_an_output_is_the_one_that_stores_it(self) -> None:
        """The kernel's rule, written here again from its text."""
        rng = random.Random(4)
        for problem in problems(200):
            blocks = AddBlocks.of(problem, rng.randint(1, 20))
            steps = blocks.addends + rng.randint(0, 2)
            seen: set[int] = set()
            for step, of_step in enumerate(step_blocks(blocks.count, steps)):
                stored = set[int]()
                for block in of_step:
                    for i in blocks.results(block):
                        total = i - blocks.shift - block * blocks.length
                        has_before = total < blocks.overlap and block > 0
                        has_later = total >= (steps - step) * blocks.length and block + steps - step < blocks.count
                        assert (i in seen) == (step > 0 and (has_before or has_later)), (problem, i)
                        stored.add(i)
                seen |= stored
            assert seen == set(range(problem.result_length))


def added(blocks: AddBlocks) -> Iterator[Term]:
    """Products that the blocks add, read off the tile as a kernel does."""
    for block, total, k in itertools.product(range(blocks.count), range(blocks.sums), range(blocks.taps)):
        i, sample = block * blocks.length + total + blocks.shift, total * blocks.down + k - blocks.before
        of_block = blocks.samples.of(block)
        if 0 <= i < blocks.outputs and 0 <= sample < len(of_block):
            yield i, blocks.base + of_block.start + sample, k


PROBLEMS = (
    Filter1d(1 << 24, 33),
    Filter1d(5000, 5, mode="same", channels=3, filters=3, batch=2),  # type: ignore[arg-type]
    Filter1d(700, 300, mode="valid"),  # type: ignore[arg-type]
    Filter1d(40, 90),
    Filter1d(3001, 16, mode="full", down=5, channels=4, filters=2),  # type: ignore[arg-type]
    Filter1d(2000, 12, dtype="complex64", taps_dtype="complex64"),  # type: ignore[arg-type]
    Filter1d(1000, 1, dtype="bfloat16"),  # type: ignore[arg-type]
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda each: each.key())


def sample(family: Family, problem: Filter1d) -> list[tuple[Config, Program]]:
    space, rng = family.space(problem, H200), random.Random(problem.key())
    drawn = filter(None, (space.drawn(rng) for _ in range(8)))
    found = dict.fromkeys((family.default(problem, H200), *family.starts(problem, H200), *drawn))
    return [(each, family.program(problem, each)) for each in found]


def number(source: str, name: str) -> int:
    """Value of a constant of a text."""
    (value,) = re.findall(rf"constexpr [\w ]+ {name} = (-?\d+);", source)
    return int(value)


def sizes(launch: Launch) -> tuple[int, int]:
    return launch.grid[0], launch.block[0]


class TestLaunches:
    """The launches and the texts agree with the counts."""

    @every_problem
    def test_of_overlap_discard(self, problem: Filter1d) -> None:
        for chosen, program in sample(SHARED, problem):
            geometry = Filter1dSharedGeometry.of(problem, chosen)
            counts = geometry.blocks.counts(problem.rows, geometry.tile.threads)
            (launch,) = program.launches
            assert sizes(launch) == (counts.groups, counts.group_size)
            assert counts.work_items == counts.groups * counts.group_size
            assert geometry.tile.rounds * geometry.tile.threads + geometry.tile.halo == counts.local_elements
            assert number(program.source, "kPlaces") >= counts.local_elements
            assert number(program.source, "kThreads") * number(program.source, "kOwn") == number(
                program.source, "kLength"
            )
            assert geometry.tile.shared_bytes <= H200.limits.static_shared_bytes

    @every_problem
    def test_of_overlap_add(self, problem: Filter1d) -> None:
        for chosen, program in sample(ADD, problem):
            geometry = Filter1dOverlapAddGeometry.of(problem, chosen)
            counts, launches = geometry.counts, program.launches
            assert len(launches) == counts.steps
            sums = {Way.STEPS: launches, Way.ATOMICS: launches[1:], Way.CARRY: launches[:1]}[geometry.way]
            assert sum(launch.grid[0] for launch in sums) == counts.groups
            assert {launch.block[0] for launch in sums} == {counts.group_size}
            assert geometry.tile.own * geometry.tile.threads >= geometry.blocks.sums
            assert number(program.source, "kSums") == geometry.blocks.sums
            if geometry.way is Way.ATOMICS:
                assert geometry.blocks.addends <= 2
                assert launches[0].grid[0] * launches[0].block[0] >= problem.output.size
            if geometry.way is Way.CARRY:
                assert geometry.walked >= geometry.blocks.count
                last = geometry.walked - (geometry.runs - 1) * geometry.run
                assert geometry.blocks.overlap <= last * geometry.blocks.length <= geometry.run * geometry.blocks.length

    @every_problem
    def test_of_scattered_additions(self, problem: Filter1d) -> None:
        if SCATTER.why_not(problem, H200) is None:
            for chosen, program in sample(SCATTER, problem):
                zero, add = program.launches
                assert zero.grid[0] * zero.block[0] - problem.output.size in range(zero.block[0])
                assert add.grid[0] * add.block[0] - problem.rows * problem.signal in range(add.block[0])
                assert Filter1dScatterGeometry.of(problem, chosen).threads == add.block[0]


class TestAligned:
    def test_all_tiles_but_the_first_begin_at_multiples(self) -> None:
        found = 0
        for problem in problems(300):
            for length, align in itertools.product((64, 96), (64, 128)):
                first = aligning(problem, length, align)
                blocks = DiscardBlocks.of(problem, length, first or 0)
                starts = [blocks.samples(block).start * 4 % align for block in range(1, 4)]
                assert first is None or (0 < first < length and starts == [0, 0, 0])
                found += first is not None
        assert found > 100

    def test_rows_that_begin_elsewhere_cannot_be_aligned(self) -> None:
        assert aligning(Filter1d(1001, 5, channels=2), 64, 64) is None
        assert aligning(Filter1d(1024, 5, channels=2), 64, 64) == 4


@pytest.mark.parametrize(
    ("family", "fields", "told"),
    [
        (SHARED, {"channels": 2, "layout": "btc"}, "layout bct"),
        (ADD, {"channels": 2, "layout": "btc"}, "layout bct"),
        (SHARED, {"taps": 20_000}, "a tile for 20000 taps"),
        (ADD, {"taps": 20_000}, "no block for 20000 taps"),
        (SHARED, {"down": 5000}, "a tile for 5 taps, 5000 samples apart"),
        (SCATTER, {"dtype": "float16"}, "float16 would be rounded at each addition"),
        (SCATTER, {"taps": 257}, "256 taps at most"),
        (SCATTER, {"channels": 2, "layout": "btc"}, None),
        (ADD, {"dtype": "float16"}, None),
    ],
)
def test_says_why_not(family: Family, fields: dict[str, Any], told: str | None) -> None:
    why_not = family.why_not(Filter1d(**{"signal": 50_000, "taps": 5, **fields}), H200)
    assert why_not is None if told is None else (why_not is not None and told in why_not)


def test_half_results_are_carried() -> None:
    """Other ways would round a sum each time that a block adds to it."""
    space = ADD.space(Filter1d(5000, 5, dtype="bfloat16"), H200)  # type: ignore[arg-type]
    assert {each.name: each.values for each in space.parameters}["way"] == ("carry",)


def test_scattered_additions_neither_answer_nor_win() -> None:
    assert not SCATTER.may_answer
    assert not SCATTER.may_win
