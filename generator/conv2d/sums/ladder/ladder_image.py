"""fprop and dgrad as "Optimizing a CNN in CUDA" computes them: a thread has pixels of one plane of results, one column
of them.

Source: convolution forward, error calculation. The document takes padded images as its input; here a launch makes
them. What lies in registers is written out; where all loops are unrolled, a compiler may keep more than that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import SOURCE, text_key
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import (
    MAX_SUMS,
    MAX_UNROLLED_TAPS,
    Batch,
    Bounds,
    Kept,
    Mask,
    block_constraints,
    block_parameters,
)
from warpsmith.generator.conv2d.sums.ladder.ladder_plane import COPY, SUM, LadderPlane, PlaneCopy, has_room
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

NAME = "conv2d_ladder"
MASK_COPY = "mask_copy"
"""Name of the workspace with the ReLU's results and zeros around them."""
OTHER_REGISTERS = 32
"""Registers of a thread beside its sums, weights and window: addresses, loop counters, loads in flight."""
BASELINE: Mapping[str, Value] = {"bounds": Bounds.CHECKED.value, "rows": 1, "across": 32, "down": 8, "min_blocks": 0}
"""Values of the block's parameters of the first rung."""
SIMPLEST: Mapping[str, Value] = {"kept": Kept.SUMS.value, "batch": Batch.OUTER.value}
"""Values of the other parameters of the first rung."""


@dataclasses.dataclass(frozen=True, slots=True)
class LadderImage:
    """Variables of the template for one config of one layer."""

    key: str
    plane: LadderPlane
    images: int
    channels: int
    """Channels that are summed over."""
    result_channels: int
    taps: tuple[int, int]
    source: str
    source_rows: int
    """Rows of a plane that taps read: of the images, or of their padded copy."""
    source_columns: int
    above: int
    """Rows from the first tap's row down to the row of the result; 0 in a padded copy."""
    left: int
    is_rotated: bool
    """True for dgrad, whose taps are rotated by 180 degrees and whose weights have the result's channel second."""
    is_checked: bool
    kept: Kept
    batch: Batch
    mask: Mask | None
    bias: bool
    relu: bool
    copy: PlaneCopy | None

    @classmethod
    def of(cls, layer: Conv2d, config: Config, mask: Mask | None = None) -> LadderImage:
        rows, columns = axes_of(layer)
        plane = LadderPlane.of((rows.results, columns.results), config)
        above, left = -rows.phases[0].low, -columns.phases[0].low
        size, taps = (rows.sources, columns.sources), layer.weight[2:]
        is_padded = config.text("bounds") == Bounds.PADDED
        copy = None
        if is_padded or mask is Mask.APART:
            start, copied = (0, 0), size
            if is_padded:
                down, across = (covered + count - 1 for covered, count in zip(plane.covered, taps, strict=True))
                start, copied = (above, left), (down, across)
            planes = layer.input[0] * layer.summed_channels
            copy = PlaneCopy(_key(layer, mask), planes, *size, *start, *copied, is_masked=mask is Mask.APART)
        read = size if copy is None else (copy.copy_rows, copy.copy_columns)
        return cls(
            key=_key(layer, mask),
            plane=plane,
            images=layer.input[0],
            channels=layer.summed_channels,
            result_channels=layer.result_channels,
            taps=taps,
            source=SOURCE[layer.pass_],
            source_rows=read[0],
            source_columns=read[1],
            above=0 if is_padded else above,
            left=0 if is_padded else left,
            is_rotated=layer.pass_.is_transposed,
            is_checked=not is_padded,
            kept=Kept(config.text("kept")),
            batch=Batch(config.text("batch")),
            mask=mask,
            bias=layer.bias,
            relu=layer.relu,
            copy=copy,
        )

    @property
    def sums(self) -> int:
        """Sums of a thread in registers."""
        return self.plane.rows * (self.images if self.batch is Batch.INNER else 1)

    @property
    def unrolled(self) -> int:
        """Multiply-adds per channel that the text unrolls."""
        rows, columns = self.taps
        return self.sums * rows * columns

    @property
    def registers(self) -> int:
        """Registers that a thread needs at least."""
        rows, columns = self.taps
        arrays = {Kept.SUMS: 0, Kept.WEIGHTS: 1, Kept.WINDOW: 2}[self.kept]
        return self.sums + arrays * rows * columns + OTHER_REGISTERS

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        if self.copy is None:
            return ()
        names = (COPY, MASK_COPY) if self.reads_mask else (COPY,)
        return tuple(self.copy.workspace(name) for name in names)

    @property
    def reads_mask(self) -> bool:
        """True if each tap reads the ReLU's result beside the gradient."""
        return self.mask is Mask.FUSED

    def program(self, layer: Conv2d, config: Config) -> Program:
        """The program: copies if there are any, then the kernel that adds up."""
        source, weights, *biases, result = (operand.name for operand in layer.operands)
        steps: list[Launch] = []
        units: list[Unit] = []
        images = [source, "y"] if self.reads_mask else [source]
        if self.copy is not None:
            masks = (Pointer("y"),) if self.copy.is_masked else ()
            copies = [each.name for each in self.workspaces]
            for read, written in zip(images, copies, strict=True):
                steps.append(self.copy.launch((Pointer(read), *masks, Pointer(written))))
            units, images = [self.copy.unit()], copies
        text = render("conv2d/ladder_image.cu.jinja", g=self, config=config.key())
        arguments = tuple(map(Pointer, (*images, weights, *biases, result)))
        steps.append(self.plane.launch(NAME, self.result_channels, arguments, SUM))
        return Program(NAME, config, (*units, Unit(SUM, text)), tuple(steps), self.workspaces)


