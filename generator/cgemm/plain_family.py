"""`cgemm` with one thread per result and no tiles: the simplest kernel, which solves every problem."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

THREADS = 256
"""Threads per block by default: an SM holds eight such blocks."""
CHAIN = 256
"""Terms that are added one after the other. The error of a sum of equal signs grows with the root of their number, so
longer sums are sums of such sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlainGeometry:
    """Geometry of one config on one problem."""

    threads: int
    blocks: int
    unroll: int
    """Terms whose loads are in flight at once."""
    chain: int
    """Terms that are added one after the other; k if that is less than CHAIN."""
    index: str
    """CUDA type that counts results."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> PlainGeometry:
        threads, results = config.integer("threads"), problem.output.size
        return cls(
            threads=threads,
            blocks=-(-results // threads),
            unroll=config.integer("unroll"),
            chain=min(CHAIN, problem.k),
            # The last block counts up to its last thread, beyond the results.
            index="unsigned" if results + threads < 2**32 else "unsigned long long",
        )


class CgemmPlain(Family[Cgemm]):
    """`cgemm` with one thread per result."""

    name = "cgemm_plain"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return None

    def space(self, problem: Cgemm, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("threads", (64, 128, 256, 512), "threads of a block"),
                Parameter("unroll", (1, 2, 4, 8), "terms whose loads are in flight at once"),
            ),
            constraints=(Constraint(f"a sum has {problem.k} terms", lambda unroll: unroll <= problem.k),),
        )

    def default(self, problem: Cgemm, device: Device) -> Config:
        return Config.of({"threads": THREADS, "unroll": 1})

    def work(self, problem: Cgemm, config: Config) -> Work:
        return Work(problem.multiply_adds, 0)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return 4 * config.integer("unroll")

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = PlainGeometry.of(problem, config)
        source = render("cgemm/plain.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, cgemm_arguments(problem))
        return Program.of_source(self.name, config, source, (launch,))
