"""Gradients of `filter1d` with one sum per thread or block and no tiles: right for every filter.

With an activation a first kernel multiplies the result's gradient by the activation's slope. A thread then computes a
sample of the signal's gradient, and a block computes a partial sum of the weights' gradient, which a last kernel adds
up in a fixed order.

Source: the gather kernel of "Parallel filters", section 4.1, for each of the three sums.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.filter1d.gradients_text import (
    SUMS,
    Fold,
    GradientsText,
    operand_pointers,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import count_type
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.generator.steps import Workspace

SLOPED = "sloped"
"""Workspace of the result's gradient times the activation's slope, float32, without gaps."""
THREADS = 256


@dataclasses.dataclass(frozen=True, slots=True)
class GradientsPlainGeometry:
    """Geometry of one config on one problem."""

    threads: int
    chain: int
    """Terms that are added one after the other."""
    part: int
    """Outputs of a channel in one partial sum: a chain for each thread of a block."""
    parts_along: int
    """Partial sums along a signal."""
    count: str
    """C++ type that counts the samples and outputs of all channels."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> GradientsPlainGeometry:
        threads, most = config.integer("threads"), max(problem.signal, problem.result_length)
        part = threads * CHAIN
        return cls(
            threads=threads,
            chain=CHAIN,
            part=part,
            parts_along=-(-problem.result_length // part),
            count=count_type(problem.rows * most, threads),
        )


class Filter1dGradientsPlain(Family[Filter1d]):
    """Gradients with every sample and every tap read where it is used."""

    name = "filter1d_gradients_plain"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        blocks = self._sum_blocks(problem, min(self._threads()))
        if problem.pass_.gives_weights and blocks > MAX_GRID:
            return f"{problem.taps} taps of {problem.rows} channels take {blocks} blocks; a grid has {MAX_GRID} at most"
        return None

    def space(self, problem: Filter1d, device: Device) -> Space:
        return Space((Parameter("threads", self._threads(), "threads of a block"),), ())

    def default(self, problem: Filter1d, device: Device) -> Config:
        return Config.of({"threads": THREADS})

    def work(self, problem: Filter1d, config: Config) -> Work | None:
        return None  # windows that reach beyond the signal have fewer multiply-adds than the problem counts

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, is_activated = GradientsPlainGeometry.of(problem, config), problem.activation is not None
        fold = Fold.of(problem, problem.batch * geometry.parts_along) if problem.pass_.gives_weights else None
        source = render(
            "filter1d/gradients_plain.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
        )
        given = [each for each in operand_pointers(problem) if "_gradient" not in each.buffer]
        gradient = Pointer(SLOPED) if is_activated else Pointer("gradient")
        launches: list[Launch] = []
        workspaces: list[Workspace] = []

        def launch(kernel: str, blocks: int, *arguments: Argument) -> None:
            launches.append(Launch.of_blocks(f"{self.name}_{kernel}", blocks, geometry.threads, arguments))

        if is_activated:
            outputs = problem.rows * problem.result_length
            workspaces.append(Workspace(SLOPED, 4 * outputs))
            launch("slopes", -(-outputs // geometry.threads), *given, Pointer(SLOPED))
        if problem.pass_.gives_signal:
            blocks = -(-problem.rows * problem.signal // geometry.threads)
            launch("signal", blocks, gradient, Pointer("weights"), Pointer("signal_gradient"))
        if fold is not None:
            blocks = self._sum_blocks(problem, geometry.threads)
            launch("sums", blocks, Pointer("signal"), gradient, Pointer(SUMS))
            launches.append(fold.launch(self.name, problem))
            workspaces.append(fold.workspace)
        return Program.of_source(self.name, config, source, tuple(launches), tuple(workspaces))

    @staticmethod
    def _threads() -> tuple[int, ...]:
        return (64, 128, 256, 512)

    @staticmethod
    def _sum_blocks(problem: Filter1d, threads: int) -> int:
        """Blocks that compute a partial sum each."""
        return problem.rows * (problem.taps + problem.bias) * -(-problem.result_length // (threads * CHAIN))
