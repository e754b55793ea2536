"""The gradient of weights of `conv2d_pointwise` and `conv2d_gather`: search space, default config and program."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import BLOCKS, OTHER_REGISTERS, STAGES
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import (
    LEAST,
    PIXELS,
    SUM_LANES,
    TAP_BYTES,
    PointwiseWeightGeometry,
    stage_floats,
)
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, PARTS
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WARPS = (1, 2, 4, 8)
ROWS, COLUMNS = (16, 32, 64), (8, 16, 32, 64)
MOST_WARPS = 8
SPLITS = tuple(range(1, 529))
MOST_PIXELS = 1 << 15
"""Most pixels of a sum that stays in the tensor cores (one product). They truncate it 4,096 times then, by 2^-25 of it
in the mean: 1.2e-4, where TF32 allows 1e-3.
"""
STARTS = 5
"""Start configs of a search: the tiles that are expected to be next."""
TILE_SIZES = (
    *((4, 2, 64, 32), (2, 4, 64, 32), (2, 2, 64, 32), (4, 1, 64, 32), (1, 4, 64, 32), (2, 1, 64, 32), (1, 2, 64, 32)),
    *((4, 2, 32, 32), (2, 4, 32, 32), (2, 2, 32, 32), (4, 1, 32, 32), (1, 4, 32, 32), (2, 1, 32, 32), (1, 2, 32, 32)),
    *((4, 1, 32, 16), (2, 2, 16, 16), (4, 1, 16, 8), (1, 4, 16, 16), (2, 1, 16, 16), (1, 1, 32, 32), (1, 1, 16, 8)),
)
"""Candidate tiles: warps down and across a block, rows and columns of a warp."""
LARGE_TILES = (
    (2, 2, 64, 64),
    (1, 2, 64, 64),
    (2, 1, 64, 64),
    (1, 1, 64, 64),
    (1, 4, 64, 64),
    (4, 1, 64, 64),
    (2, 2, 32, 64),
)
"""More of them for one product, whose sums stay in the tensor cores: they load fewer numbers for each product."""
TAP_TILES = ((2, 2, 32, 16), (4, 1, 16, 32), (1, 2, 16, 16), (1, 4, 16, 8))
"""More of them where columns are taps: of 27 and few others, which warps share."""


def _has_taps(problem: Conv2d) -> bool:
    """Whether channels have several taps, which are then looked up and gathered."""
    return math.prod(problem.weight[2:]) > 1


def _part_constraints(problem: Conv2d) -> tuple[Constraint, ...]:
    """Parts of a sum: each has stages, all fit the workspace, and there are enough if sums stay in the tensor cores."""
    steps = -(-problem.input[0] * math.prod(problem.output_size) // PIXELS)
    weights, least = math.prod(problem.weight), _least_splits(problem)
    enough = Constraint(
        f"a sum that stays in the tensor cores has at most {MOST_PIXELS} pixels: at least {least} parts",
        lambda splits: splits >= least,
    )
    return (
        Constraint(
            f"each part of a sum of {steps} stages has stages of its own",
            lambda splits: (splits - 1) * -(-steps // splits) < steps,
        ),
        Constraint(
            f"partial sums take at most {problem.workspace_limit} bytes",
            lambda splits: splits == 1 or 4 * splits * weights <= problem.workspace_limit,
        ),
        *((enough,) if least > 1 else ()),
    )


def _least_splits(problem: Conv2d) -> int:
    """Fewest parts of a sum."""
    if Arithmetic.of(problem).parts > 1:
        return 1
    return -(-problem.input[0] * math.prod(problem.output_size) // MOST_PIXELS)


Model = Callable[[PointwiseWeightGeometry, Device], float]
"""Expected nanoseconds of a config."""
Tile = tuple[int, int, int, int]
"""Warps down and across a block, rows and columns of a warp."""


@functools.lru_cache(maxsize=256)
def _choices(side: PointwiseWeights, problem: Conv2d, device: Device) -> tuple[TimedConfig, ...]:
    """The best config of each tile, by expected time."""
    space = side.space(problem, device)

    def timed(config: Config) -> TimedConfig:
        return TimedConfig(config, side.model(side.kind.of(problem, config), device))

    of_tiles = (map(timed, _configs(side, problem, device, space, tile)) for tile in side.tiles(problem))
    best = (min(each, key=lambda one: one.ns, default=None) for each in of_tiles)
    found = sorted((each for each in best if each is not None), key=lambda each: each.ns)
    return tuple(found) or (timed(side.least(problem)),)


def _configs(side: PointwiseWeights, problem: Conv2d, device: Device, space: Space, tile: Tile) -> Iterator[Config]:
    """Each number of blocks with the most stages that fit, and parts of sums for a round of blocks or two."""
    for blocks in BLOCKS:
        chosen: dict[str, Value] = dict(zip(("down", "across", "rows", "columns"), tile, strict=True))
        chosen |= {"min_blocks": blocks, "splits": _least_splits(problem)}
        stages = next((each for each in side.stages if space.contains(Config.of({**chosen, "stages": each}))), None)
        if stages is None:
            continue
        one = side.kind.of(problem, Config.of({**chosen, "stages": stages}))
        for splits in _splits(one, device):
            config = Config.of({**chosen, "stages": stages, "splits": splits})
            if space.contains(config):
                yield config


def _splits(one: PointwiseWeightGeometry, device: Device) -> set[int]:
    """Parts of sums: as few as can be, and those for which all blocks are resident at once, or half of them."""
    found = {one.splits}
    for share in (1, 2, 4):
        wanted = max(1, device.multiprocessors * one.min_blocks // (share * one.tiles))
        steps = -(-one.steps // min(wanted, one.steps))
        found.add(min(-(-one.steps // steps), SPLITS[-1]))
    return found


class PointwiseWeights(LayerSide):
    """wgrad.

    Args:
        name: name of the family and its kernels.
        model: the family's expected times.
    """

    kind: ClassVar[type[PointwiseWeightGeometry]] = PointwiseWeightGeometry
    template: ClassVar[str] = "conv2d/pointwise_weight.cu.jinja"
    rows: ClassVar[tuple[int, ...]] = ROWS
    """Rows that a warp may have."""
    columns: ClassVar[tuple[int, ...]] = COLUMNS
    stages: ClassVar[tuple[int, ...]] = (4, 3, 2)
    """Stages of defaults, in order of preference."""
    begins_early: ClassVar[bool] = False
    """Whether launches begin before the one before them has ended, for which their kernels wait."""

    def __init__(self, name: str, model: Model) -> None:
        self._name, self.model = name, model

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if _least_splits(problem) > SPLITS[-1]:
            return f"has at most {SPLITS[-1]} parts of {MOST_PIXELS} pixels of a sum that stays in the tensor cores"
        return self.space(problem, device).why_not(self.least(problem))

    def space(self, problem: Conv2d, device: Device) -> Space:
        filters, (columns_word, all_columns) = problem.group_filters, self.all_columns(problem)
        needed, nbytes = self.needed_registers(problem), self.shared_bytes(problem)

        def has_registers(down: int, across: int, rows: int, columns: int, min_blocks: int) -> bool:
            return needed(rows, columns) <= self.thread_registers(device, down * across, min_blocks)

        def fits(down: int, across: int, rows: int, columns: int, stages: int, min_blocks: int) -> bool:
            share = device.shared_per_multiprocessor_bytes // min_blocks - device.limits.reserved_shared_bytes
            return nbytes(down * rows, across * columns, stages) <= min(device.shared_per_block_bytes, share)

        return Space(
            parameters=(
                Parameter("down", WARPS, "warps of a block, below each other: in channels of dy"),
                Parameter("across", WARPS, f"warps of a block, side by side: in {columns_word}"),
                Parameter("rows", self.rows, "channels of dy of a warp"),
                Parameter("columns", self.columns, f"{columns_word} of a warp"),
                Parameter("stages", STAGES, "of pixels: one is multiplied, the others are on their way"),
                Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
                Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
            ),
            constraints=(
                Constraint(f"a block has at most {MOST_WARPS} warps", lambda down, across: down * across <= MOST_WARPS),
                Constraint(
                    f"a tile has less than twice the {filters} channels of dy, or {self.rows[0]}",
                    lambda down, rows: down * rows < max(2 * filters, self.rows[0] + 1),
                ),
                Constraint(
                    f"a tile has less than twice the {all_columns} {columns_word}, or {self.columns[0]}",
                    lambda across, columns: across * columns < max(2 * all_columns, self.columns[0] + 1),
                ),
                Constraint(
                    "the threads of all blocks of a multiprocessor have registers for their sums", has_registers
                ),
                Constraint(
                    f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, and all blocks of a "
                    f"multiprocessor {device.shared_per_multiprocessor_bytes}",
                    fits,
                ),
                *_part_constraints(problem),
            ),
        )

    def all_columns(self, problem: Conv2d) -> tuple[str, int]:
        """What a column of a tile is, in the plural, and how many there are."""
        return ("taps of channels of x" if _has_taps(problem) else "channels of x"), math.prod(problem.weight[1:])

    def needed_registers(self, problem: Conv2d) -> Callable[[int, int], int]:
        """Registers per thread of a warp's rows and columns, roughly: their sums, both factors of a product by their
        parts, and sums of 16 rows where they leave the tensor cores.
        """
        parts = Arithmetic.of(problem).parts
        promotes = parts > 1
        return lambda rows, columns: (
            rows * columns // 32 + promotes * (columns // 2 + 16) + parts * columns // 4 + OTHER_REGISTERS
        )

    def thread_registers(self, device: Device, warps: int, blocks: int) -> int:
        """Registers that a thread may have if so many blocks of so many warps share a multiprocessor."""
        return device.thread_registers(32 * warps * blocks)

    def shared_bytes(self, problem: Conv2d) -> Callable[[int, int, int], int]:
        """Bytes of shared memory of a block by the rows and columns of its tile, and its stages."""
        place_bytes = TAP_BYTES if _has_taps(problem) else 0
        is_last = problem.layout is ImageLayout.NHWC
        return lambda rows, columns, stages: 4 * stages * stage_floats(rows, columns, is_last) + place_bytes * columns

    def tiles(self, problem: Conv2d) -> tuple[Tile, ...]:
        """Candidates for defaults."""
        large = LARGE_TILES if Arithmetic.of(problem).parts == 1 else ()
        return (*TILE_SIZES, *(TAP_TILES if _has_taps(problem) else large))

    def least(self, problem: Conv2d) -> Config:
        """The config that takes least memory. If it is illegal for a layer, all configs are."""
        least = {**LEAST, "rows": self.rows[0], "columns": self.columns[0]}
        return Config.of({**least, "splits": _least_splits(problem)})

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _choices(self, problem, device)[0].config

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return tuple(each.config for each in _choices(self, problem, device)[1 : 1 + STARTS])

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return _choices(self, problem, device)[0].ns

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry, text = self.kind.of(problem, config), Conv2dText.of(problem)
        is_split = geometry.splits > 1
        target = PARTS if is_split else "dw"
        source = render(self.template, p=text, g=geometry, config=config.key(), target=target, name=self._name)
        arguments = (*geometry.operands, Pointer(target))
        launch = dataclasses.replace(
            Launch.of_blocks(self._name, geometry.blocks, geometry.threads, arguments),
            shared_bytes=geometry.shared_bytes,
            begins_early=self.begins_early,
        )
        if not is_split:
            return Program.of_source(self._name, config, source, (launch,))
        total, add = self._summing(problem, geometry)
        steps = (dataclasses.replace(launch, unit=MAIN), add)
        parts = Workspace(PARTS, 4 * geometry.splits * geometry.weights)
        return Program(self._name, config, (Unit(MAIN, source), total), steps, (parts,))

    def _summing(self, problem: Conv2d, geometry: PointwiseWeightGeometry) -> tuple[Unit, Launch]:
        """Unit and launch of the kernel that adds up parts of sums."""
        name, threads = f"{self._name}_sum", SUM_LANES * geometry.sum_groups
        blocks = -(-geometry.weights // SUM_LANES)
        launch = Launch.of_blocks(name, blocks, threads, (Pointer(PARTS), Pointer("dw")))
        source = render(
            "conv2d/pointwise_sum.cu.jinja",
            key=text_key(problem),
            g=geometry,
            lanes=SUM_LANES,
            name=self._name,
            early=self.begins_early,
        )
        return Unit("sum", source), dataclasses.replace(launch, unit="sum", begins_early=self.begins_early)
