"""wgrad as "Optimizing a CNN in CUDA" computes it: a block multiplies a part of one plane of x by one of dy, for each
tap, and adds its sum to the weight by an atomic addition.

Source: gradient weights reduction. Blocks add in any order, so that the bits of a weight may differ from run to run:
the family never wins a search. The document's two-level reduction overwrites the sums of warps that another warp may
not have read yet; a barrier is added here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import (
    MAX_SUMS,
    MAX_UNROLLED_TAPS,
    Bounds,
    LastStep,
    Reduction,
    Sums,
    block_constraints,
    block_parameters,
)
from warpsmith.generator.conv2d.sums.ladder.ladder_image import BASELINE, NAME
from warpsmith.generator.conv2d.sums.ladder.ladder_plane import COPY, SUM, LadderPlane, PlaneCopy, has_room
from warpsmith.generator.device import Device
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.program import Launch, Pointer, Program, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

MAX_ADDITIONS = 4096
"""Most atomic additions to one weight, one after the other: rounding errors grow with their number."""
ZERO_THREADS = 256
SIMPLEST: Mapping[str, Value] = {
    "sums": Sums.TAP.value,
    "reduction": Reduction.SHARED.value,
    "last_step": LastStep.FLOAT.value,
}
"""Values of the first rung that are no block's."""


@dataclasses.dataclass(frozen=True, slots=True)
class LadderWeight:
    """Variables of the template for one config of one layer."""

    key: str
    plane: LadderPlane
    images: int
    channels: int
    filters: int
    taps: tuple[int, int]
    source_rows: int
    """Rows of a plane of x, or of its padded copy."""
    source_columns: int
    above: int
    """Rows of padding above a plane of x; 0 in a padded copy."""
    left: int
    is_checked: bool
    sums: Sums
    reduction: Reduction
    last_step: LastStep
    copy: PlaneCopy | None
    zero_threads: int = ZERO_THREADS

    @classmethod
    def of(cls, layer: Conv2d, config: Config) -> LadderWeight:
        plane, taps, size = LadderPlane.of(layer.output_size, config), layer.weight[2:], layer.input[2:]
        (above, _), (left, _) = layer.padding
        is_padded, copy = config.text("bounds") == Bounds.PADDED, None
        if is_padded:
            down, across = (covered + count - 1 for covered, count in zip(plane.covered, taps, strict=True))
            planes = layer.input[0] * layer.input[1]
            copy = PlaneCopy(text_key(layer), planes, *size, above, left, down, across)
        rows, columns = size if copy is None else (copy.copy_rows, copy.copy_columns)
        return cls(
            key=text_key(layer),
            plane=plane,
            images=layer.input[0],
            channels=layer.input[1],
            filters=layer.weight[0],
            taps=taps,
            source_rows=rows,
            source_columns=columns,
            above=0 if is_padded else above,
            left=0 if is_padded else left,
            is_checked=not is_padded,
            sums=Sums(config.text("sums")),
            reduction=Reduction(config.text("reduction")),
            last_step=LastStep(config.text("last_step")),
            copy=copy,
        )

    @property
    def weights(self) -> int:
        """Weights of all filters."""
        rows, columns = self.taps
        return self.filters * self.channels * rows * columns

    @property
    def unrolled(self) -> int:
        """Multiply-adds per image that the text unrolls."""
        rows, columns = self.taps
        return self.plane.rows * (rows * columns if self.sums is Sums.REGISTERS else 1)

    def program(self, config: Config) -> Program:
        """The program: zeros for the weights, a padded copy if the config has one, and the kernel that adds up."""
        blocks = -(-self.weights // self.zero_threads)
        zero = Launch.of_blocks("conv2d_ladder_zero", blocks, self.zero_threads, (Pointer("dw"),))
        text = render("conv2d/ladder_weight.cu.jinja", g=self, config=config.key())
        planes = self.channels * self.filters
        names = ("x" if self.copy is None else COPY, "dy", "dw")
        add = self.plane.launch(NAME, planes, tuple(map(Pointer, names)), SUM)
        steps: tuple[Launch, ...] = (dataclasses.replace(zero, unit=SUM), add)
        if self.copy is None:
            return Program(NAME, config, (Unit(SUM, text),), steps)
        pad = self.copy.launch((Pointer("x"), Pointer(COPY)))
        return Program(NAME, config, (self.copy.unit(), Unit(SUM, text)), (pad, *steps), (self.copy.workspace(COPY),))


class LadderWeights(LayerSide):
    """wgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if problem.nonfinite is NonFinite.WINDOW:
            return "multiplies pixels by zeros beside dy, and a NaN among them: needs nonfinite any"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return Space(
            parameters=(
                *block_parameters(),
                Parameter(
                    "sums", words(Sums), "taps: one after the other, or all at once, with their sums in registers"
                ),
                Parameter("reduction", words(Reduction), "threads' sums: shared memory, shuffles at its end, or twice"),
                Parameter("last_step", words(LastStep), "type of the sums that shuffles add up"),
            ),
            constraints=(*block_constraints(device), *_constraints(problem)),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        """The baseline of the document."""
        wanted = {**BASELINE, **SIMPLEST}
        return self.space(problem, device).like(wanted) or Config.of(wanted)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return LadderWeight.of(problem, config).unrolled

    def program(self, problem: Conv2d, config: Config) -> Program:
        return LadderWeight.of(problem, config).program(config)


def _constraints(layer: Conv2d) -> tuple[Constraint, ...]:
    (tap_rows, tap_columns), limit = layer.weight[2:], layer.workspace_limit
    taps = tap_rows * tap_columns

    def plane(rows: int, across: int, down: int) -> LadderPlane:
        return LadderPlane(layer.output_size, across, down, rows, 0)

    def copy(bounds: str, rows: int, across: int, down: int) -> PlaneCopy | None:
        values = {**BASELINE, **SIMPLEST, "bounds": bounds, "rows": rows, "across": across, "down": down}
        return LadderWeight.of(layer, Config.of(values)).copy

    return (
        Constraint(
            "a reduction by halves has a power of two of threads",
            lambda across, down: (across * down).bit_count() == 1,
        ),
        Constraint(
            "shuffles alone have a last step in double precision",
            lambda reduction, last_step: reduction != Reduction.SHARED or last_step == LastStep.FLOAT,
        ),
        Constraint(
            f"a thread keeps at most {MAX_SUMS} sums in registers: there are {taps} taps",
            lambda sums: sums == Sums.TAP or taps <= MAX_SUMS,
        ),
        Constraint(
            f"at most {MAX_UNROLLED_TAPS} multiply-adds are unrolled: {taps} taps for each row",
            lambda rows, sums: rows * (1 if sums == Sums.TAP else taps) <= MAX_UNROLLED_TAPS,
        ),
        Constraint(
            f"at most {MAX_ADDITIONS} blocks add to one weight",
            lambda rows, across, down: (
                plane(rows, across, down).blocks[0] * plane(rows, across, down).blocks[1] <= MAX_ADDITIONS
            ),
        ),
        Constraint(
            f"a padded copy takes at most {limit} bytes, and has fewer than 2^31 elements",
            lambda bounds, rows, across, down: has_room(copy(bounds, rows, across, down), 1, limit),
        ),
    )
