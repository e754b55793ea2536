"""Product stages of a Fourier layer: the family that multiplies spectra, and what a pipeline has to know of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import ClassVar

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.cublas_family import STREAMS
from warpsmith.generator.cgemm.tiled_geometry import parts_bytes
from warpsmith.generator.cgemm.warpgroup_family import stream_k_bytes
from warpsmith.generator.conv2d.fourier.fourier_steps import most_streams, with_room
from warpsmith.generator.conv2d.fourier.parts import FLOAT32_PRODUCTS, FourierParts, ProductRate
from warpsmith.generator.conv2d.layer.fold import PADDED
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES
from warpsmith.generator.pipeline import Stage
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Program
from warpsmith.generator.space import Constraint

SPECTRA = ("spectra_a", "spectra_b", "spectra_c")
"""Workspaces for the spectra of both factors and of the result, (frequencies, rows, columns) as in the product."""
RESULT = "result"
"""Name of the stage with the inverse transform."""
SPLITS = "product.splits"
"""The parameter of `cgemm_tiled`, `cgemm_tensor` and `cgemm_warpgroup` that needs a workspace."""
CALLS = "product.calls"
"""The parameter of `cgemm_cublas` that needs a workspace."""
STREAM_K = ("product.groups", "product.columns", "product.dealt_to")
"""Parameters of `cgemm_warpgroup` that need a workspace under stream-K scheduling."""
TRANSFORM = FftBlock()


@dataclasses.dataclass(frozen=True, eq=False)
class ProductStage:
    """Products of complex float32 spectra, one complex GEMM per frequency."""

    family: Family[Cgemm]
    rate: ProductRate = FLOAT32_PRODUCTS
    accuracy: Accuracy = Accuracy.ELEMENTWISE
    """Scale of the products' errors. The layer's own errors are relative to its whole result in any case."""
    is_selective: bool = False
    """Whether a layer is likely only if the family is likely for its product."""

    parts: ClassVar[type[FourierParts]] = FourierParts
    beside: ClassVar[int] = 0
    """Bytes of the layer's workspace that other steps need."""

    def why_not(self, layer: Conv2d) -> str | None:  # noqa: ARG002 - the interface's
        """Why a layer has no such product, in one line; None if it may have one."""
        return None

    def is_likely(self, parts: FourierParts, device: Device) -> bool:
        return not self.is_selective or self.family.is_likely(self.problem(parts), device)

    def expected_ns(self, parts: FourierParts, device: Device) -> float:
        """Nanoseconds of all steps of a layer."""
        return parts.expected_ns(device.rates, self.rate)

    def problem(self, parts: FourierParts) -> Cgemm:
        """The product of a part. With several images its errors are relative to each row, so that images do not mix."""
        has_rows_apart = self.accuracy is Accuracy.NORMWISE and not parts.is_sum and parts.images > 1
        return dataclasses.replace(parts.product, accuracy=Accuracy.ROWWISE if has_rows_apart else self.accuracy)

    def stages(self, parts: FourierParts) -> tuple[Stage, ...]:
        """The forward transforms, the product and the inverse transform."""
        a, b, c = SPECTRA
        (first, second), (first_transform, second_transform) = parts.factors, parts.forward
        target = parts.layer.output.name if parts.fold is None else PADDED
        return (
            Stage("first", first_transform, TRANSFORM, {"signal": first.name, "spectrum": a}),
            Stage("second", second_transform, TRANSFORM, {"signal": second.name, "spectrum": b}),
            Stage("product", self.problem(parts), self.family, {"a": a, "b": b, "c": c}),
            Stage(RESULT, parts.inverse, TRANSFORM, {"spectrum": c, "signal": target}),
        )

    def constraints(self, parts: FourierParts, names: Collection[str]) -> tuple[Constraint, ...]:
        """Constraints on parameters of these names: sums are split only as far as the workspace allows."""
        if SPLITS not in names:
            return ()
        left = parts.workspace_left
        why = f"the spectra leave {left} bytes of workspace to the parts of sums"
        split = Constraint(why, lambda splits: parts_bytes(parts.product, splits) <= left, (SPLITS,))
        if STREAM_K[-1] not in names:
            return (split,)
        return split, Constraint(why, lambda *tiles: stream_k_bytes(*tiles) <= left, STREAM_K)

    def finished(self, program: Program, layer: Conv2d) -> Program:  # noqa: ARG002 - the interface's
        """The layer's program with what the product still needs."""
        return program


class CublasStage(ProductStage):
    """Products by cuBLAS, in the workspace that the spectra leave."""

    beside = LEAST_CUBLAS_BYTES

    def constraints(self, parts: FourierParts, names: Collection[str]) -> tuple[Constraint, ...]:  # noqa: ARG002
        """Products run on no more streams than the workspace has shares for."""
        left = parts.workspace_left
        why = f"the spectra leave {left} bytes of workspace to cuBLAS, a share for each stream"
        return (Constraint(why, lambda calls: STREAMS[calls] <= most_streams(left), (CALLS,)),)

    def finished(self, program: Program, layer: Conv2d) -> Program:
        return with_room(program, layer.workspace_limit)
