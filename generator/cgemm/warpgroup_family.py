"""`cgemm` by wgmma with each float32 split into two fp16 numbers (fp16x3): as accurate as float32 sums.

A tile of each operand is scaled by a power of two that brings its largest number to 2^14, and each number x is split:
high = half(x), low = half(x - high). The rest is below 2^-23 of x, or below 2^-39 of the tile's largest number, where
fp16 ends. Of the four products of two such sums the one of both low parts is left out.

A warpgroup multiplies while its threads split the next tile. The sums of a tile are added outside of the tensor cores,
which truncate sums where float32 rounds; within a tile small products come first. All nine pairs of ops are signs of
products, and layouts in shared memory that the instruction takes as they are.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 (sums outside the
tensor cores) and 3.3 (the product of both low parts is left out). There low parts are scaled by 2^11, which keeps
numbers of any size apart but needs separate accumulators. wgmma: PTX manual. With `rowwise` accuracy each row of a tile
of a has a power of two of its own, found by the threads that copied it, and sums are scaled back row by row.
"""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.tiled_family import tile_launch, tile_program
from warpsmith.generator.cgemm.warpgroup_choice import warpgroup_default, warpgroup_starts
from warpsmith.generator.cgemm.warpgroup_geometry import WarpgroupGeometry
from warpsmith.generator.cgemm.warpgroup_shares import WarpgroupShares
from warpsmith.generator.cgemm.warpgroup_space import warpgroup_space
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Pointer, Program, Workspace
from warpsmith.generator.progress import PROGRESS, begin_launch, counter_bytes
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

HANDED = "partials"
"""Name of the workspace for sums that a block hands on to another one."""
LIKELY_SIZE, LIKELY_TERMS = 48, 16
"""Rows and columns, and terms, from which on its tiles are full enough to win."""


class CgemmWarpgroup(Family[Cgemm]):
    """`cgemm` by wgmma instructions, with three fp16 products for each float32 product."""

    name = "cgemm_warpgroup"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        if (why_not := device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)) is not None:
            return why_not
        if problem.accuracy is Accuracy.ELEMENTWISE:
            return 'splits numbers relative to the largest of a tile: needs accuracy="normwise" or "rowwise"'
        if problem.accuracy is Accuracy.ROWWISE and problem.a.transposes:
            return "scales rows by themselves where their terms lie side by side: takes a as it is"
        return None

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and min(problem.m, problem.n) >= LIKELY_SIZE and problem.k >= LIKELY_TERMS

    def space(self, problem: Cgemm, device: Device) -> Space:
        return warpgroup_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return warpgroup_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return warpgroup_starts(problem, device)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return WarpgroupGeometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = WarpgroupGeometry.of(problem, config)
        source = render("cgemm/warpgroup.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        if geometry.shares is not None:
            return _dealt_program(problem, config, geometry, geometry.shares, source)
        return tile_program(self.name, problem, config, geometry, source)


def _dealt_program(
    problem: Cgemm, config: Config, geometry: WarpgroupGeometry, shares: WarpgroupShares, source: str
) -> Program:
    """Kernel of persistent blocks that share all tiles (stream-K), behind one that sets their counters to zero."""
    family = CgemmWarpgroup.name
    handed = Workspace(HANDED, geometry.handed_bytes)
    progress = Workspace(PROGRESS, counter_bytes(shares.counters))
    arguments = (*cgemm_arguments(problem), Pointer(HANDED), Pointer(PROGRESS))
    launches = (begin_launch(family, geometry.threads), tile_launch(family, geometry, arguments))
    return Program.of_source(family, config, source, launches, (handed, progress))
