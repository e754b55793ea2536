"""Layers in the frequency domain: transforms of all planes, a complex GEMM per frequency, and inverse transforms.

The planes of both operands are transformed whole. They are padded with zeros as they are read, and written frequency by
frequency, so that the matrices of a product are contiguous: images by channels, or filters by channels. The result is
clipped as it is written. Padding takes no memory: it is part of the point at which a filter's plane begins.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.1 (the steps of each pass, table 1) and
section 5 (transforms that pad and clip, and leave their results in the order that the products read, so that nothing is
transposed); Mathieu et al. 2014, "Fast Training of Convolutional Networks through FFTs".
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.cublas_family import STREAMS, CgemmCublas
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.cgemm.tiled_geometry import parts_bytes
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup, stream_k_bytes
from warpsmith.generator.conv2d.fourier.ends import with_ends, with_fold
from warpsmith.generator.conv2d.fourier.libraries import PartsForCublas, most_streams, with_room
from warpsmith.generator.conv2d.fourier.parts import FLOAT32_PRODUCTS, FourierParts, ProductRate
from warpsmith.generator.conv2d.fourier.sums import with_sums
from warpsmith.generator.conv2d.fourier.support import why_not_by_transforms
from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.fold import PADDED
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.work import direct_ns
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.pipeline import Pipeline, Run, Stage
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Space
from warpsmith.generator.steps import Workspace
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType, instruction_of

SPECTRA = ("spectra_a", "spectra_b", "spectra_c")
"""Workspaces for the spectra of both factors and of the result, (frequencies, rows, columns) as in the product."""

RESULT = "result"
"""Name of the stage with the inverse transform."""
SPLITS = "product.splits"
"""The parameter of `cgemm_tiled`, `cgemm_tensor` and `cgemm_warpgroup` that needs a workspace."""
CALLS = "product.calls"
"""The parameter of `cgemm_cublas` that needs a workspace."""
DEALT = ("product.groups", "product.columns", "product.dealt_to")
"""Parameters of `cgemm_warpgroup` that need a workspace under stream-K scheduling."""


class Conv2dFft(Pipeline[Conv2d]):
    """`conv2d` by Fourier transforms of whole planes on the likeliest basis."""

    name = "conv2d_fft"
    default_reach = DEFAULT_REACH
    rank: ClassVar[int] = 0
    """Index of the basis among the likely ones."""
    transform: ClassVar[Family] = FftBlock()
    product: ClassVar[Family] = CgemmTiled()
    parts: ClassVar[type[FourierParts]] = FourierParts
    product_rate: ClassVar[ProductRate] = FLOAT32_PRODUCTS
    accuracy: ClassVar[Accuracy] = Accuracy.ELEMENTWISE
    """Scale of the products' errors. The layer's own errors are relative to its whole result in any case."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := why_not_by_transforms(problem)) is not None:
            return why
        if self.rank >= (found := len(bases := self.parts.bases(problem))):
            return f"takes basis size number {self.rank + 1}, of which there are {found}"
        if self.parts.of(problem, bases[self.rank]) is None:
            return f"needs more than {problem.workspace_limit} bytes of workspace"
        return self.unsolved_stage(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Whether its steps are expected to take less time than sums over taps."""
        if device.kind is not DeviceKind.CUDA or self.rank > 0 or not self.may_answer:
            return False
        return self._parts(problem).expected_ns(device.rates) < direct_ns(problem, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return self._parts(problem).expected_ns(device.rates, self.product_rate)

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        parts = self._parts(problem)
        return _stages(parts, self._product(parts), self.transform, self.product)

    def space(self, problem: Conv2d, device: Device) -> Space:
        """The joined spaces of the stages; a product may split its sums only as far as the workspace allows."""
        return _space(self, problem, device)

    def _limited(self, problem: Conv2d, device: Device) -> Space:
        joined, parts = super().space(problem, device), self._parts(problem)
        names = {parameter.name for parameter in joined.parameters}
        if SPLITS not in names:
            return joined
        left = parts.layer.workspace_limit - parts.workspace_bytes
        told = f"the spectra leave {left} bytes of workspace to the parts of sums"
        limits = [Constraint(told, lambda splits: parts_bytes(parts.product, splits) <= left, (SPLITS,))]
        if DEALT[-1] in names:
            limits.append(Constraint(told, lambda *tiles: stream_k_bytes(*tiles) <= left, DEALT))
        return Space(joined.parameters, (*joined.constraints, *limits))

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
        parts, spectra = self._parts(problem), SPECTRA[2]
        joined = with_sums(super().program(problem, config), parts, spectra, RESULT)
        return with_ends(with_fold(joined, parts, RESULT), parts, spectra, RESULT)

    def _product(self, parts: FourierParts) -> Cgemm:
        """The product of a part. With several images its errors are relative to each row, so that images do not mix."""
        has_rows_apart = self.accuracy is Accuracy.NORMWISE and not parts.is_sum and parts.images > 1
        return dataclasses.replace(parts.product, accuracy=Accuracy.ROWWISE if has_rows_apart else self.accuracy)

    def _parts(self, problem: Conv2d) -> FourierParts:
        parts = self.parts.of(problem, self.parts.bases(problem)[self.rank])
        if parts is None:
            raise ValueError(f"{problem.key()} is not solved by {self.name}")
        return parts


class Conv2dFftTensor(Conv2dFft):
    """`conv2d_fft` with products on the tensor cores, as accurate as in float32."""

    name = "conv2d_fft_tensor"
    product: ClassVar[Family] = CgemmTensor()
    product_rate = ProductRate(50_000, instruction_of(TensorType.TF32))

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Whether the family is likely by its transforms, and tensor cores are likely for its products."""
        product = self._product(self._parts(problem)) if super().is_likely(problem, device) else None
        return product is not None and self.product.is_likely(product, device)


class Conv2dFftWarpgroup(Conv2dFftTensor):
    """`conv2d_fft` with wgmma products on split fp16 spectra. Their errors are relative to the norm of each matrix, as
    a layer's own errors are.
    """

    name = "conv2d_fft_warpgroup"
    product: ClassVar[Family] = CgemmWarpgroup()
    product_rate = ProductRate(110_000, instruction_of(TensorType.F16, WARPGROUP))
    """86,000 to 151,000 in 22 passes of AlexNet and OverFeat, the more the larger they are."""
    accuracy = Accuracy.NORMWISE


class Conv2dFftThin(Conv2dFft):
    """`conv2d_fft` for results with few channels, or gradients of weights with few filters or channels."""

    name = "conv2d_fft_thin"
    product: ClassVar[Family] = CgemmThin()


class Conv2dFft2(Conv2dFft):
    """`conv2d_fft` on the second likeliest basis."""

    name = "conv2d_fft_2"
    rank = 1


class Conv2dFft3(Conv2dFft):
    """`conv2d_fft` on the third likeliest basis."""

    name = "conv2d_fft_3"
    rank = 2


class Conv2dFftCublas(Conv2dFft):
    """`conv2d_fft` with cuBLAS for the products, in the workspace that the spectra leave."""

    name = "conv2d_fft_cublas"
    may_answer = False
    product = CgemmCublas()
    parts = PartsForCublas

    def _limited(self, problem: Conv2d, device: Device) -> Space:
        """The joined spaces of the stages, with products on no more streams than the workspace has shares for."""
        joined, parts = super()._limited(problem, device), self._parts(problem)
        left = parts.layer.workspace_limit - parts.workspace_bytes
        told = f"the spectra leave {left} bytes of workspace to cuBLAS, a share for each stream"
        limit = Constraint(told, lambda calls: STREAMS[calls] <= most_streams(left), (CALLS,))
        return Space(joined.parameters, (*joined.constraints, limit))

    def program(self, problem: Conv2d, config: Config) -> Program:
        return with_room(super().program(problem, config), problem.workspace_limit)


@functools.lru_cache(maxsize=256)
def _stages(parts: FourierParts, product: Cgemm, transform: Family, multiplies: Family) -> tuple[Stage, ...]:
    a, b, c = SPECTRA
    (first, second), (first_transform, second_transform) = parts.factors, parts.forward
    target = parts.layer.output.name if parts.fold is None else PADDED
    return (
        Stage("first", first_transform, transform, {"signal": first.name, "spectrum": a}),
        Stage("second", second_transform, transform, {"signal": second.name, "spectrum": b}),
        Stage("product", product, multiplies, {"a": a, "b": b, "c": c}),
        Stage(RESULT, parts.inverse, transform, {"spectrum": c, "signal": target}),
    )


@functools.lru_cache(maxsize=64)  # a default, its legality and the starts of a search all use it
def _space(family: Conv2dFft, problem: Conv2d, device: Device) -> Space:
    return family._limited(problem, device)


def _fitting(config: Config, space: Space) -> Config:
    """The config, or the most similar legal one, with as few split sums as the workspace has room for."""
    return config if space.contains(config) else space.like(config.values()) or config


def _of_part(transform: Stage, number: int) -> Run:
    """The forward transform of one part of the batch."""
    return Run(transform, {"signal": number * transform.problem.inputs[0].nbytes})
