"""The image side of `conv2d_warpgroup_tf32` (fprop, dgrad): geometry, search space, model and program."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS, Sustained
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, multiplying
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry, Im2colImages, least_image
from warpsmith.generator.conv2d.products.wgmma.im2col_window import WindowStep, tensor_map_of, why_no_map
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import COLUMNS
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Pointer, Program, TensorMap, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Space
from warpsmith.generator.steps import aligned

NAME = "conv2d_warpgroup_tf32"
STAGE_CHANNELS = 32
"""Channels per copy: 128 bytes of a pixel, the widest swizzle. Four products sum over eight of them each."""
OPERAND_REGISTERS = 3 * STAGE_CHANNELS // 2
"""Registers of a thread for 16 pixels of a warp each: of the first step of a tile, of even and of odd steps."""
TF32_IMAGES = Sustained(
    tensor_share=2.4,
    step_cycles=237,
    l2_share=1.437,
    tile_cycles=0,
    column_cycles=9.7,
    latency_cycles=870,
    begin_ns=2780,
    memory=0.2,
)
"""Fitted to 135 times of 33 passes (H200, 2026-11-30): 8% off in the root mean square, and its choice takes 1.015 times
as long as the best of a pass in the mean, 1.10 at most. Bytes of stages and their waits bind; products are hidden.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Tf32Arithmetic(Arithmetic):
    """Float32 numbers, rounded to the nearest TF32 one."""

    chunk: ClassVar[int] = 4
    template: ClassVar[str] = "conv2d/tf32_scale.cu.jinja"

    @classmethod
    def of(cls, problem: Conv2d) -> Tf32Arithmetic:  # noqa: ARG003
        return cls(DType.FLOAT32, parts=1, scales=False, promotes=False)

    @property
    def products(self) -> int:
        """A TF32 product takes as long as two of 16 bits."""
        return 2

    @property
    def description(self) -> str:
        return "float32 numbers, rounded to TF32"


@dataclasses.dataclass(frozen=True)
class Tf32ImageGeometry(Im2colImageGeometry):
    """One config of fprop or dgrad."""

    name: ClassVar[str] = NAME
    sustained: ClassVar[Sustained] = TF32_IMAGES
    numbers: ClassVar[type[Arithmetic]] = Tf32Arithmetic
    stage_channels: ClassVar[int] = STAGE_CHANNELS
    operand_registers: ClassVar[int] = OPERAND_REGISTERS

    @classmethod
    def least_columns(cls, problem: Conv2d) -> int:  # noqa: ARG003
        return COLUMNS[0]

    @property
    def transposes_filters(self) -> bool:
        return False  # the launch that rounds them has laid them out along the summed channels

    @property
    def stores_vectors(self) -> bool:
        return False  # pairs of float32 fill sectors

    @property
    def filled(self) -> float:
        return 1.0

    @property
    def phase_taps(self) -> tuple[int, ...]:
        """Number of taps of each phase."""
        return tuple(after - before for before, after in itertools.pairwise(self.first_taps))

    @property
    def phase_order(self) -> tuple[int, ...]:
        """Phases by falling number of taps. Blocks take all tiles of one before those of the next, so that each has the
        same share of every phase. In turns, a block may meet those of one phase again and again: of 1x1 taps with
        strides of two, some had five tiles with a tap, and others none.
        """
        return tuple(sorted(range(len(self.phase_taps)), key=lambda phase: -self.phase_taps[phase]))

    def tile_steps(self, device: Device) -> float:
        rounds, of_phase = self.rounds(device), self.tiles // len(self.phase_taps)
        at_once = -(-self.tiles // rounds)
        phases = (self.phase_order[turn * at_once // of_phase] for turn in range(rounds))
        return sum(self.phase_taps[phase] for phase in phases) / rounds

    @property
    def source_map(self) -> TensorMap:
        """Tensor map of the source images."""
        first = self.first_row, self.first_column
        return tensor_map_of(self.images, self.lattice, first, self.run, self.stage_channels)

    @property
    def why_not(self) -> str | None:
        return why_no_map(self.source_map, [each for each in self.steps if isinstance(each, WindowStep)])

    @property
    def workspace_bytes(self) -> int:
        return aligned(self.filters.nbytes)


class Tf32Images(Im2colImages):
    """fprop and dgrad."""

    def __init__(self) -> None:
        super().__init__(Tf32ImageGeometry)

    def space(self, problem: Conv2d, device: Device) -> Space:
        usual = super().space(problem, device)

        least = least_image(problem, self.kind).values()

        @functools.cache
        def fits(columns: int) -> bool:
            tile = self.kind.of(problem, Config.of({**least, "columns": columns}))
            return tile.workspace_bytes <= problem.workspace_limit

        limit = Constraint(f"rounded weights take at most {problem.workspace_limit} bytes", fits, ("columns",))
        return Space(usual.parameters, (*usual.constraints, limit))

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return LAUNCH_NS + super().expected_ns(problem, device)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = Tf32ImageGeometry.of(problem, config)
        filters = geometry.filters
        text = render("conv2d/warpgroup_tf32.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        bias = (Pointer("b"),) if problem.bias else ()
        arguments = (geometry.source_map, Pointer(filters.packed.name), *bias, Pointer(problem.output.name))
        units = (*filters.units(problem), Unit(MAIN, text))
        steps = (*filters.launches(), multiplying(NAME, geometry, arguments))
        return Program(NAME, config, units, steps, filters.workspaces())
