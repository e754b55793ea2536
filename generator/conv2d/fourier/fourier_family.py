"""Layers in the frequency domain: forward transforms, a complex GEMM per frequency, and inverse transforms.

The planes of both operands are padded with zeros as they are read, and their spectra are written frequency by
frequency, so that the matrices of a product are contiguous: images by channels, or filters by channels. The result is
clipped as it is written. Padding takes no memory: it is part of the point at which a filter's plane begins.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.1 (the steps of each pass, table 1) and
section 5 (transforms that pad and clip, and leave their results in the order that the products read, so that nothing is
transposed); Mathieu et al. 2014, "Fast Training of Convolutional Networks through FFTs".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from warpsmith.generator.branching_space import Branches, BranchingSpace
from warpsmith.generator.conv2d.fourier.fourier_steps import with_ends
from warpsmith.generator.conv2d.fourier.parts import FourierParts, why_not_by_transforms
from warpsmith.generator.conv2d.fourier.plane_transforms import BASIS, Basis, PlaneTransforms
from warpsmith.generator.conv2d.fourier.product_stage import RESULT, SPECTRA, ProductStage
from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Subject, Work
from warpsmith.generator.pipeline import Pipeline, Run, Stage
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.generator.steps import Workspace

ODD_COLUMNS = 1.1
"""Factor on the expected time of tiles with an odd number of columns. In 200 layers (H200) such tiles lost to whole
planes eight times of nine where 0.92 to 0.95 of their time was expected, and won five times of six at 0.79 to 0.88.
"""
LEAST_GRADIENT_SIZE = 8
"""Least rows or columns of y for which transforms answer untuned in wgrad. On 7x7 the gradient can be so small against
the planes of x and dy that errors relative to those exceed the bound: the stress data of three of three layers with
3x3 taps found float32 and split fp16 spectra wrong at 3 to 144 weights (H200, 2026-11-28).
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Variant:
    """How a Fourier family transforms planes and multiplies spectra."""

    name: str
    """Name of the family."""
    transforms: PlaneTransforms
    product: ProductStage
    rival: Variant | None = None
    """The variant on whole planes that tiles must be expected to beat; None for whole planes."""

    def bases(self, layer: Conv2d) -> tuple[Basis, ...]:
        """All basis sizes for a layer, the likeliest first."""
        return self.transforms.bases(layer, self.product.parts.rules)

    def likely(self, layer: Conv2d) -> tuple[Basis, ...]:
        """The likeliest basis sizes for a layer; none if its filters are too large for a tile."""
        return self.transforms.likely(layer, self.product.parts.rules)

    @functools.lru_cache(1024)  # noqa: B019 - variants live as long as the process
    def parts(self, layer: Conv2d, basis: Basis) -> FourierParts | str:
        """The parts of a layer on a basis; one line that says why if the variant does not solve it."""
        if (why := self._why_not(layer)) is not None:
            return why
        parts = self.product.parts.of(layer, basis, self.transforms, self.product.beside)
        return f"needs more than {layer.workspace_limit} bytes of workspace" if parts is None else parts

    @functools.lru_cache(1024)  # noqa: B019 - likewise
    def first(self, layer: Conv2d) -> Basis | str:
        """The first likely basis whose spectra fit the workspace; one line that says why if there is none."""
        if (why := self._why_not(layer)) is not None:
            return why
        found = {basis: self.parts(layer, basis) for basis in self.likely(layer)}
        fitting = (basis for basis, parts in found.items() if not isinstance(parts, str))
        reasons = (parts for parts in found.values() if isinstance(parts, str))
        return next(fitting, None) or next(
            reasons, f"has no tile of at most {self.product.parts.rules.most_tile} points"
        )

    def _why_not(self, layer: Conv2d) -> str | None:
        return self.product.why_not(layer) or self.transforms.why_not(layer) or why_not_by_transforms(layer)

    @functools.lru_cache(256)  # noqa: B019 - likewise
    def stages(self, parts: FourierParts) -> tuple[Stage, ...]:
        return self.product.stages(parts)


