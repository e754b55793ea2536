"""Search spaces of `conv2d_warpgroup`."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach, summed_and_results
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import (
    REGISTERS,
    ImageGeometry,
    block_threads,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight_geometry import WeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WARPGROUPS = (1, 2, 3)
COLUMNS = (16, 32, 64, 96, 128, 192, 256)
CHANNELS = (16, 32, 64)
PIXEL_STAGES, FILTER_STAGES, STAGES = (1, 2, 3), (2, 3, 4, 6), (2, 3, 4)
TAPS, TERMS = (1, 2, 3), (32, 64, 128)
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
OTHER_REGISTERS = 22
"""Registers per thread beside the accumulators: addresses, counters, barriers."""
LEAST_WEIGHT: dict[str, Value] = {
    "taps": TAPS[0],
    "channel_groups": WARPGROUPS[0],
    "columns": COLUMNS[0],
    "terms": TERMS[0],
    "stages": STAGES[0],
    "splits": SPLITS[0],
}
"""The wgrad config that takes least memory. If it is illegal for a layer, all configs are."""


def least_image(problem: Conv2d) -> Config:
    """The fprop or dgrad config that takes least memory. If it is illegal for a layer, all configs are."""
    return Config.of(
        {
            "warpgroups": WARPGROUPS[0],
            "columns": COLUMNS[0],
            "channels": CHANNELS[0],
            "reach": Reach.ROW.value,
            "pixel_stages": least_pixel_stages(problem),
            "filter_stages": FILTER_STAGES[0],
            "blocks": 0,
        }
    )


def least_pixel_stages(problem: Conv2d) -> int:
    """1 if sums leave the tensor cores after each stage, else 2.

    Otherwise the products of a stage are known to be done, and its memory to be free, only when those of the next stage
    have begun, which needs memory of its own.
    """
    return 1 if Arithmetic.of(problem).promotes else 2


def image_space(problem: Conv2d, device: Device) -> Space:
    return Space(image_parameters(device), (*image_constraints(problem, device), _image_workspace(problem)))


def image_parameters(device: Device) -> tuple[Parameter, ...]:
    """Parameters of the GEMM kernel of fprop and dgrad."""
    return (
        Parameter("warpgroups", WARPGROUPS, "of a block, which multiply: 64 positions each"),
        Parameter("columns", COLUMNS, "channels of the result, a warpgroup"),
        Parameter("channels", CHANNELS, "that a stage sums over, after which sums leave the tensor cores"),
        Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
        Parameter("pixel_stages", PIXEL_STAGES, "stages of shared memory for pixels"),
        Parameter("filter_stages", FILTER_STAGES, "stages of shared memory for weights"),
        Parameter("blocks", (0, device.multiprocessors), "that take tiles in turns; 0: one a tile"),
    )


def image_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints of that kernel. For filters of one tap, none depends on the number or size of the images."""
    tile = _column_constraint(problem, COLUMNS[0]), _depth_constraint(problem), _stage_constraint(problem)
    registers = _register_constraints(problem, device)
    return (*tile, _reach_constraint(problem), *registers, _image_shared(problem, device))


def tile_constraints(problem: Conv2d, device: Device, least: int = COLUMNS[0]) -> tuple[Constraint, ...]:
    """Constraints of its tiles alone, whatever the layout of pixels. `least` is a number of columns that any tile may
    have.
    """
    return (_column_constraint(problem, least), _stage_constraint(problem), *_register_constraints(problem, device))


def weight_space(
    problem: Conv2d, device: Device, kind: type[WeightGeometry] = WeightGeometry, least: int = COLUMNS[0]
) -> Space:
    """The space of wgrad for tiles of class `kind`. `least` is a number of columns that any tile may have."""
    return Space(
        parameters=(
            Parameter("taps", TAPS, "of a block, side by side"),
            Parameter("channel_groups", WARPGROUPS, "of 64 channels of x, side by side for each tap"),
            Parameter("columns", COLUMNS, "channels of dy, a warpgroup"),
            Parameter("terms", TERMS, "positions that a stage sums over, after which sums leave the tensor cores"),
            Parameter("stages", STAGES, "of shared memory"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
        ),
        constraints=(*_weight_constraints(problem, device, least), *_weight_memory(problem, device, kind)),
    )


def fits_registers(problem: Conv2d, warpgroups: int, columns: int, device: Device) -> bool:
    """Whether a consumer thread has registers for its accumulators.

    They must fit both after setmaxnreg and, for one wgmma product, in the equal share that ptxas gives each thread of
    the launch. No block has more warpgroups than REGISTERS lists.
    """
    each = device.registers_per_multiprocessor // block_threads(warpgroups)
    at_first = columns // 2 <= each - OTHER_REGISTERS
    return at_first and registers(problem, columns) <= REGISTERS.get(warpgroups, 0)


def sums_of(problem: Conv2d) -> int:
    """Registers per accumulated sum and thread: two if sums leave the tensor cores after each stage."""
    return 2 if Arithmetic.of(problem).promotes else 1


def registers(problem: Conv2d, columns: int) -> int:
    """Fewest registers per consumer thread: accumulators (`sums_of` for each sum) and OTHER_REGISTERS."""
    return columns // 2 * sums_of(problem) + OTHER_REGISTERS


def _column_constraint(problem: Conv2d, least: int) -> Constraint:
    _, results = summed_and_results(folded(problem))
    return Constraint(
        f"a tile has less than twice the {results} channels of a result, or {least}",
        lambda columns: columns < 2 * results or columns == least,
    )


def _depth_constraint(problem: Conv2d) -> Constraint:
    summed, _ = summed_and_results(folded(problem))
    return Constraint(
        f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
        lambda channels: channels < 2 * summed or channels == CHANNELS[0],
    )


def _stage_constraint(problem: Conv2d) -> Constraint:
    least = least_pixel_stages(problem)
    return Constraint(
        f"products of {least} stages of pixels are under way at once",
        lambda pixel_stages: pixel_stages >= least,
    )


def _reach_constraint(problem: Conv2d) -> Constraint:
    return Constraint(
        "a filter of one row has a reach of its row",
        lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
    )


def _register_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a thread needs {sums_of(problem)} registers for two columns and {OTHER_REGISTERS} more; with 1, 2 or 3 "
            f"warpgroups it has {', '.join(map(str, REGISTERS.values()))}",
            lambda warpgroups, columns: fits_registers(problem, warpgroups, columns, device),
        ),
    )


