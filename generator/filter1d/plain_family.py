"""`filter1d` with one output per thread and no tiles: the simplest kernel, which solves every problem.

Source: the first gather kernel of "Parallel filters", section 4.1.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states_text import after_blocks, carry_launches
from warpsmith.generator.filter1d.text import Filter1dText, Weights, count_type, filter1d_arguments, why_no_gradient
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

THREADS = 256
"""Threads per block by default: an SM holds eight such blocks."""
CHAIN = 256
"""Taps that are added one after the other. The error of a sum of equal signs grows with the root of their number, so
longer sums are sums of such sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dPlainGeometry:
    """Geometry of one config on one problem."""

    threads: int
    blocks: int
    unroll: int
    """Taps whose loads are in flight at once."""
    chain: int
    """Taps that are added one after the other; all of them if there are fewer than CHAIN."""
    count: str
    """C++ type that counts the outputs of all channels."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dPlainGeometry:
        threads, results = config.integer("threads"), problem.output.size
        return cls(
            threads=threads,
            blocks=-(-results // threads),
            unroll=config.integer("unroll"),
            chain=min(CHAIN, problem.taps),
            count=count_type(results, threads),
        )


class Filter1dPlain(Family[Filter1d]):
    """`filter1d` with every sample and every tap read where it is used."""

    name = "filter1d_plain"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        return why_no_gradient(problem)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("threads", (64, 128, 256, 512), "threads of a block"),
                Parameter("unroll", (1, 2, 4, 8, 16), "taps whose loads are in flight at once"),
                Parameter("weights", (Weights.GLOBAL.value,), "taps are read from global memory"),
            ),
            constraints=(Constraint(f"a filter has {problem.taps} taps", lambda unroll: unroll <= problem.taps),),
        )

    def default(self, problem: Filter1d, device: Device) -> Config:
        return Config.of({"threads": THREADS, "unroll": 1, "weights": Weights.GLOBAL.value})

    def work(self, problem: Filter1d, config: Config) -> Work | None:
        return None  # windows that reach beyond the signal have fewer multiply-adds than the problem counts

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return 4 * config.integer("unroll")

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dPlainGeometry.of(problem, config)
        source = render(
            "filter1d/plain.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=Weights.GLOBAL.value,
        )
        arguments = filter1d_arguments(problem, Weights.GLOBAL)
        blocks = geometry.blocks + after_blocks(problem, geometry.threads)
        launch = Launch.of_blocks(self.name, blocks, geometry.threads, arguments)
        return Program.of_source(self.name, config, source, (launch, *carry_launches(problem, self.name)))
