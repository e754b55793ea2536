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

from math import ceil

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.filter2d.problem import Filter2d, reach
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
from warpsmith.generator.filter2d.warpgroup_frames import (
    frame_parameters,
    frame_rules,
    frames,
    has_loads,
    likely_frame,
)
from warpsmith.generator.filter2d.warpgroup_geometry import (
    COLUMNS,
    MIN_COPY_BYTES,
    SEGMENT,
    THREAD_COLUMNS,
    WARP_COLUMNS,
    Alignment,
    Filter2dWarpgroupGeometry,
    Frame,
    depth,
    dynamic_shared_bytes,
    frame_of,
    has_shared,
    limit_rules,
    parts_choices,
    weights_choices,
)
from warpsmith.generator.filter2d.warpgroup_walk import (
    AHEAD_RESIDENT,
    RESIDENT,
    STRIPS,
    least_parts,
    likely_walk,
    likely_weights,
    strips,
    warpgroup_ns,
    wave_rows,
)
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.filter2d.window_shapes import window_ns
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

BLOCKS = (0, 1, 2, 3, 4, 5, 6)
"""Bounds on the blocks that must fit an SM; 0 is none."""
MAX_DEPTH = 64
"""Most pixels that the products of a row sum over: filters of 57 columns."""
LIKELY_WALK = 1.5
"""Least rows of a strip, per row of the filter, from which on this family won (33 searches)."""
ALWAYS_LIKELY, ALWAYS_LIKELY_FLOAT32 = 12, 16
"""Least rows of a filter for which the expected times decide on images of any size, by 16 and 8 bits and by float32. In
float32, defaults of 13x13 and 15x15 took 1.6 to 3.6 times as long as those of `filter2d_window` on 160x120 to 1920x1080
(12 images, H200, 2026-12-01), where that family was expected to take 2.1 to 3.9 times as long as it does."""
LIKELY_ROWS = 2
"""Rows of the smallest filter for which this family wins, if the filter is wide: 3x31 on 9216x9216 float32 takes 271
us, `filter2d_window` 330 (H200)."""

MARGIN = 1.15
"""Factor of the expected time of `filter2d_window` below which this family is the faster one: with it the choice is
right for 103 of 103 filters, up to 1.03 times, with 1 for 97 (H200, 2026-11-30)."""

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
        """True from LIKELY_ROWS on, on images large enough, if `filter2d_window` is expected to take longer, but
        for MARGIN.

        It is False on the CPU, where the products are loops.

        Filters of fewer rows than `ALWAYS_LIKELY` need an image that fills the device with strips of LIKELY_WALK times
        as many rows. On a smaller image more rows are read twice than once: 9x9 on 777x1555 takes 14 us where
        `filter2d_window` takes 9, and 11x11 on 1080x1920 takes 20 and 16 (H200).
        """
        if device.kind is not DeviceKind.CUDA or problem.filter[0] < LIKELY_ROWS:
            return False
        walk = wave_rows(problem, device, AHEAD_RESIDENT, likely_frame(problem))
        always = ALWAYS_LIKELY_FLOAT32 if problem.dtype is DType.FLOAT32 else ALWAYS_LIKELY
        if problem.filter[0] < always and walk < LIKELY_WALK * problem.filter[0]:
            return False
        return warpgroup_ns(problem, device) < MARGIN * window_ns(problem, device)

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
                Parameter("min_blocks", BLOCKS, "blocks that must fit a multiprocessor; 0: any"),
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

        Two warpgroups that share an SM make one block if the image has an even number across, or any where loads make
        the border, which keeps them side by side (21x21 on 1080x1920: 50 us, as two blocks 59; 57x24 on 2987x1613: 242
        and 252, H200). A bound on registers lets as many blocks share an SM as the walk has in mind: without it 44x48
        has 170 registers, two blocks of three fit, and it takes 892 us for 646 (H200).
        """
        weights = likely_weights(problem, device)
        parts = least_parts(problem, device, weights)
        frame = likely_frame(problem)
        walk = likely_walk(problem, device, weights, frame, parts)
        depths = (11, 5, 3, 2) if walk.ahead else (5, 3, 2)

        def prefetch(groups: int) -> int | None:
            return next((each for each in depths if has_shared(problem, device, weights, each, groups, parts)), None)

        across = ceil(problem.output_shape[1] * problem.channels / COLUMNS)
        is_pair = walk.resident % 2 == 0 and (across % 2 == 0 or frame is Frame.LOADS)
        groups = 2 if is_pair and prefetch(2) else 1
        blocks = walk.resident // groups
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
                "min_blocks": blocks if blocks in BLOCKS[2:] else 0,
                "store": StoreHint.PLAIN.value,
            }
        )

    def scaled(self, config: Config, home: Subject[Filter2d], problem: Filter2d, device: Device) -> Config:
        """`config` with rows that keep strips of a single wave in a single wave.

        It is the default where the frame is computed in another way, since that decides what fits an SM.
        """
        rows, there, here = config.integer("rows"), home.problem, problem
        # A problem without a choice of frame drops it; a config from a problem without one gets the default.
        has_choice = "frame" in config.values() and frame_parameters(here)
        frame = frame_of(config) if has_choice else likely_frame(here)
        if frame is not frame_of(config):
            return self.default(here, device)
        if rows in STRIPS:
            return config
        fitting = (each for each in RESIDENT if wave_rows(there, home.device, each, frame) == rows)
        resident = next(fitting, AHEAD_RESIDENT)
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