def _image_shared(problem: Conv2d, device: Device) -> Constraint:
    return Constraint(
        f"a block has at most {device.shared_per_block_bytes} bytes of shared memory",
        lambda warpgroups, columns, channels, reach, pixel_stages, filter_stages: (
            _image_geometry(problem, warpgroups, columns, channels, reach, pixel_stages, filter_stages).shared_bytes
            <= device.shared_per_block_bytes
        ),
    )


def _image_workspace(problem: Conv2d) -> Constraint:
    return Constraint(
        f"halves of pixels and weights take at most {problem.workspace_limit} bytes",
        lambda warpgroups, columns, channels, reach: (
            _image_geometry(problem, warpgroups, columns, channels, reach, 1, 2).workspace_bytes
            <= problem.workspace_limit
        ),
    )


def _image_geometry(
    problem: Conv2d, warpgroups: int, columns: int, channels: int, reach: str, pixel_stages: int, filter_stages: int
) -> ImageGeometry:
    chosen: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels, "reach": reach}
    stages: dict[str, Value] = {"pixel_stages": pixel_stages, "filter_stages": filter_stages, "blocks": 0}
    return ImageGeometry.of(problem, Config.of({**chosen, **stages}))


def _weight_constraints(problem: Conv2d, device: Device, least: int) -> tuple[Constraint, ...]:
    layer, filters = folded(problem), problem.group_filters
    channels, count = layer.group_channels, layer.weight[2] * layer.weight[3]
    return (
        Constraint(
            f"a tile has less than twice the {filters} channels of dy, or {least}",
            lambda columns: columns < 2 * filters or columns == least,
        ),
        Constraint(
            f"groups of 64 channels are no more than x needs, which has {channels}",
            lambda channel_groups: channel_groups <= -(-channels // 64),
        ),
        Constraint(f"a filter has {count} taps", lambda taps: taps <= count),
        Constraint(
            f"a block has at most {WARPGROUPS[-1]} warpgroups",
            lambda taps, channel_groups: taps * channel_groups <= WARPGROUPS[-1],
        ),
        Constraint(
            f"a thread needs {sums_of(problem)} registers for two columns and {OTHER_REGISTERS} more; with 1, 2 or 3 "
            f"warpgroups it has {', '.join(map(str, REGISTERS.values()))}",
            lambda taps, channel_groups, columns: fits_registers(problem, taps * channel_groups, columns, device),
        ),
    )


def _weight_memory(problem: Conv2d, device: Device, kind: type[WeightGeometry]) -> tuple[Constraint, ...]:
    def geometry(taps: int, channel_groups: int, columns: int, terms: int, stages: int, splits: int) -> WeightGeometry:
        chosen = {"taps": taps, "channel_groups": channel_groups, "columns": columns}
        return kind.of(problem, Config.of({**chosen, "terms": terms, "stages": stages, "splits": splits}))

    kept = "parts of sums" if kind.maps else "halves of both images and parts of sums"
    return (
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory",
            lambda taps, channel_groups, columns, terms, stages: (
                geometry(taps, channel_groups, columns, terms, stages, 1).shared_bytes <= device.shared_per_block_bytes
            ),
        ),
        Constraint(
            "each part of a sum has stages of its own",
            lambda taps, channel_groups, columns, terms, splits: (
                geometry(taps, channel_groups, columns, terms, 2, splits).has_steps
            ),
        ),
        Constraint(
            f"{kept} take at most {problem.workspace_limit} bytes",
            lambda taps, channel_groups, columns, terms, splits: (
                geometry(taps, channel_groups, columns, terms, 2, splits).workspace_bytes <= problem.workspace_limit
            ),
        ),
    )
