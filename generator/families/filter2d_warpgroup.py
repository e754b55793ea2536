"""A row of the image times all rows of the filter at once, by products of a warpgroup on Hopper's tensor cores.

Source: convolution as products with banded Toeplitz matrices; float32 from three products of tf32 numbers, which hold
11 bits each, and sums that leave the tensor cores after every row, since those round towards zero (Ootomo and Yokota
2022, "Recovering single precision accuracy from Tensor Cores", sections 3 and 4). Halves and bytes are tf32 numbers
already and take two products. A product sums over pixels that are not in every window, with weights of zero: where a
pixel is not a number or is infinite (as within 2^-12 of the largest float32), sums of its windows and up to 31 elements
beside them are not numbers. Unless a problem allows that, a warp that has had such sums computes them again, pixel by
pixel, after its strip.

Outputs whose windows reach outside the image are computed by blocks of their own, or by the same warps as all others,
which then load rows as the border continues them (`Frame`).
"""

from __future__ import annotations

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.families.filter2d_interior import reach
from warpsmith.generator.families.filter2d_text import (
    Filter2dText,
    MemoryPath,
    Weights,
    filter2d_arguments,
    filter2d_constants,
    is_strict,
    literals,
    require_filter2d,
    words,
)
from warpsmith.generator.families.filter2d_warpgroup_frame import (
    EDGE_DEPTH,
    frame_parameters,
    frame_rules,
    frames,
    likely_frame,
    warps_wave,
)
from warpsmith.generator.families.filter2d_warpgroup_geometry import (
    BEFORE_LAST_SEGMENT,
    COLUMNS,
    MIN_COPY_BYTES,
    SEGMENT,
    THREAD_COLUMNS,
    WARP_COLUMNS,
    Alignment,
    Frame,
    Geometry,
    depth,
    frame_of,
)
from warpsmith.generator.families.filter2d_window_geometry import StoreHint
from warpsmith.generator.families.filter2d_window_rules import MAX_REGISTERS
from warpsmith.generator.families.filter2d_window_walks import wave
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.separable import separable_terms
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MAX_DEPTH = 32
"""Pixels that the products of a row sum over, at most: filters of 25 columns."""
STATIC_SHARED_BYTES = 48 * 1024
"""That a kernel can have without asking for more."""
STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
SPILLED = 12
"""Registers that a thread may be short of: what is not used within the loop is spilled, which one more warpgroup can
be worth."""
LEAST_REGISTERS = 64
"""Of a thread: with 56 ptxas lets the products of small filters wait for each other, with 40 it finds too few."""
LEAST_REGISTERS_AHEAD = 112
"""And with two rows of products: 96 are too few for 3x3 and 5x5."""
LOADS_REGISTERS = 6
"""That a thread needs besides where loads make the border: where a row of the image and its edges come from."""
RESIDENT = range(1, 9)
"""Warpgroups that a multiprocessor may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep a multiprocessor busy, each with products of two rows under way."""
LIKELY_ROWS = 7
"""Of the smallest filter that the shipped winners leave to this family (H200, 9216x9216 float32)."""
SEPARABLE_RESIDENT = 2
"""And where those are few, as for a known Gaussian 15x15: 193 us, with three 204 (H200)."""


