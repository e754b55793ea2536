"""Overlap methods: the blocks into which they cut a signal and its result, the steps of overlap-add, and their counts.

Overlap-discard reads overlapping slices of the signal and makes disjoint slices of the result. Overlap-add reads
disjoint slices of the signal and makes overlapping slices of the result, which are added.

Source: "Parallel filters", section 4.1 (overlap-discard, overlap-add) and its table of work groups.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.problem import Filter1d


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


@dataclasses.dataclass(frozen=True, slots=True)
class Slices:
    """Slices of a sequence: each begins `length` elements after the one before it and overlaps the next one."""

    total: int
    """Elements of the sequence, which cuts the last slices short."""
    length: int
    overlap: int = 0
    """Elements of a slice that lie beyond the beginning of the next one."""
    first: int = 0
    """Length of the first slice; 0 for `length`."""

    @property
    def count(self) -> int:
        """Number of slices."""
        return 1 + max(0, ceil_div(self.total - self.head, self.length))

    @property
    def head(self) -> int:
        """Elements from the beginning of the first slice to that of the second."""
        return self.first or self.length

    def of(self, number: int) -> range:
        """Elements of one slice."""
        start = self.start(number)
        return range(start, min(self.start(number + 1) + self.overlap, self.total))

    def start(self, number: int) -> int:
        """First element of a slice; the slice itself need not exist."""
        return self.head + (number - 1) * self.length if number else 0


def addends(length: int, overlap: int) -> int:
    """Most blocks that add to one element, where each has `overlap` elements beyond the beginning of the next block.

    So many steps of overlap-add are enough: the document's two are too few if the overlap is longer than a block.
    """
    return 1 + ceil_div(overlap, length)


def step_blocks(blocks: int, steps: int) -> tuple[range, ...]:
    """Blocks of each step of overlap-add. No two blocks of a step touch one output if there are `addends` steps."""
    return tuple(range(step, blocks, steps) for step in range(steps))


@dataclasses.dataclass(frozen=True, slots=True)
class BlockCounts:
    """A row of the document's table, for one method."""

    groups: int
    """Work groups (CUDA: blocks) of all steps."""
    group_size: int
    """Work items (CUDA: threads) of a work group."""
    work_items: int
    local_elements: int
    """Elements of local memory (CUDA: shared memory) of a work group."""
    global_reads: int
    """Elements of the signal that work groups read."""
    global_writes: int
    """Elements of the result that work groups write, or add to."""
    steps: int
    """Launches one after the other."""


