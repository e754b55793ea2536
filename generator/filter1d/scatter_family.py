"""`filter1d` by scattered additions: a thread a sample, which adds its products into the outputs with atomicAdd.

A first launch sets the result to zero. The document dismisses the method, since the additions have to be synchronized;
it is here to be measured. Blocks add in any order, so that the bits of a result may differ from run to run if more than
two products meet in an output. So the family never answers and never wins (`Family.may_win`): a search verifies it,
times it and keeps its time beside the winner's, alone if it is asked for by name.

Source: "Parallel filters", section 4.1, the scatter pattern.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import (
    Filter1dText,
    Weights,
    count_type,
    filter1d_arguments,
    filter1d_constants,
    weights_parameter,
    why_no_epilogue,
)
from warpsmith.generator.filter1d.window_tile import unroll_constraint, unroll_parameter, usual_unroll
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Parameter, Space


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dScatterGeometry:
    """Geometry of one config on one problem."""

    threads: int
    unroll: int
    results: int
    """Outputs of all channels."""
    samples: int
    """Samples of all channels."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dScatterGeometry:
        samples = problem.rows * problem.signal
        return cls(config.integer("threads"), config.integer("unroll"), problem.output.size, samples)

    @property
    def zero_blocks(self) -> int:
        return ceil_div(self.results, self.threads)

    @property
    def blocks(self) -> int:
        return ceil_div(self.samples, self.threads)

    @property
    def count(self) -> str:
        """C++ type that counts the samples and the outputs of all channels."""
        return count_type(max(self.samples, self.results), self.threads)


class Filter1dScatter(Family[Filter1d]):
    """`filter1d` with one sample per thread and atomic additions."""

    name = "filter1d_scatter"
    may_answer = False
    may_win = False

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_epilogue(problem)) is not None:
            return reason
        if problem.output_dtype not in (DType.FLOAT32, DType.COMPLEX64):
            return f"adds to float32 and complex64 results: {problem.output_dtype} would be rounded at each addition"
        if problem.taps > CHAIN:
            return f"adds all products of an output one after the other: {CHAIN} taps at most"
        return None

    def space(self, problem: Filter1d, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("threads", (64, 128, 256, 512), "threads of a block"),
                weights_parameter(problem, (Weights.GLOBAL,)),
                unroll_parameter(),
            ),
            constraints=(unroll_constraint(problem),),
        )

    def default(self, problem: Filter1d, device: Device) -> Config:
        weights = self.space(problem, device).parameters[1].values[0]
        return Config.of({"threads": 256, "weights": weights, "unroll": usual_unroll(problem)})

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return 2 * min(config.integer("unroll"), problem.taps)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dScatterGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter1d/scatter.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
        )
        zero = Launch.of_blocks(f"{self.name}_zero", geometry.zero_blocks, geometry.threads, (Pointer("result"),))
        add = Launch(
            entry=self.name,
            grid=(geometry.blocks, 1, 1),
            block=(geometry.threads, 1, 1),
            arguments=filter1d_arguments(problem, weights),
            constants=filter1d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (zero, add))