def _key(layer: Conv2d, mask: Mask | None) -> str:
    return text_key(layer) if mask is None else f"{text_key(layer)} mask=y"


def image_space(layer: Conv2d, device: Device, *, is_masked: bool = False) -> Space:
    """Space of fprop and dgrad; behind a ReLU with the place of its mask."""
    masks = (Parameter("mask", words(Mask), "ReLU of the gradient: where taps read it, or in a launch before"),)
    return Space(
        parameters=(
            *block_parameters(),
            Parameter("kept", words(Kept), "registers: sums alone, weights too, or the pixels under the taps as well"),
            Parameter("batch", words(Batch), "loop over the images: around the loop over channels, or inside it"),
            *(masks if is_masked else ()),
        ),
        constraints=(*block_constraints(device), *_constraints(layer, device, copies=2 if is_masked else 1)),
    )


def _constraints(layer: Conv2d, device: Device, copies: int) -> tuple[Constraint, ...]:
    (tap_rows, tap_columns), images, limit = layer.weight[2:], layer.input[0], layer.workspace_limit
    taps = tap_rows * tap_columns

    def sums(rows: int, batch: str) -> int:
        return rows * (images if batch == Batch.INNER else 1)

    def geometry(rows: int, across: int, down: int, **others: str) -> LadderImage:
        values = {**BASELINE, **SIMPLEST, "rows": rows, "across": across, "down": down, **others}
        return LadderImage.of(layer, Config.of(values))

    return (
        Constraint(
            f"a thread has at most {MAX_SUMS} sums, rows times the {images} images if their loop is the inner one",
            lambda rows, batch: sums(rows, batch) <= MAX_SUMS,
        ),
        Constraint(
            f"at most {MAX_UNROLLED_TAPS} multiply-adds are unrolled: {taps} taps for each sum",
            lambda rows, batch: sums(rows, batch) * taps <= MAX_UNROLLED_TAPS,
        ),
        Constraint(
            f"a thread has {device.limits.registers_per_thread} registers, and an SM "
            f"{device.registers_per_multiprocessor}: one for each sum, {taps} weights, {taps} pixels of a window, and "
            f"{OTHER_REGISTERS} more",
            lambda rows, across, down, min_blocks, kept, batch: (
                geometry(rows, across, down, kept=kept, batch=batch).registers
                <= device.thread_registers(across * down * max(min_blocks, 1))
            ),
        ),
        Constraint(
            f"{copies} padded copies take at most {limit} bytes, and each has fewer than 2^31 elements",
            lambda bounds, rows, across, down: has_room(
                geometry(rows, across, down, bounds=bounds).copy, copies, limit
            ),
        ),
    )


class LadderImages(LayerSide):
    """fprop and dgrad."""

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        """The baseline of the document, which needs nothing."""
        return Config.of({**BASELINE, **SIMPLEST})

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return LadderImage.of(problem, config).unrolled

    def program(self, problem: Conv2d, config: Config) -> Program:
        return LadderImage.of(problem, config).program(problem, config)