class FourierPipeline(Pipeline[Conv2d]):
    """The pipeline of a Fourier family on one basis. Its configs are those of the family with this basis."""

    default_reach = DEFAULT_REACH

    def __init__(self, variant: Variant, basis: Basis) -> None:
        self.variant, self.basis = variant, basis
        self.name = variant.name
        self.may_answer = variant.product.family.may_answer

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return _why_not(self, problem, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return self.variant.product.expected_ns(self.parts(problem), device)

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        return self.variant.stages(self.parts(problem))

    def space(self, problem: Conv2d, device: Device) -> Space:
        """The joined spaces of the stages, with what the workspace allows, and the basis as a parameter."""
        return _branch(self, problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _fitting(super().default(problem, device), self.space(problem, device))

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        space = self.space(problem, device)
        return tuple(dict.fromkeys(_fitting(config, space) for config in super().starts(problem, device)))

    def runs(self, problem: Conv2d) -> tuple[Run, ...]:
        """The runs of all stages.

        The second factor is transformed once if it is not split. The other stages run for each part of the batch, whose
        results may be one sum.
        """
        parts = self.parts(problem)
        first, second, *between, result = self.stages(problem)
        written = result.problem.output.nbytes if parts.fold is None else 0  # a fold reads one part at a time
        runs = [] if parts.is_sum else [Run(second)]
        for number in range(parts.count):
            if parts.is_sum:
                place = {"c": number * parts.result_pitch_bytes}
                runs += [_of_part(second, number), _of_part(first, number), *(Run(each, place) for each in between)]
            else:
                runs += [_of_part(first, number), *map(Run, between), Run(result, {"signal": number * written})]
        return (*runs, Run(result)) if parts.is_sum else tuple(runs)

    def workspaces(self, problem: Conv2d) -> tuple[Workspace, ...]:
        return self.parts(problem).workspaces(SPECTRA)

    def program(self, problem: Conv2d, config: Config) -> Program:
        program = with_ends(super().program(problem, config), self.parts(problem), SPECTRA[2], RESULT)
        return self.variant.product.finished(program, problem)

    def parts(self, problem: Conv2d) -> FourierParts:
        """The parts of a layer. Raises ValueError if the family does not solve it on this basis."""
        parts = self.variant.parts(problem, self.basis)
        if isinstance(parts, str):
            raise ValueError(f"{problem.key()} is not solved by {self.name} on basis {self.basis.word}: {parts}")
        return parts

    def joined(self, stages: Mapping[str, Config]) -> Config:
        return Config.of({BASIS: self.basis.word, **Config.joined(stages).values()})


class Conv2dFft(Pipeline[Conv2d]):
    """`conv2d` by Fourier transforms; `variants` lists the families.

    The basis is a parameter of the config, and decides which values the parameters of the stages have. Without a config
    the stages are those on the first of the likely bases whose spectra fit the workspace.
    """

    default_reach = DEFAULT_REACH

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.name = variant.name
        self.may_answer = variant.product.family.may_answer
        self._rival = None if variant.rival is None else Conv2dFft(variant.rival)

    def on(self, basis: Basis) -> FourierPipeline:
        """The family on one basis."""
        return _on(self.variant, basis)

    def alternatives(self, problem: Conv2d) -> tuple[FourierPipeline, ...]:
        """The family on each of the likely bases of a layer, whether they fit its workspace or not."""
        return tuple(map(self.on, self.variant.likely(problem)))

    def of(self, config: Config) -> FourierPipeline:
        return self.on(Basis.of(config.text(BASIS)))

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        first = self.variant.first(problem)
        return first if isinstance(first, str) else self.on(first).why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Whether its steps are expected to take less time than sums over taps, and tiles less than whole planes.

        For one tap a transform saves no products. Small planes' gradients of weights are left to other families.
        """
        is_small = problem.pass_.sums_images and max(problem.output_size) < LEAST_GRADIENT_SIZE
        if is_small or problem.weight[2:] == (1, 1):
            return False
        if device.kind is not DeviceKind.CUDA or not self.may_answer:
            return False
        parts, expected_ns = self._first(problem).parts(problem), self.expected_ns(problem, device)
        if expected_ns >= direct_ns(problem, device):
            return False
        if self._rival is not None and self._rival.why_not(problem, device) is None:
            # Whole planes have fewer rows in their products, which may be too few for tensor cores.
            theirs = self._rival._first(problem).parts(problem)
            has_products = self.variant.product.is_likely(theirs, device)
            tiles_ns = parts.expected_ns(device.rates) if has_products else expected_ns
            slower = ODD_COLUMNS if parts.basis.columns % 2 else 1.0
            if slower * tiles_ns >= self._rival.expected_ns(problem, device):
                return False
        return self.variant.product.is_likely(parts, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return self._first(problem).expected_ns(problem, device)

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        return self._first(problem).stages(problem)

    def runs(self, problem: Conv2d) -> tuple[Run, ...]:
        return self._first(problem).runs(problem)

    def workspaces(self, problem: Conv2d) -> tuple[Workspace, ...]:
        return self._first(problem).workspaces(problem)

    def space(self, problem: Conv2d, device: Device) -> BranchingSpace:
        """The spaces of all bases; those of the stages are made when a search meets a basis."""
        return _spaces(self.variant, problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return self._first(problem).default(problem, device)

    def carried(self, config: Config, home: Subject[Conv2d], problem: Conv2d, device: Device) -> Config | None:
        """`config` itself, if it is legal here. Winners that were changed for transforms of other sizes took 1.13 times
        the best in 24 pairs of layers, the default of the likeliest family 1.05 times.
        """
        return config if self.is_legal(problem, device, config) else None

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        """The defaults on the other likely bases, then the starts of the first one."""
        first, *others = (each for each in self.alternatives(problem) if each.why_not(problem, device) is None)
        defaults = (each.default(problem, device) for each in others)
        return tuple(dict.fromkeys((*defaults, *first.starts(problem, device))))

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return self.of(config).unrolled(problem, config)

    def work(self, problem: Conv2d, config: Config) -> Work | None:
        return self.of(config).work(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return self.of(config).program(problem, config)

    def _first(self, problem: Conv2d) -> FourierPipeline:
        basis = self.variant.first(problem)
        if isinstance(basis, str):
            raise ValueError(f"{problem.key()} is not solved by {self.name}: {basis}")
        return self.on(basis)


class _Bases(Branches):
    """The bases of a layer, each with the joined space of its stages."""

    name = BASIS

    def __init__(self, variant: Variant, problem: Conv2d, device: Device) -> None:
        self._variant, self._problem, self._device = variant, problem, device
        self.likely = tuple(basis.word for basis in variant.likely(problem))

    @functools.cached_property
    def values(self) -> tuple[str, ...]:
        return tuple(basis.word for basis in self._variant.bases(self._problem))

    def space(self, value: str) -> Space | str:
        pipeline = _on(self._variant, Basis.of(value))
        return pipeline.why_not(self._problem, self._device) or pipeline.space(self._problem, self._device)


@functools.lru_cache(maxsize=1024)  # plans keep answers by pipeline
def _on(variant: Variant, basis: Basis) -> FourierPipeline:
    return FourierPipeline(variant, basis)


@functools.lru_cache(maxsize=64)  # a default, its legality and the starts of a search all use it
def _spaces(variant: Variant, problem: Conv2d, device: Device) -> BranchingSpace:
    return BranchingSpace(_Bases(variant, problem, device))


@functools.lru_cache(maxsize=1024)
def _why_not(pipeline: FourierPipeline, problem: Conv2d, device: Device) -> str | None:
    parts = pipeline.variant.parts(problem, pipeline.basis)
    return parts if isinstance(parts, str) else pipeline.unsolved_stage(problem, device)


@functools.lru_cache(maxsize=512)  # a search meets some hundred bases; a space takes 1 ms
def _branch(pipeline: FourierPipeline, problem: Conv2d, device: Device) -> Space:
    spaces = {each.name: each.family.space(each.problem, device) for each in pipeline.stages(problem)}
    joined = Space.joined(spaces)
    limits = pipeline.variant.product.constraints(pipeline.parts(problem), joined.names)
    own = Parameter(BASIS, (pipeline.basis.word,), "points of all transforms, rows by columns")
    return Space((own, *joined.parameters), (*joined.constraints, *limits))


def _fitting(config: Config, space: Space) -> Config:
    """The config, or the most similar legal one, with as few split sums as the workspace has room for."""
    return config if space.contains(config) else space.like(config.values()) or config


def _of_part(transform: Stage, number: int) -> Run:
    """The forward transform of one part of the batch."""
    return Run(transform, {"signal": number * transform.problem.inputs[0].nbytes})
