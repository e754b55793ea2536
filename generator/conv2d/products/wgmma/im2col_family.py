"""Implicit GEMM on Hopper's tensor cores with 16-bit pixels that TMA loads in im2col mode.

The family works like `conv2d_warpgroup`, without the launches that lay operands out on a line of positions: see
`im2col.py`.

Source: as of `conv2d_warpgroup`. Blocks read pixels from the operand's own layout as in Chetlur et al. 2014, "cuDNN:
Efficient Primitives for Deep Learning", section 3.
"""

from __future__ import annotations

import functools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.conv2d.products.split16.split16_choice import Choice
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import summed_and_results
from warpsmith.generator.conv2d.products.split16.split16_model import MEMORY_SHARE
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.im2col_geometry import (
    CHANNELS,
    NAME,
    PRODUCT_CHANNELS,
    Im2colGeometry,
    Im2colWeights,
    im2col_program,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_choice import image_choices, weight_choices
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.wgmma.wgmma_space import (
    LEAST_WEIGHT,
    image_parameters,
    least_image,
    tile_constraints,
    weight_space,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_window import Sharing
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

COLUMNS = (64, 96, 128, 192, 256)
"""Columns per tile where weights are contiguous along result channels. A copy loads 64 channels, so tiles of 96 load
more than they read.
"""
PIXEL_STAGES, STAGES = (2, 3, 4, 6), (2, 3, 4, 6, 8)
"""Stages of pixels for fprop and dgrad, and stages for wgrad."""
PREFERRED = ((4, 4), (4, 3), (3, 4), (3, 3), (3, 2), (2, 4), (2, 3), (2, 2))
"""Pairs of pixel stages and weight stages, in order of preference."""
STARTS = 4
"""Start configs of a search: the model's next choices after the default, because the model is 5% off in the mean."""


class Conv2dWarpgroupIm2col(Conv2dWarpgroup):
    """`conv2d` by wgmma instructions, on 16-bit pixels that TMA loads from the operand's own layout."""

    name = NAME

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why_not := _why_no_lines(problem)) is not None:
            return why_not
        if (why_not := super().why_not(problem, device)) is not None:
            return why_not
        return _kind(problem).of(problem, self._least(problem)).why_not

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        sustained, nbytes = _kind(problem).sustained, sum(operand.nbytes for operand in problem.operands)
        reading_ns = sustained.memory * nbytes / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)
        return _choices(problem, device)[0].ns + sustained.begin_ns + reading_ns

    def space(self, problem: Conv2d, device: Device) -> Space:
        return _space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _choices(problem, device)[0].config

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return tuple(each.config for each in _choices(problem, device)[1 : 1 + STARTS])

    def program(self, problem: Conv2d, config: Config) -> Program:
        return im2col_program(problem, config)

    def _least(self, problem: Conv2d) -> Config:
        return _least(problem)


@functools.lru_cache(maxsize=256)
def _choices(problem: Conv2d, device: Device) -> tuple[Choice, ...]:
    """Configs as the model ranks them. Ranking takes 30 to 60 ms and serves `default`, `starts` and `expected_ns`."""
    space, least = _space(problem, device), _least(problem)
    if problem.pass_ is Pass.WGRAD:
        return tuple(weight_choices(problem, device, space, Im2colWeights, least, STAGES[::-1]))
    choices = [{"sharing": each.value, "channels": CHANNELS} for each in Sharing]
    return tuple(image_choices(problem, device, space, choices, Im2colGeometry, least, PREFERRED))


def _kind(problem: Conv2d) -> type[Im2colGeometry | Im2colWeights]:
    return Im2colWeights if problem.pass_ is Pass.WGRAD else Im2colGeometry


