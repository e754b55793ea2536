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

from warpsmith.generator.conv2d.fourier.fourier_steps import with_ends
from warpsmith.generator.conv2d.fourier.parts import FourierParts, why_not_by_transforms
from warpsmith.generator.conv2d.fourier.plane_transforms import Basis, PlaneTransforms
from warpsmith.generator.conv2d.fourier.product_stage import RESULT, SPECTRA, ProductStage
from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Subject
from warpsmith.generator.pipeline import Pipeline, Run, Stage
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space
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
    """How a Fourier family transforms planes, multiplies spectra and chooses its basis."""

    name: str
    """Name of the family."""
    transforms: PlaneTransforms
    product: ProductStage
    rank: int = 0
    """Index of the basis among the likely ones."""
    rival: Variant | None = None
    """The variant on whole planes that tiles must be expected to beat; None for whole planes."""

    def bases(self, layer: Conv2d) -> tuple[Basis, ...]:
        """Basis sizes for a layer, the likeliest first."""
        return self.product.parts.bases(layer, self.transforms)

    @functools.lru_cache(1024)  # noqa: B019 - variants live as long as the process
    def parts(self, layer: Conv2d) -> FourierParts | str:
        """The parts of a layer; one line that says why if the variant does not solve it."""
        limits = self.product.why_not(layer) or self.transforms.why_not(layer)
        if (why := limits or why_not_by_transforms(layer)) is not None:
            return why
        if self.rank >= (found := len(bases := self.bases(layer))):
            return f"takes basis size number {self.rank + 1}, of which there are {found}"
        parts = self.product.parts.of(layer, bases[self.rank], self.transforms, self.product.beside)
        return f"needs more than {layer.workspace_limit} bytes of workspace" if parts is None else parts

    @functools.lru_cache(256)  # noqa: B019 - likewise
    def stages(self, parts: FourierParts) -> tuple[Stage, ...]:
        return self.product.stages(parts)


class Conv2dFft(Pipeline[Conv2d]):
    """`conv2d` by Fourier transforms; `variants` lists the families."""

    default_reach = DEFAULT_REACH

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.name = variant.name
        self.may_answer = variant.product.family.may_answer
        self._rival = None if variant.rival is None else Conv2dFft(variant.rival)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        parts = self.variant.parts(problem)
        return parts if isinstance(parts, str) else self.unsolved_stage(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Whether its steps are expected to take less time than sums over taps, and tiles less than whole planes.

        For one tap a transform saves no products. Small planes' gradients of weights are left to other families.
        """
        is_small = problem.pass_.sums_images and max(problem.output_size) < LEAST_GRADIENT_SIZE
        if is_small or problem.weight[2:] == (1, 1):
            return False
        if device.kind is not DeviceKind.CUDA or self.variant.rank > 0 or not self.may_answer:
            return False
        parts, expected_ns = self._parts(problem), self.expected_ns(problem, device)
        if expected_ns >= direct_ns(problem, device):
            return False
        if self._rival is not None and self._rival.why_not(problem, device) is None:
            # Whole planes have fewer rows in their products, which may be too few for tensor cores.
            has_products = self.variant.product.is_likely(self._rival._parts(problem), device)
            tiles_ns = parts.expected_ns(device.rates) if has_products else expected_ns
            slower = ODD_COLUMNS if parts.basis.columns % 2 else 1.0
            if slower * tiles_ns >= self._rival.expected_ns(problem, device):
                return False
        return self.variant.product.is_likely(parts, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return self.variant.product.expected_ns(self._parts(problem), device)

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        return self.variant.stages(self._parts(problem))

    def space(self, problem: Conv2d, device: Device) -> Space:
        """The joined spaces of the stages, with what the workspace allows."""
        return _space(self, problem, device)

    def _limited(self, problem: Conv2d, device: Device) -> Space:
        joined = super().space(problem, device)
        names = {parameter.name for parameter in joined.parameters}
        limits = self.variant.product.constraints(self._parts(problem), names)
        return Space(joined.parameters, (*joined.constraints, *limits)) if limits else joined

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _fitting(super().default(problem, device), self.space(problem, device))

    def carried(self, config: Config, home: Subject[Conv2d], problem: Conv2d, device: Device) -> Config | None:
        """`config` itself, if it is legal here. Winners that were changed for transforms of other sizes took 1.13 times
        the best in 24 pairs of layers, the default of the likeliest family 1.05 times.
        """
        return config if self.is_legal(problem, device, config) else None

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        space = self.space(problem, device)
        return tuple(dict.fromkeys(_fitting(config, space) for config in super().starts(problem, device)))

    def runs(self, problem: Conv2d) -> tuple[Run, ...]:
        """The runs of all stages.

        The second factor is transformed once if it is not split. The other stages run for each part of the batch, whose
        results may be one sum.
        """
        parts = self._parts(problem)
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
        return self._parts(problem).workspaces(SPECTRA)

    def program(self, problem: Conv2d, config: Config) -> Program:
        program = with_ends(super().program(problem, config), self._parts(problem), SPECTRA[2], RESULT)
        return self.variant.product.finished(program, problem)

    def _parts(self, problem: Conv2d) -> FourierParts:
        parts = self.variant.parts(problem)
        if isinstance(parts, str):
            raise ValueError(f"{problem.key()} is not solved by {self.name}: {parts}")
        return parts


@functools.lru_cache(maxsize=64)  # a default, its legality and the starts of a search all use it
def _space(family: Conv2dFft, problem: Conv2d, device: Device) -> Space:
    return family._limited(problem, device)


def _fitting(config: Config, space: Space) -> Config:
    """The config, or the most similar legal one, with as few split sums as the workspace has room for."""
    return config if space.contains(config) else space.like(config.values()) or config


def _of_part(transform: Stage, number: int) -> Run:
    """The forward transform of one part of the batch."""
    return Run(transform, {"signal": number * transform.problem.inputs[0].nbytes})
