"""`cgemm` with several results per thread in registers, and tiles of both operands in shared memory, copied ahead.

Conjugates are signs of multiply-adds, and transposed operands are read as they lie, so a complex product is nothing but
its multiply-adds. Long sums are sums of shorter ones: from time to time a thread adds its accumulators to its results
in memory, which costs no registers.

Source: Volkov and Demmel 2008, "Benchmarking GPUs to Tune Dense Linear Algebra" (tiles in registers), with the
asynchronous copies of compute capability 8.0. The parts of a split sum are added in a fixed order, as in split-K of
CUTLASS.
"""

from __future__ import annotations

from typing import Protocol

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.tiled_choice import tiled_default, tiled_starts
from warpsmith.generator.cgemm.tiled_geometry import Geometry, parts_bytes
from warpsmith.generator.cgemm.tiled_space import tiled_space
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.work import Work

PARTS = "parts"
"""Name of the workspace for the parts of split sums."""
SUM_THREADS = 256


class CgemmTiled(Family[Cgemm]):
    """`cgemm` with accumulators in registers."""

    name = "cgemm_tiled"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return device.why_no(ASYNC_COPIES)

    def space(self, problem: Cgemm, device: Device) -> Space:
        return tiled_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return tiled_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return tiled_starts(problem, device)

    def work(self, problem: Cgemm, config: Config) -> Work:
        geometry = Geometry.of(problem, config)
        return Work(geometry.multiply_adds, geometry.loaded_bytes)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return Geometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = Geometry.of(problem, config)
        source = render("cgemm/tiled.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        return tile_program(self.name, problem, config, geometry, source)


class Blocks(Protocol):
    """Grid and block of a kernel that has a block for each tile, as geometries give them."""

    @property
    def threads(self) -> int:
        """Threads of one product in a block."""

    @property
    def products(self) -> int:
        """Products per block."""

    @property
    def splits(self) -> int:
        """Parts of a sum (split-K), each of a block of its own."""

    @property
    def blocks(self) -> int: ...

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""


def tile_launch(family: str, geometry: Blocks, arguments: tuple[Argument, ...]) -> Launch:
    """Launch of the kernel whose blocks compute the tiles."""
    return Launch(
        entry=family,
        grid=(geometry.blocks, 1, 1),
        block=(geometry.threads * geometry.products, 1, 1),
        arguments=arguments,
        shared_bytes=geometry.shared_bytes,
    )


def tile_program(family: str, problem: Cgemm, config: Config, geometry: Blocks, source: str) -> Program:
    """Kernel with a block for each tile; if sums are split, another kernel adds their parts."""
    a, b, c = cgemm_arguments(problem)
    launch = tile_launch(family, geometry, (a, b, c if geometry.splits == 1 else Pointer(PARTS)))
    if geometry.splits == 1:
        return Program.of_source(family, config, source, (launch,))
    blocks = -(-problem.output.size // SUM_THREADS)
    total = Launch.of_blocks(f"{family}_sum", blocks, SUM_THREADS, (Pointer(PARTS), c))
    parts = Workspace(PARTS, parts_bytes(problem, geometry.splits))
    return Program.of_source(family, config, source, (launch, total), (parts,))