def _why_no_lines(problem: Conv2d) -> str | None:
    """Why TMA copies cannot load the operands, in one line; None if they can."""
    if problem.dtype is DType.FLOAT32 or problem.layout is not ImageLayout.NHWC:
        return "reads 16-bit numbers with channels last"
    if Folding.of(problem) is not None:
        return "leaves layers of few channels, whose rows and columns become channels, to conv2d_warpgroup"
    if problem.pass_ is Pass.WGRAD:
        of_group = problem.weight[1], problem.group_filters
        if problem.groups > 1 and any(channels % CHUNK for channels in of_group):
            return f"copies begin at multiples of {CHUNK} channels, unlike groups of {of_group[0]} and {of_group[1]}"
        read = problem.input[1], problem.weight[0]
    else:
        summed, _ = summed_and_results(problem)
        if problem.groups > 1 and summed % PRODUCT_CHANNELS:
            return f"sums over {PRODUCT_CHANNELS} channels at once, of which a group has {summed}"
        read = summed, problem.group_channels
    if any(channels % CHUNK for channels in read):
        return f"reads {CHUNK} channels at once"
    return None


def _least(problem: Conv2d) -> Config:
    """The config that takes least memory."""
    if problem.pass_ is Pass.WGRAD:
        return Config.of({**LEAST_WEIGHT, "columns": CHANNELS})
    values = {name: value for name, value in least_image(problem).values().items() if name != "reach"}
    own: dict[str, Value] = {"pixel_stages": PIXEL_STAGES[0], "sharing": Sharing.NONE.value, "channels": CHANNELS}
    columns: dict[str, Value] = {"columns": CHANNELS} if problem.pass_ is Pass.DGRAD else {}
    return Config.of({**values, **own, **columns})


def _space(problem: Conv2d, device: Device) -> Space:
    return (_weight_space if problem.pass_ is Pass.WGRAD else _image_space)(problem, device)


def _image_space(problem: Conv2d, device: Device) -> Space:
    least = _least(problem).values()

    def fits(warpgroups: int, columns: int, sharing: str, pixel_stages: int, filter_stages: int) -> bool:
        tile: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "sharing": sharing}
        stages: dict[str, Value] = {"pixel_stages": pixel_stages, "filter_stages": filter_stages}
        geometry = Im2colGeometry.of(problem, Config.of({**least, **tile, **stages}))
        return geometry.shared_bytes <= device.shared_per_block_bytes

    own = {
        "channels": Parameter("channels", (CHANNELS,), "that a stage sums over: 128 bytes of a pixel"),
        "reach": Parameter(
            "sharing", tuple(each.value for each in Sharing), "which taps read the same stage of pixels"
        ),
        "pixel_stages": Parameter("pixel_stages", PIXEL_STAGES, "stages of shared memory for pixels"),
    }
    if problem.pass_ is Pass.DGRAD:
        own["columns"] = Parameter("columns", COLUMNS, "channels of the result, a warpgroup")
    constraints = (
        Constraint(
            "taps share pixels where a row of the filter has several",
            lambda sharing: sharing == Sharing.NONE or problem.weight[3] > 1,
        ),
        Constraint(f"a block has at most {device.shared_per_block_bytes} bytes of shared memory", fits),
    )
    parameters = (own.get(each.name, each) for each in image_parameters(device))
    least_columns = (CHANNELS,) if problem.pass_ is Pass.DGRAD else ()
    tiles = tile_constraints(problem, device, *least_columns)
    return Space(tuple(parameters), (*tiles, *constraints))


def _weight_space(problem: Conv2d, device: Device) -> Space:
    usual, across = weight_space(problem, device, Im2colWeights, CHANNELS), problem.weight[3]
    own = {
        "columns": Parameter("columns", COLUMNS, "channels of dy, a warpgroup"),
        "stages": Parameter("stages", STAGES, "of shared memory"),
    }
    in_a_row = Constraint(f"a row of the filter has {across} taps", lambda taps: taps <= across)
    parameters = (own.get(each.name, each) for each in usual.parameters)
    return Space(tuple(parameters), (*usual.constraints, in_a_row))
