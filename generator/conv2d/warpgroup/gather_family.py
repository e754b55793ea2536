"""Layers as products of matrices by Hopper's tensor cores, whose blocks read 16-bit pixels where they lie.

What `conv2d_warpgroup` does, without launches that lay images out on a line of positions: see `gathering.py`.

Source: as of `conv2d_warpgroup`; a block gathers its pixels as in Chetlur et al. 2014, "cuDNN: Efficient Primitives for
Deep Learning", section 3.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.halves.choice import Choice
from warpsmith.generator.conv2d.halves.folding import Folding
from warpsmith.generator.conv2d.halves.halving import CHUNK
from warpsmith.generator.conv2d.halves.image_tiles import summed_and_results
from warpsmith.generator.conv2d.halves.model import BYTES_A_US, CLOCKS_A_US, LAUNCH_US
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import require_conv2d
from warpsmith.generator.conv2d.warpgroup.choice import best_tile, weight_choice
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.gathering import (
    NAME,
    GatheringGeometry,
    GatheringWeights,
    Sharing,
    gathering_program,
)
from warpsmith.generator.conv2d.warpgroup.space import (
    image_parameters,
    least_image,
    tile_constraints,
    weight_space,
)
from warpsmith.generator.conv2d.words import ImageLayout, Pass
from warpsmith.generator.device import H200, Device
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

PIXEL_STAGES, STAGES = (2, 3, 4, 6), (2, 3, 4, 6, 8)
"""More than those of `conv2d_warpgroup`: copies by threads are longer under way than bulk copies."""
SLOWER = 1.25
"""Than its clocks: where products take longest, copies by threads hold them up by 0.19 to 0.25 of that (H100)."""
PREFERRED = ((4, 4), (4, 3), (3, 4), (3, 3), (3, 2), (2, 4), (2, 3), (2, 2))
"""Stages of pixels and of weights."""


class Conv2dWarpgroupGather(Conv2dWarpgroup):
    """`conv2d` by wgmma instructions, on 16-bit pixels that are copied where they lie."""

    name = NAME

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if isinstance(problem, Conv2d) and (why_not := _why_not_gathered(problem)) is not None:
            return why_not
        return super().why_not(problem, device)

    def expected_ns(self, problem: Problem) -> float:
        conv2d = require_conv2d(problem)
        choice, halves = self._choice(conv2d, H200), 0
        if conv2d.pass_ is not Pass.WGRAD:
            halves = conv2d.inputs[1].nbytes + GatheringGeometry.of(conv2d, choice.config).halves_bytes
        return 1000 * (SLOWER * choice.clocks / CLOCKS_A_US + halves / BYTES_A_US + 2 * LAUNCH_US)

    def space(self, problem: Problem, device: Device) -> Space:
        conv2d = require_conv2d(problem)
        return (gathered_weight_space if conv2d.pass_ is Pass.WGRAD else gathered_image_space)(conv2d, device)

    def default(self, problem: Problem, device: Device) -> Config:
        return self._choice(require_conv2d(problem), device).config

    def program(self, problem: Problem, config: Config) -> Program:
        return gathering_program(require_conv2d(problem), config)

    def _least(self, problem: Conv2d) -> Config:
        return super()._least(problem) if problem.pass_ is Pass.WGRAD else least_gathered_image(problem)

    def _choice(self, problem: Conv2d, device: Device) -> Choice:
        if problem.pass_ is Pass.WGRAD:
            return weight_choice(problem, device, GatheringWeights, STAGES[::-1])
        space, choices = gathered_image_space(problem, device), [{"sharing": each.value} for each in Sharing]
        least = least_gathered_image(problem)
        return best_tile(problem, device, space, choices, GatheringGeometry, least, PREFERRED)


def _why_not_gathered(problem: Conv2d) -> str | None:
    """What no block can gather of, or should not."""
    if problem.dtype is DType.FLOAT32 or problem.layout is not ImageLayout.NHWC:
        return "reads 16-bit numbers with channels last"
    both = problem.group_channels, problem.group_filters
    summed = both if problem.pass_ is Pass.WGRAD else summed_and_results(problem)[:1]
    if any(channels % CHUNK for channels in summed):
        return f"reads {CHUNK} channels of a group at once"
    if Folding.of(problem) is not None:
        return "leaves layers of few channels, whose rows and columns become channels, to conv2d_warpgroup"
    return None


def least_gathered_image(problem: Conv2d) -> Config:
    """The config of fprop or dgrad that takes the least memory."""
    values = {name: value for name, value in least_image(problem).values().items() if name != "reach"}
    return Config.of({**values, "pixel_stages": PIXEL_STAGES[0], "sharing": Sharing.NONE.value})


def gathered_image_space(problem: Conv2d, device: Device, kind: type[GatheringGeometry] = GatheringGeometry) -> Space:
    """The space of fprop and dgrad, for blocks of this kind."""
    least = least_gathered_image(problem).values()

    def geometry(**chosen: Value) -> GatheringGeometry:
        return kind.of(problem, Config.of({**least, **chosen}))

    def fits(warpgroups: int, columns: int, channels: int, sharing: str, pixel_stages: int, filter_stages: int) -> bool:
        tile: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels}
        stages: dict[str, Value] = {"pixel_stages": pixel_stages, "filter_stages": filter_stages}
        return geometry(**tile, sharing=sharing, **stages).shared_bytes <= device.shared_per_block_bytes

    replaced = {
        "reach": Parameter(
            "sharing", tuple(each.value for each in Sharing), "which taps read the same stage of pixels"
        ),
        "pixel_stages": Parameter("pixel_stages", PIXEL_STAGES, "stages of shared memory for pixels"),
    }
    own = (
        Constraint(
            "taps share pixels where a row of the filter has several",
            lambda sharing: sharing == Sharing.NONE or problem.weight[3] > 1,
        ),
        Constraint(f"a block has at most {device.shared_per_block_bytes} bytes of shared memory", fits),
        Constraint(
            f"weights as tiles take at most {problem.workspace} bytes",
            lambda columns, channels: geometry(columns=columns, channels=channels).workspace_bytes <= problem.workspace,
        ),
    )
    parameters = (replaced.get(each.name, each) for each in image_parameters(device))
    return Space(tuple(parameters), (*tile_constraints(problem), *own))


def gathered_weight_space(problem: Conv2d, device: Device, kind: type[GatheringWeights] = GatheringWeights) -> Space:
    """The space of wgrad, for blocks of this kind."""
    usual, across = weight_space(problem, device, kind), problem.weight[3]
    own = Constraint(f"a row of the filter has {across} taps", lambda taps: taps <= across)
    stages = Parameter("stages", STAGES, "of shared memory")
    parameters = (stages if each.name == "stages" else each for each in usual.parameters)
    return Space(tuple(parameters), (*usual.constraints, own))
