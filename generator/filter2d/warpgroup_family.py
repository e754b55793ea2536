"""A row of the image times all rows of the filter at once, by wgmma products on Hopper's tensor cores.

Source: convolution as products with banded Toeplitz matrices. float32 takes three products of tf32 numbers, which hold
11 bits each. Its sums leave the tensor cores after every row, since those round towards zero (Ootomo and Yokota 2022,
"Recovering single precision accuracy from Tensor Cores", sections 3 and 4). float16 and uint8 pixels are exact as tf32
and take two products. A product also sums over pixels outside a window, with weights of zero. A NaN or infinite pixel
(or one within 2^-12 of the largest float32) therefore makes NaN of the sums of its windows and of up to 63 elements
beside them. Unless a problem allows that, a warp with such sums computes them again, pixel by pixel, after its strip.

The products and sums of many rows do not fit the registers of a thread. The rows are then split into parts, and a
warpgroup walks down its strip once per part. The result holds the sums of earlier parts, as float32. If the result has
a narrower type, products are made in batches instead, one after the other for each row of the image.

Separate blocks compute the outputs whose windows reach outside the image. Alternatively the warps of all other outputs
compute them too, and load rows as the border continues them (`Frame`); a filter in parts always has separate blocks.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.filter2d.problem import Border, Filter2d, outside, reach, rows_inside
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.filter2d.text import (
    DEFAULT_REACH,
    Filter2dText,
    MemoryPath,
    Weights,
    filter2d_arguments,
    filter2d_constants,
    literals,
    too_many_weights,
)
from warpsmith.generator.filter2d.warpgroup_geometry import (
    COLUMNS,
    MIN_COPY_BYTES,
    SEGMENT,
    STEP,
    THREAD_COLUMNS,
    WARP_COLUMNS,
    WHOLE_ROWS,
    Alignment,
    Filter2dWarpgroupGeometry,
    Frame,
    batches,
    depth,
    dynamic_shared_bytes,
    fits,
    frame_of,
    has_shared,
    limit_rules,
    matrix_rows,
    part_rows,
    parts_choices,
    thread_registers,
    weights_choices,
)
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.filter2d.window_shapes import copy_ns, window_ns
from warpsmith.generator.filter2d.window_walks import wave
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

LEAST_DEPTH = 8
"""Least elements that products sum over: those of a filter of one column, whose border loads cannot make."""
EDGE_DEPTH = 32
"""Most elements that products sum over if loads make the border: a thread then copies at most two single elements of a
row."""
LOADS_COST = 1.08
"""Relative cost of an output if loads make the border: 471 us, where separate blocks take 440 (H200, 15x15 on
9216x9216)."""
FRAME_TAP_COST = 0.9
"""Cost of one tap of an output of the frame, relative to a filter row of an output of the products. The frame takes
59 us for 31x31 on 4096x4096, and 10 us for 15x15 on 9216x9216 (H200)."""
FRAME_START = 5_000_000
"""Fixed cost of separate blocks for the frame, in the same unit: 1.3 us. With them 7x7 on 2000x3000 takes 24 us, by
loads 19; 9x9 on 4096x4096 takes 50 us with them, the best that was found (H200)."""
START_ROWS = 16
"""Rows that a warpgroup could walk while it splits the weights and waits for its first rows."""
MAX_WAVES = 8
"""Most waves of blocks, for images whose strips of full height already make more than one."""
LEAST_WALK = 8
"""Least rows of a strip; a filter of 9 rows then loads twice what it computes."""


def frames(problem: Filter2d) -> tuple[Frame, ...]:
    """The ways to compute the frame; empty if the result is too narrow for all of them.

    Valid results have no frame. Loads go beyond a row of them only if the result is too narrow for a warpgroup.
    """
    apart = (Frame.APART,) if Alignment.of(problem).has_interior(problem) else ()
    if apart and problem.border is Border.VALID:
        return apart
    columns = problem.output_shape[1] * problem.channels
    return (*apart, Frame.LOADS) if has_loads(problem) and columns >= WARP_COLUMNS else apart


def has_loads(problem: Filter2d) -> bool:
    """True if loads can make the border of a result of any width.

    An asynchronous copy has at least 4 bytes, so elements of 2 bytes and 1 byte cannot be copied one by one. Strips
    that overlap would add the sums of parts twice, so separate blocks compute the frame of a filter that may have
    parts. Filters of one column read no elements beside a warp's own, and the code of the loads has arrays of those.
    """
    has_edges = LEAST_DEPTH < depth(problem) <= EDGE_DEPTH
    return problem.dtype is DType.FLOAT32 and has_edges and problem.filter[0] <= WHOLE_ROWS


def frame_parameters(problem: Filter2d) -> tuple[Parameter, ...]:
    """The parameter of how to compute the frame; none for a problem without loads, whose configs do not name it."""
    choices = frames(problem)
    meaning = "whether blocks of their own compute the frame, or loads make the border"
    return (Parameter("frame", words(choices), meaning),) if Frame.LOADS in choices else ()


def frame_rules(problem: Filter2d) -> tuple[Constraint, ...]:
    """Constraints that the choice of the frame puts on other parameters."""
    rule = Constraint(
        "where loads make the border, warps lie by themselves, in strips that lie within the result",
        lambda frame, rows, block_strips: (
            frame != Frame.LOADS or (block_strips == 1 and rows <= problem.output_shape[0])
        ),
    )
    return tuple(rule for _ in frame_parameters(problem))


def likely_frame(problem: Filter2d) -> Frame:
    """The way to compute the frame that takes less time, by estimate."""
    choices = frames(problem)
    if len(choices) == 1:
        return choices[0]
    alignment, (rows, columns) = Alignment.of(problem), problem.output_shape
    inside = rows_inside(problem, 1, 1)[1]
    across = alignment.last_column(problem) + COLUMNS - alignment.first_column
    taps = problem.filter[0] * problem.filter[1]
    frame = FRAME_START + outside(problem, inside, across) * taps * FRAME_TAP_COST
    apart = ceil(across / COLUMNS) * COLUMNS * inside * problem.filter[0] + frame
    loads = ceil(columns * problem.channels / WARP_COLUMNS) * WARP_COLUMNS * rows * problem.filter[0] * LOADS_COST
    return Frame.LOADS if loads < apart else Frame.APART


def warps_wave(problem: Filter2d, device: Device, resident: int) -> int:
    """Rows of a strip of WARP_COLUMNS with which the warps of all planes walk the fewest rows one after the other, at
    `resident` warpgroups per SM.
    """
    rows, resident_warps = problem.output_shape[0], 4 * resident * device.multiprocessors
    across = ceil(problem.output_shape[1] * problem.channels / WARP_COLUMNS) * problem.planes
    most = max(1, rows // LEAST_WALK)
    choices = {min(most, max(1, waves * resident_warps // across)) for waves in range(1, MAX_WAVES + 1)}
    walked = {
        strips: ceil(across * strips / resident_warps) * (ceil(rows / strips) + problem.filter[0] - 1 + START_ROWS)
        for strips in sorted(choices)
    }
    return ceil(rows / min(walked, key=walked.__getitem__))


STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
RESIDENT = range(1, 9)
"""Warpgroups that an SM may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep an SM busy, each with products of two rows in flight."""
SEPARABLE_RESIDENT = 2
"""Warpgroups that keep an SM busy with the few products of a separable filter: a known Gaussian 15x15 takes 193 us,
with three 204 (H200)."""
AHEAD_REGISTERS = 180
"""Most registers of a thread for which products of two rows in flight pay: 11x11, whatever the type."""
AHEAD_REGISTERS_FLOAT32 = 232
"""The same for float32 images, whose third product keeps two warpgroups busy: up to 13x13. 15x15 spills."""
AHEAD_RATE = 1.1
"""Speedup of products of two rows in flight over one row: 1.05 (9x9) to 1.14 (11x11) in single waves (H200)."""
BUSY = {Frame.APART: 0.8, Frame.LOADS: 0.2}
"""Exponent of the rate of an SM as a power of its occupied share of warpgroup slots. Blocks that fill two slots of
three leave some SMs with three warpgroups and some with one: 15x15 on 9216x9216 reaches 0.70 of the rate, 13x13 on
2000x3000 0.75. Half of the slots give 0.53 (21x21). If loads make the border, each warp has its own strip: two slots of
three give 1.04, one 0.78 (15x15 on 2000x3000 and 777x1555, H200)."""


class WarpgroupWalk(NamedTuple):
    """Height of strips, and the warpgroups that walk down them."""

    ahead: int
    """Rows whose products are in flight while those of another row are added."""
    resident: int
    """Warpgroups per SM."""
    rows: int
    """Rows of a strip."""


def strips(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """STRIPS, and the heights that make as many warpgroups as the device holds at once."""
    waves = {wave_rows(problem, device, resident, frame) for resident in RESIDENT for frame in frames(problem)}
    return tuple(sorted({*STRIPS, *waves}))


def wave_rows(problem: Filter2d, device: Device, resident: int, frame: Frame) -> int:
    """Rows of a strip with about `resident` warpgroups per SM, in a single wave."""
    if frame is Frame.LOADS:
        return warps_wave(problem, device, resident)
    return max(STRIPS[0], wave(problem, device, COLUMNS, resident))


def likely_walk(problem: Filter2d, device: Device, weights: Weights, frame: Frame, parts: int) -> WarpgroupWalk:
    """The fastest walk, by estimate: few warpgroups with long strips read few rows twice, many keep the SM busier.

    On a tie, fewer rows in flight win, then fewer warpgroups.
    """
    ways = []
    for ahead in (0, 1):
        registers = thread_registers(problem, weights, ahead, frame, parts)
        limit = AHEAD_REGISTERS_FLOAT32 if problem.dtype is DType.FLOAT32 else AHEAD_REGISTERS
        if ahead and (registers > limit or batches(problem, weights) > 1):
            continue
        places = device.registers_per_multiprocessor // 128 // registers  # a warpgroup has 128 threads
        most = RESIDENT[-1] if not ahead else SEPARABLE_RESIDENT if weights is Weights.LITERAL else AHEAD_RESIDENT
        places = max(1, min(places, most))
        for resident in range(1, places + 1):
            rows = wave_rows(problem, device, resident, frame)
            rate = (resident / places) ** BUSY[frame] * (AHEAD_RATE if ahead else 1.0)
            walked = rows + part_rows(problem, parts) - 1
            waves = ceil(_warpgroups(problem, rows, frame) / (resident * device.multiprocessors))
            ways.append((waves * resident * walked / rate, WarpgroupWalk(ahead, resident, rows)))
    return min(ways, key=lambda way: way[0])[1]


def _warpgroups(problem: Filter2d, rows: int, frame: Frame) -> float:
    """Warpgroups of all planes with strips of `rows` rows; with Frame.LOADS a warp counts as a quarter."""
    columns = problem.output_shape[1] * problem.channels
    down = ceil(problem.output_shape[0] / rows) * problem.planes
    if frame is Frame.LOADS:
        return ceil(columns / WARP_COLUMNS) * down / 4
    return ceil(columns / COLUMNS) * down


ROW_NS = {DType.FLOAT32: (10.0, 2.0, 0.5), DType.FLOAT16: (7.0, 2.0, 0.33), DType.UINT8: (7.0, 2.0, 0.33)}
"""Nanoseconds of an SM for a row of a warpgroup, if n instructions sum over its pixels: the first figure times n and
the second for each filter row of a part, and the third times n^3 beside them (fitted to 104 filters, H200)."""
LEAST_COPIES = 1.1
"""Time of a filter of few taps over that of a copy: 3x3 to 7x3 on 3000x3000 take 24 to 29 us, a copy 22 (H200)."""
FRAME_TAP_NS = 2.4e-4
"""Nanoseconds of a tap of an output of the frame: 59 us for 31x31 on 4096x4096 (H200)."""


def warpgroup_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds that the products and the frame of the default take."""
    choices = weights_choices(problem, device)
    weights = Weights.LITERAL if Weights.LITERAL in choices else choices[0]
    parts, frame = _least_parts(problem, device, weights), likely_frame(problem)
    walk, each = likely_walk(problem, device, weights, frame, parts), part_rows(problem, parts)
    waves = ceil(_warpgroups(problem, walk.rows, frame) / (walk.resident * device.multiprocessors))
    steps, (by_step, by_row, beside) = depth(problem) // STEP, ROW_NS[problem.dtype]
    rows = matrix_rows(problem, weights, parts) * batches(problem, weights)
    row_ns = rows * (by_step * steps + by_row) + beside * steps**3
    products_ns = waves * walk.resident * parts * (walk.rows + each - 1) * row_ns
    apart = outside(problem, rows_inside(problem, 1, 1)[1], problem.output_shape[1] * problem.channels - depth(problem))
    frame_ns = 0.0 if frame is Frame.LOADS else apart * prod(problem.filter) * FRAME_TAP_NS
    return max(device.rates.cycle_ratio * (products_ns + frame_ns), LEAST_COPIES * copy_ns(problem, device))