def printed_discard(samples: int, taps: int, length: int) -> BlockCounts:
    """Counts of overlap-discard as the document's table prints them.

    The table counts the padded signal, which makes one group too many where the last one has no output. It has no
    halo in its reads unless a filter is longer than a block: `global_reads` is rounded down.
    """
    padded = samples + 2 * (taps - 1)
    return BlockCounts(
        groups=ceil_div(padded, length),
        group_size=length,
        work_items=padded,
        local_elements=length + taps - 1,
        global_reads=samples * (1 + (taps - 1) // length),
        global_writes=samples + taps - 1,
        steps=1,
    )


def printed_add(samples: int, taps: int, length: int, steps: int) -> BlockCounts:
    """Counts of overlap-add as the document's table prints them."""
    return BlockCounts(
        groups=ceil_div(samples, length),
        group_size=length + taps - 1,
        work_items=samples * (1 + ceil_div(taps - 1, length)),
        local_elements=length + 2 * (taps - 1),
        global_reads=samples,
        global_writes=samples * (1 + (taps - 1) // length),
        steps=steps,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class DiscardBlocks:
    """Blocks of overlap-discard: disjoint slices of the outputs, and the samples under their windows."""

    outputs: Slices
    """Outputs of a channel."""
    signal: int
    taps: int
    down: int
    first_lag: int

    @classmethod
    def of(cls, problem: Filter1d, length: int, first: int = 0) -> DiscardBlocks:
        """Blocks of `length` outputs, the first one with `first` of them if that is not 0."""
        outputs = Slices(problem.result_length, length, first=first)
        return cls(outputs, problem.signal, problem.taps, problem.down, problem.first_lag)

    @property
    def count(self) -> int:
        """Blocks of a channel."""
        return self.outputs.count

    @property
    def tile(self) -> int:
        """Samples under the windows of a whole block: its length and a halo of taps - 1, if all outputs are kept."""
        return (self.outputs.length - 1) * self.down + self.taps

    @property
    def origin(self) -> int:
        """First sample of block 0 if it had the length of the others; block b begins `b * step` samples later."""
        return self.first_lag + (self.outputs.head - self.outputs.length) * self.down

    @property
    def step(self) -> int:
        """Samples from the beginning of a block's tile to that of the next."""
        return self.outputs.length * self.down

    def samples(self, block: int) -> range:
        """Samples of a block's tile, those outside of the signal included."""
        start = self.origin + block * self.step
        return range(start, start + self.tile)

    @property
    def inside(self) -> range:
        """Blocks that have all their outputs, and all their samples in the signal: they need no checks."""
        start = min(self.count, max(1 if self.outputs.first else 0, ceil_div(-self.origin, self.step)))
        whole = (self.outputs.total - self.outputs.head) // self.outputs.length + 1
        stop = min(whole, (self.signal - self.tile - self.origin) // self.step + 1)
        return range(start, max(start, stop))

    def counts(self, rows: int, threads: int) -> BlockCounts:
        """Counts of a kernel with blocks of `threads` threads on `rows` channels."""
        inside = self.inside
        edge = (block for part in (range(inside.start), range(inside.stop, self.count)) for block in part)
        reads = len(inside) * self.tile + sum(len(self._in_signal(self.samples(block))) for block in edge)
        return BlockCounts(
            groups=rows * self.count,
            group_size=threads,
            work_items=rows * self.count * threads,
            local_elements=self.tile,
            global_reads=rows * reads,
            global_writes=rows * self.outputs.total,
            steps=1,
        )

    def _in_signal(self, samples: range) -> range:
        return range(max(samples.start, 0), min(samples.stop, self.signal))


@dataclasses.dataclass(frozen=True, slots=True)
class AddBlocks:
    """Blocks of overlap-add: disjoint slices of the samples, and the outputs to which each adds its sums.

    A block has `length * down` samples. Sum q of block b belongs to output `b * length + q + shift`, where that exists.
    """

    samples: Slices
    """Samples under the windows of a channel's outputs, counted from `base` on."""
    base: int
    """First sample under any window."""
    length: int
    """Outputs from the first of a block to the first of the next."""
    overlap: int
    """Sums of a block beyond the first of the next: taps - 1, if all outputs are kept."""
    before: int
    """Zeros before the first sample of a block under the window of sum 0; negative for samples that no window keeps."""
    shift: int
    outputs: int
    taps: int
    down: int

    @classmethod
    def of(cls, problem: Filter1d, length: int) -> AddBlocks:
        down, taps, first = problem.down, problem.taps, problem.first_lag
        base = max(0, first)
        last = first + (problem.result_length - 1) * down
        samples = Slices(min(problem.signal, last + taps) - base, length * down)
        # The windows of a block begin up to taps - 1 samples before it; `skipped` of these lags are not kept.
        skipped = (first - base + taps - 1) % down
        sums = ceil_div(length * down + taps - 1 - skipped, down)
        before = taps - 1 - skipped
        return cls(
            samples=samples,
            base=base,
            length=length,
            overlap=sums - length,
            before=before,
            shift=(base - before - first) // down,
            outputs=problem.result_length,
            taps=taps,
            down=down,
        )

    @property
    def count(self) -> int:
        """Blocks of a channel."""
        return self.samples.count

    @property
    def sums(self) -> int:
        """Sums of a block: its length + taps - 1, if all outputs are kept."""
        return self.length + self.overlap

    @property
    def tile(self) -> int:
        """Elements under the windows of a block's sums: its samples between zeros on both sides."""
        return (self.sums - 1) * self.down + self.taps

    @property
    def addends(self) -> int:
        """Most blocks that add to one output: the least number of steps."""
        return addends(self.length, self.overlap)

    def results(self, block: int) -> range:
        """Outputs to which a block adds."""
        start = block * self.length + self.shift
        return range(max(start, 0), max(0, min(start + self.sums, self.outputs)))

    def counts(self, rows: int, threads: int, steps: int) -> BlockCounts:
        """Counts of kernels with blocks of `threads` threads on `rows` channels, in `steps` launches.

        Every sum is added to the result: one that a kernel carries to its next block is not written there.
        """
        first = max(0, ceil_div(-self.shift, self.length))
        whole = range(first, max(first, (self.outputs - self.sums - self.shift) // self.length + 1))
        whole = range(min(whole.start, self.count), min(whole.stop, self.count))
        edge = (block for part in (range(whole.start), range(whole.stop, self.count)) for block in part)
        writes = len(whole) * self.sums + sum(len(self.results(block)) for block in edge)
        return BlockCounts(
            groups=rows * self.count,
            group_size=threads,
            work_items=rows * self.count * threads,
            local_elements=self.tile,
            global_reads=rows * self.samples.total,
            global_writes=rows * writes,
            steps=steps,
        )