class Filter2dWarpgroup(Family):
    """`filter2d` by wgmma instructions: 64 segments of a row of the image times a filter's Toeplitz matrix."""

    name = "filter2d_warpgroup"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        if device.kind is DeviceKind.CUDA and device.compute_capability != (9, 0):
            return "needs compute capability 9.0, whose warpgroups multiply matrices"
        if problem.filters > 1:
            return "applies one filter at a time"
        if problem.filter[0] == 1:
            return "adds up rows of products; the filter has one row"
        if Alignment.of(problem).copy_vector * problem.dtype.itemsize < MIN_COPY_BYTES:
            return "copies 4 bytes at a time or more, which the pitch of the rows does not keep aligned"
        if depth(problem) > MAX_DEPTH:
            return (
                f"a segment and its filter reach over {reach(problem, SEGMENT)} elements; products sum over {MAX_DEPTH}"
            )
        if not frames(problem):
            loads = problem.dtype is DType.FLOAT32 and depth(problem) <= EDGE_DEPTH
            who, columns = ("warp", WARP_COLUMNS) if loads else ("warpgroup", COLUMNS)
            return f"a {who} computes {columns} elements of a row; the image is too small"
        if not _weights(problem):
            return f"a filter of {problem.filter[0]} rows does not fit the registers of a thread"
        return None

    def is_likely(self, problem: Problem, device: Device) -> bool:
        """It won from 7x7 on: on the CPU, where its products are loops, nothing is known.

        Of images that are too narrow for a warpgroup only those are likely that fill the device with strips of more
        rows than are read twice: a small one is over before its weights are split.
        """
        filter2d = require_filter2d(problem)
        if device.kind is not DeviceKind.CUDA or filter2d.filter[0] < LIKELY_ROWS:
            return False
        return Frame.APART in frames(filter2d) or warps_wave(filter2d, device, AHEAD_RESIDENT) >= filter2d.filter[0]

    def space(self, problem: Problem, device: Device) -> Space:
        filter2d = require_filter2d(problem)
        framed = frame_parameters(filter2d)
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.ASYNC,)), "how pixels come from the image to a thread"),
                Parameter("weights", words(_weights(filter2d)), "where weights lie; literals: separable passes"),
                *framed,
                Parameter("rows", strips(filter2d, device), "output rows a warpgroup walks down"),
                Parameter("columns", (THREAD_COLUMNS,), "outputs of a thread, across"),
                Parameter("ahead", (0, 1), "rows whose products are under way while others are added"),
                Parameter("prefetch", (1, 2, 3, 4, 5, 7, 9, 11), "rows whose pixels are read ahead"),
                Parameter("block_groups", (1, 2, 3), "warpgroups across a block"),
                Parameter("block_strips", (1, 2), "warpgroups down a block, each with rows of its own"),
                Parameter("min_blocks", (0, 1, 2, 3, 4, 5, 6), "blocks that must fit a multiprocessor; 0: any"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=(
                Constraint(
                    f"weights and rows read ahead fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
                    lambda weights, prefetch, block_groups, block_strips: (
                        _shared_bytes(filter2d, Weights(weights), prefetch, block_groups * block_strips)
                        <= STATIC_SHARED_BYTES
                    ),
                ),
                Constraint(
                    "a block is at most 4 warpgroups, so that several are resident at once",
                    lambda block_groups, block_strips: block_groups * block_strips <= 4,
                ),
                *frame_rules(filter2d),
                Constraint(
                    "blocks that must fit a multiprocessor leave each thread most of the registers that it needs",
                    lambda weights, ahead, block_groups, block_strips, min_blocks, frame=Frame.APART: (
                        min(
                            MAX_REGISTERS,
                            device.registers_per_multiprocessor
                            // (128 * block_groups * block_strips * max(1, min_blocks)),
                        )
                        >= _least_registers(filter2d, Weights(weights), ahead, Frame(frame))
                    ),
                    ("weights", "ahead", "block_groups", "block_strips", "min_blocks", *(each.name for each in framed)),
                ),
            ),
        )

    def default(self, problem: Problem, device: Device) -> Config:
        """One warpgroup a block, in a single wave; products a row ahead where AHEAD_RESIDENT of them have room."""
        filter2d = require_filter2d(problem)
        choices = _weights(filter2d)
        weights = Weights.LITERAL if Weights.LITERAL in choices else choices[0]
        registers = device.registers_per_multiprocessor // 128  # for one thread of each warpgroup
        frame = likely_frame(filter2d)
        ahead = int(registers // _registers(filter2d, weights, 1, frame) >= AHEAD_RESIDENT)
        if ahead:
            resident = SEPARABLE_RESIDENT if weights is Weights.LITERAL else AHEAD_RESIDENT
        else:
            resident = registers // _registers(filter2d, weights, frame=frame)
        depths = (11, 5, 3, 2) if ahead else (5, 3, 2)
        fitting = (each for each in depths if _shared_bytes(filter2d, weights, each) <= STATIC_SHARED_BYTES)
        return Config.of(
            ({"frame": frame.value} if frame_parameters(filter2d) else {})
            | {
                "path": MemoryPath.ASYNC.value,
                "weights": weights.value,
                "rows": _wave(filter2d, device, resident, frame),
                "columns": THREAD_COLUMNS,
                "ahead": ahead,
                "prefetch": next(fitting, 1),
                "block_groups": 1,
                "block_strips": 1,
                "min_blocks": 0,
                "store": StoreHint.PLAIN.value,
            }
        )

    def scaled(self, config: Config, home: Subject, problem: Problem, device: Device) -> Config:
        """Strips of a single wave stay such."""
        rows, there, here = config.integer("rows"), require_filter2d(home.problem), require_filter2d(problem)
        if rows in STRIPS:
            return config
        fitting = (each for each in RESIDENT if _wave(there, home.device, each, frame_of(config)) == rows)
        resident = next(fitting, AHEAD_RESIDENT)
        # A frame that is no choice here is left out; where there was no choice, the default is taken.
        is_told = "frame" in config.values() and frame_parameters(here)
        frame = frame_of(config) if is_told else likely_frame(here)
        return Config.of(config.values() | {"rows": _wave(here, device, resident, frame)})

    def program(self, problem: Problem, config: Config) -> Program:
        filter2d = require_filter2d(problem)
        geometry, weights = Geometry.of(filter2d, config), Weights.of(config)
        terms = separable_terms(filter2d) if weights is Weights.LITERAL else ()
        source = render(
            "filter2d_warpgroup.cu.jinja",
            p=Filter2dText.of(filter2d),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            terms=[literals(term) for term in terms],
        )
        launch = Launch(
            entry=self.name,
            grid=(geometry.blocks(filter2d.planes), 1, 1),
            block=(128 * geometry.block_groups, geometry.block_strips, 1),
            arguments=filter2d_arguments(weights),
            constants=filter2d_constants(weights),
        )
        return Program(self.name, config, source, (launch,))


def strips(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """STRIPS, and those that make as many warpgroups as the device holds at once."""
    waves = {_wave(problem, device, resident, frame) for resident in RESIDENT for frame in frames(problem)}
    return tuple(sorted({*STRIPS, *waves}))


def _wave(problem: Filter2d, device: Device, resident: int, frame: Frame) -> int:
    """Rows of a strip that make about `resident` warpgroups a multiprocessor, in a single wave."""
    if frame is Frame.LOADS:
        return warps_wave(problem, device, resident)
    return max(STRIPS[0], wave(problem, device, COLUMNS, resident))


def _weights(problem: Filter2d) -> list[Weights]:
    """Where weights may lie, so that a thread's registers and a block's shared memory suffice."""
    choices = [Weights.ARGUMENT, Weights.CONSTANT, *([Weights.LITERAL] if separable_terms(problem) else [])]
    return [
        each
        for each in choices
        if _registers(problem, each) <= MAX_REGISTERS and _shared_bytes(problem, each, 1) <= STATIC_SHARED_BYTES
    ]


def _matrix_rows(problem: Filter2d, weights: Weights) -> int:
    """Rows of weights in matrix B: the filter's, or those of its separable terms."""
    return len(separable_terms(problem)) if weights is Weights.LITERAL else problem.filter[0]


def _shared_bytes(problem: Filter2d, weights: Weights, prefetch: int, warpgroups: int = 1) -> int:
    """Of a block: both halves of the Toeplitz matrix, and for each warp the rows read ahead and the one in
    use, and where it begins."""
    factors = 2 * 4 * depth(problem) * SEGMENT * _matrix_rows(problem, weights)
    ring = (prefetch + 1) * (BEFORE_LAST_SEGMENT + depth(problem)) * problem.dtype.itemsize
    first = 4 if is_strict(problem) else 0
    return factors + 4 * warpgroups * (ring + first)


def _least_registers(problem: Filter2d, weights: Weights, ahead: int, frame: Frame) -> int:
    """Of a thread, for products that do not wait for each other."""
    needed = _registers(problem, weights, ahead, frame)
    return max(needed, LEAST_REGISTERS_AHEAD) if ahead else max(needed - SPILLED, LEAST_REGISTERS)


def _registers(problem: Filter2d, weights: Weights, ahead: int = 0, frame: Frame = Frame.APART) -> int:
    """Registers of a thread: products and sums of four outputs a filter row, pixels; the rest read off ptxas."""
    parts = 2 if problem.dtype is DType.FLOAT32 else 1
    outputs = _matrix_rows(problem, weights) * (1 + ahead) + problem.filter[0] - 1
    loads = LOADS_REGISTERS if frame is Frame.LOADS else 0
    return 4 * outputs + depth(problem) // 2 * parts * (1 + ahead) + 20 + 4 * ahead + loads