def _least_parts(problem: Filter2d, device: Device, weights: Weights) -> int:
    """The fewest parts of the filter that fit the registers and shared memory."""
    return next(each for each in parts_choices(problem, device) if fits(problem, device, weights, each))


MAX_DEPTH = 64
"""Most pixels that the products of a row sum over: filters of 57 columns."""
LIKELY_WALK = 1.5
"""Least rows of a strip, per row of the filter, from which on this family won (33 searches)."""
ALWAYS_LIKELY = 12
"""Least rows of a filter for which this family wins on images of any size: 13x13 on 1080x1920 takes 20 us,
`filter2d_window` 31."""
LIKELY_ROWS = 2
"""Rows of the smallest filter for which this family wins, if the filter is wide: 3x31 on 9216x9216 float32 takes 271
us, `filter2d_window` 330 (H200)."""

LITERALS_ARE_WHOLE = Constraint(
    "literal weights are those of the whole filter", lambda weights, parts: parts == 1 or weights != Weights.LITERAL
)


class Filter2dWarpgroup(Family[Filter2d]):
    """`filter2d` by wgmma instructions: 64 segments of a row of the image times a filter's Toeplitz matrix."""

    name = "filter2d_warpgroup"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if reason := too_many_weights(problem):
            return reason
        if (why_not := device.why_no_tensor_instruction(TensorType.TF32, WARPGROUP)) is not None:
            return why_not
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
        if not weights_choices(problem, device):
            return f"a filter of {problem.filter[0]} rows does not fit the registers of a thread and shared memory"
        return None

    def is_likely(self, problem: Filter2d, device: Device) -> bool:
        """True from LIKELY_ROWS on, on images large enough, if `filter2d_window` is expected to take longer.

        It is False on the CPU, where the products are loops.

        Filters of fewer rows than ALWAYS_LIKELY need an image that fills the device with strips of LIKELY_WALK times as
        many rows. On a smaller image more rows are read twice than once: 9x9 on 777x1555 takes 14 us where
        `filter2d_window` takes 9, and 11x11 on 1080x1920 takes 20 and 16 (H200).
        """
        if device.kind is not DeviceKind.CUDA or problem.filter[0] < LIKELY_ROWS:
            return False
        walk = wave_rows(problem, device, AHEAD_RESIDENT, likely_frame(problem))
        if problem.filter[0] < ALWAYS_LIKELY and walk < LIKELY_WALK * problem.filter[0]:
            return False
        return warpgroup_ns(problem, device) < window_ns(problem, device)

    def space(self, problem: Filter2d, device: Device) -> Space:
        framed, in_parts = frame_parameters(problem), _parts_parameter(problem, device)
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.ASYNC,)), "how pixels come from the image to a thread"),
                Parameter(
                    "weights", words(weights_choices(problem, device)), "where weights lie; literals: separable passes"
                ),
                *framed,
                *in_parts,
                Parameter("rows", strips(problem, device), "output rows a warpgroup walks down"),
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
                *limit_rules(problem, device, tuple(each.name for each in (*framed, *in_parts))),
                Constraint(
                    "a block is at most 4 warpgroups, so that several are resident at once",
                    lambda block_groups, block_strips: block_groups * block_strips <= 4,
                ),
                *frame_rules(problem),
            ),
        )

    def default(self, problem: Filter2d, device: Device) -> Config:
        """The likeliest walk, with as many rows read ahead as shared memory has room for.

        Two warpgroups that share an SM make one block, which keeps them side by side (21x21 on 1080x1920: 50 us, as two
        blocks 59; H200).
        """
        choices = weights_choices(problem, device)
        weights = Weights.LITERAL if Weights.LITERAL in choices else choices[0]
        parts = _least_parts(problem, device, weights)
        frame = likely_frame(problem)
        walk = likely_walk(problem, device, weights, frame, parts)
        depths = (11, 5, 3, 2) if walk.ahead else (5, 3, 2)

        def prefetch(groups: int) -> int | None:
            return next((each for each in depths if has_shared(problem, device, weights, each, groups, parts)), None)

        across = ceil(problem.output_shape[1] * problem.channels / COLUMNS)
        is_pair = walk.resident == 2 and not walk.ahead and across % 2 == 0 and parts_choices(problem, device) == (1,)
        groups = 2 if is_pair and prefetch(2) else 1
        return Config.of(
            ({"frame": frame.value} if frame_parameters(problem) else {})
            | {each.name: parts for each in _parts_parameter(problem, device)}
            | {
                "path": MemoryPath.ASYNC.value,
                "weights": weights.value,
                "rows": walk.rows,
                "columns": THREAD_COLUMNS,
                "ahead": walk.ahead,
                "prefetch": prefetch(groups) or 1,
                "block_groups": groups,
                "block_strips": 1,
                "min_blocks": 0,
                "store": StoreHint.PLAIN.value,
            }
        )

    def scaled(self, config: Config, home: Subject[Filter2d], problem: Filter2d, device: Device) -> Config:
        """`config` with rows that keep strips of a single wave in a single wave."""
        rows, there, here = config.integer("rows"), home.problem, problem
        if rows in STRIPS:
            return config
        fitting = (each for each in RESIDENT if wave_rows(there, home.device, each, frame_of(config)) == rows)
        resident = next(fitting, AHEAD_RESIDENT)
        # A problem without a choice of frame drops it; a config from a problem without one gets the default.
        has_choice = "frame" in config.values() and frame_parameters(here)
        frame = frame_of(config) if has_choice else likely_frame(here)
        return Config.of(config.values() | {"rows": wave_rows(here, device, resident, frame)})

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry, weights = Filter2dWarpgroupGeometry.of(problem, config), Weights.of(config)
        terms = separable_terms(problem) if weights is Weights.LITERAL else ()
        dynamic_bytes = dynamic_shared_bytes(problem, weights)
        source = render(
            "filter2d/warpgroup.cu.jinja",
            p=Filter2dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            terms=[literals(term) for term in terms],
            has_dynamic_shared=dynamic_bytes > 0,
        )
        launch = Launch(
            entry=self.name,
            grid=(geometry.blocks(problem.planes), 1, 1),
            block=(128 * geometry.block_groups, geometry.block_strips, 1),
            arguments=filter2d_arguments(weights),
            shared_bytes=dynamic_bytes,
            constants=filter2d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch,))


def _parts_parameter(problem: Filter2d, device: Device) -> tuple[Parameter, ...]:
    """The parameter of the number of parts; none for a filter that is never split, so that its configs equal those of
    versions before parts.
    """
    choices = parts_choices(problem, device)
    return () if choices == (1,) else (Parameter("parts", choices, "walks down a strip, each for some filter rows"),)
