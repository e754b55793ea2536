"""A row of the image times all rows of the filter at once, by products of a warpgroup on Hopper's tensor cores.

Source: convolution as products with banded Toeplitz matrices; float32 from three products of tf32 numbers, which hold
11 bits each, and sums that leave the tensor cores after every row, since those round towards zero (Ootomo and Yokota
2022, "Recovering single precision accuracy from Tensor Cores", sections 3 and 4). Halves and bytes are tf32 numbers
already and take two products. A product sums over pixels that are not in every window, with weights of zero: where a
pixel is not a number or is infinite (as within 2^-12 of the largest float32), sums of its windows and up to 63 elements
beside them are not numbers. Unless a problem allows that, a warp that has had such sums computes them again, pixel by
pixel, after its strip.

The products and sums of many rows do not fit the registers of a thread. Then the rows are split into parts, and a
warpgroup walks down its strip once for each: the sums of the parts before lie in the result, as float32.

Outputs whose windows reach outside the image are computed by blocks of their own, or by the same warps as all others,
which then load rows as the border continues them (`Frame`); those of a filter in parts always by blocks of their own.
"""

from __future__ import annotations

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.families.filter2d_interior import reach
from warpsmith.generator.families.filter2d_text import (
    DEFAULT_REACH,
    Filter2dText,
    MemoryPath,
    Weights,
    filter2d_arguments,
    filter2d_constants,
    literals,
    require_filter2d,
    words,
)
from warpsmith.generator.families.filter2d_warpgroup_frame import (
    frame_parameters,
    frame_rules,
    frames,
    has_loads,
    likely_frame,
    warps_wave,
)
from warpsmith.generator.families.filter2d_warpgroup_geometry import (
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
from warpsmith.generator.families.filter2d_warpgroup_limits import (
    STATIC_SHARED_BYTES,
    fits,
    limit_rules,
    parts_choices,
    shared_bytes,
    thread_registers,
    weights_choices,
)
from warpsmith.generator.families.filter2d_window_geometry import StoreHint
from warpsmith.generator.families.filter2d_window_walks import wave
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.separable import separable_terms
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MAX_DEPTH = 64
"""Pixels that the products of a row sum over, at most: filters of 57 columns."""
STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
RESIDENT = range(1, 9)
"""Warpgroups that a multiprocessor may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep a multiprocessor busy, each with products of two rows under way."""
LIKELY_WALK = 1.5
"""Rows of results in a strip, for each row of the filter, from which on the winners of 33 searches are warpgroups."""
LIKELY_ROWS = 7
"""Of the smallest filter that the shipped winners leave to this family (H200, 9216x9216 float32)."""
SEPARABLE_RESIDENT = 2
"""And where those are few, as for a known Gaussian 15x15: 193 us, with three 204 (H200)."""

LITERALS_ARE_WHOLE = Constraint(
    "literal weights are those of the whole filter", lambda weights, parts: parts == 1 or weights != Weights.LITERAL
)


class Filter2dWarpgroup(Family):
    """`filter2d` by wgmma instructions: 64 segments of a row of the image times a filter's Toeplitz matrix."""

    name = "filter2d_warpgroup"
    default_reach = DEFAULT_REACH

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
            who, columns = ("warp", WARP_COLUMNS) if has_loads(problem) else ("warpgroup", COLUMNS)
            return f"a {who} computes {columns} elements of a row; the image is too small"
        if not weights_choices(problem):
            return f"a filter of {problem.filter[0]} rows does not fit the registers of a thread and shared memory"
        return None

    def is_likely(self, problem: Problem, device: Device) -> bool:
        """It won from 7x7 on: on the CPU, where its products are loops, nothing is known.

        Only images are likely that fill the device with strips of LIKELY_WALK times as many rows as the filter has: of
        a small one more rows are read twice than once, and 9x9 on 777x1555 takes 14 us where the window takes 9, 11x11
        on 1080x1920 20 and 16 (H200).
        """
        filter2d = require_filter2d(problem)
        if device.kind is not DeviceKind.CUDA or filter2d.filter[0] < LIKELY_ROWS:
            return False
        walk = _wave(filter2d, device, AHEAD_RESIDENT, likely_frame(filter2d))
        return walk >= LIKELY_WALK * filter2d.filter[0]

    def space(self, problem: Problem, device: Device) -> Space:
        filter2d = require_filter2d(problem)
        framed, in_parts = frame_parameters(filter2d), _parts_parameter(filter2d)
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.ASYNC,)), "how pixels come from the image to a thread"),
                Parameter("weights", words(weights_choices(filter2d)), "where weights lie; literals: separable passes"),
                *framed,
                *in_parts,
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
                *(LITERALS_ARE_WHOLE for _ in in_parts),
                *limit_rules(filter2d, device, tuple(each.name for each in (*framed, *in_parts))),
                Constraint(
                    "a block is at most 4 warpgroups, so that several are resident at once",
                    lambda block_groups, block_strips: block_groups * block_strips <= 4,
                ),
                *frame_rules(filter2d),
            ),
        )

    def default(self, problem: Problem, device: Device) -> Config:
        """One warpgroup a block, in a single wave; products a row ahead where AHEAD_RESIDENT of them have room.

        A filter has as few parts as fit the registers and shared memory.
        """
        filter2d = require_filter2d(problem)
        choices = weights_choices(filter2d)
        weights = Weights.LITERAL if Weights.LITERAL in choices else choices[0]
        registers = device.registers_per_multiprocessor // 128  # for one thread of each warpgroup
        parts = next(each for each in parts_choices(filter2d) if fits(filter2d, weights, each))
        frame = likely_frame(filter2d)
        ahead = int(registers // thread_registers(filter2d, weights, 1, frame, parts) >= AHEAD_RESIDENT)
        if ahead:
            resident = SEPARABLE_RESIDENT if weights is Weights.LITERAL else AHEAD_RESIDENT
        else:
            resident = registers // thread_registers(filter2d, weights, frame=frame, parts=parts)
        depths = (11, 5, 3, 2) if ahead else (5, 3, 2)
        fitting = (each for each in depths if shared_bytes(filter2d, weights, each, parts=parts) <= STATIC_SHARED_BYTES)
        return Config.of(
            ({"frame": frame.value} if frame_parameters(filter2d) else {})
            | {each.name: parts for each in _parts_parameter(filter2d)}
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


def _parts_parameter(problem: Filter2d) -> tuple[Parameter, ...]:
    """None for a filter that is never split, so that its configs are those of the versions that knew no parts."""
    choices = parts_choices(problem)
    return () if choices == (1,) else (Parameter("parts", choices, "walks down a strip, each for some filter rows"),)
