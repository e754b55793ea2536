"""What a layer in the frequency domain is made of: basis, spectra, and the parts of a batch that fit a workspace."""

from __future__ import annotations

import dataclasses
import functools
from math import prod
from typing import ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d.fold import Fold, folds
from warpsmith.generator.conv2d.fourier.basis import Basis, bases
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.fft.block.guesses import MOST_TOGETHER, NEIGHBOURS
from warpsmith.generator.fft.border import Border
from warpsmith.generator.fft.problem import Fft, Kind, Layout
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.rates import REFERENCE, Rates
from warpsmith.generator.steps import Workspace, aligned
from warpsmith.generator.tensor_cores import TensorInstruction

MOST_PARTS = 64
"""Of a batch: with more of them transforms and products are too small to fill a GPU."""
MEMORY_SHARE = 2500 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that transforms and products reach (measured, H200, 2026-11-24)."""
OPS = {Pass.FPROP: (Op.N, Op.C), Pass.DGRAD: (Op.N, Op.N), Pass.WGRAD: (Op.C, Op.N)}
"""Of the product's operands: the layer is X conj(W), its gradients are DY W and conj(DY) X, with images as rows of X
and DY and filters as rows of W."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProductRate:
    """How fast a family's products of spectra are, as it was measured on the reference GPU (an H200)."""

    flops_per_ns: float
    instruction: TensorInstruction | None = None
    """What multiplies; None for float32 multiply-adds."""

    def ns(self, flops: float, rates: Rates) -> float:
        """The time of products of so many operations: they reach the same share of a data sheet everywhere."""
        share = self.flops_per_ns / self._multiply_adds_per_ns(REFERENCE)
        return flops / (share * self._multiply_adds_per_ns(rates))

    def _multiply_adds_per_ns(self, rates: Rates) -> float:
        if self.instruction is None:
            return rates.multiply_adds_per_ns
        return rates.tensor_multiply_adds_per_ns(self.instruction)


FLOAT32_PRODUCTS = ProductRate(35_000)
"""Products on the float32 units (2026-11-24)."""


@dataclasses.dataclass(frozen=True)  # without slots: problems of a layer are asked for many times, and made once
class FourierParts:
    """A layer, its basis, and into how many parts its batch is split.

    The first operand of the product is split with the batch, as its result is; the second one is whole. A gradient of
    weights sums over the batch: both operands are split, and the results of all parts are kept and added up.
    """

    beside: ClassVar[int] = 0
    """Bytes of the layer's workspace that something else needs."""
    adds_parts: ClassVar[bool] = True
    """Whether a sum over the batch may be one of sums over parts of it."""

    layer: Conv2d
    basis: Basis
    count: int

    @classmethod
    @functools.lru_cache(256)
    def of(cls, layer: Conv2d, basis: Basis) -> FourierParts | None:
        """In the fewest parts whose spectra fit the layer's workspace; None where there are no such."""
        images = layer.input[0]
        counts = range(1, min(images, MOST_PARTS if cls.adds_parts or layer.pass_ is not Pass.WGRAD else 1) + 1)
        found = (cls(layer, basis, count) for count in counts if images % count == 0)
        return next((parts for parts in found if parts.fits), None)

    @staticmethod
    def bases(layer: Conv2d) -> tuple[Basis, ...]:
        """The ones worth trying, the likeliest first."""
        return bases(layer)

    @property
    def fits(self) -> bool:
        """Whether the layer's workspace holds the spectra. It holds none that are larger than an operand may be."""
        try:
            return self.workspace_bytes + self.beside <= self.layer.workspace_limit
        except BadArgument:
            return False

    @property
    def images(self) -> int:
        """Of a part."""
        return self.layer.input[0] // self.count

    @property
    def signals(self) -> int:
        """Transforms of each channel, and so rows of the first operand, or terms of a sum over the batch."""
        return self.images

    @property
    def factors(self) -> tuple[Operand, Operand]:
        """The operands of the layer that are the product's first and second one."""
        first, second = self.layer.inputs[:2]  # behind them is a bias
        return (second, first) if self.layer.pass_ is Pass.WGRAD else (first, second)

    @functools.cached_property
    def product(self) -> Cgemm:
        """Of each part."""
        (_, channels, _, _), filters, signals = self.layer.input, self.layer.weight[0], self.signals
        m, n, k = {
            Pass.FPROP: (signals, filters, channels),
            Pass.DGRAD: (signals, channels, filters),
            Pass.WGRAD: (filters, channels, signals),
        }[self.layer.pass_]
        return Cgemm(self.basis.frequencies, m, n, k, *OPS[self.layer.pass_])

    @functools.cached_property
    def forward(self) -> tuple[Fft, Fft]:
        """The transforms of both factors; of those that are split, of each part."""
        first, second = (self.transform(each, Kind.R2C) for each in self.factors)
        return self._of_part(first), self._of_part(second) if self.is_sum else second

    @functools.cached_property
    def inverse(self) -> Fft:
        """The transforms to the result, or to the gradient of padded images, of each part where it is split."""
        whole = self.transform(self.layer.of_padded.output, Kind.C2R)
        return whole if self.is_sum else self._of_part(whole)

    @property
    def is_sum(self) -> bool:
        """Whether the result is one sum over the batch."""
        return self.layer.pass_ is Pass.WGRAD

    @property
    def has_bias_behind(self) -> bool:
        """Whether a bias is added to the spectra of the result, by a step of its own."""
        return self.layer.bias

    @property
    def results(self) -> int:
        """Whose spectra are kept at a time, to be added up."""
        return self.count if self.is_sum else 1

    @property
    def result_pitch_bytes(self) -> int:
        """From the spectra of a part's result to those of the next."""
        return aligned(self.product.output.nbytes)

    @property
    def fold(self) -> Fold | None:
        """What comes after the transforms back, of each part; None where they write the result."""
        return Fold.of(self.layer, "fold", self.images) if folds(self.layer) else None

    def expected_ns(self, rates: Rates, products: ProductRate = FLOAT32_PRODUCTS) -> float:
        """The time of all steps on a device of these rates, each as long as its bytes or its sums take."""
        first, second, result = (transform_ns(each, rates) for each in (*self.forward, self.inverse))
        product = step_ns(self.product.bytes, rates, products.ns(self.product.flops, rates))
        if not self.is_sum:
            return self.count * (first + product + result + self.fold_ns(rates)) + second
        added = step_ns((self.count + 1) * self.product.output.nbytes, rates) if self.count > 1 else 0.0
        return self.count * (first + second + product) + added + result

    def fold_ns(self, rates: Rates) -> float:
        """The time of folding a part; 0 where none is folded."""
        return 0.0 if self.fold is None else step_ns(self.fold.nbytes, rates)

    @property
    def spectra_bytes(self) -> int:
        """Of all spectra that are kept at a time, each aligned as workspaces are."""
        assert self.product.output.dtype is DType.COMPLEX64
        return sum(aligned(each.nbytes) for each in self.product.inputs) + self.results * self.result_pitch_bytes

    @property
    def workspace_bytes(self) -> int:
        """Of the spectra and of what is folded."""
        nbytes = 0 if self.fold is None else self.fold.workspace.nbytes
        return self.spectra_bytes + aligned(nbytes)

    def workspaces(self, names: tuple[str, str, str]) -> tuple[Workspace, ...]:
        """The spectra of the first and the second factor and of the result; a plan may hold those of filters. Behind
        them is what is folded."""
        holds = ((), ("w",) if self.factors[1].name == "w" else (), ())
        a, b, c = (operand.nbytes for operand in self.product.operands)
        each = zip(names, (a, b, c + (self.results - 1) * self.result_pitch_bytes), holds, strict=True)
        spectra = tuple(Workspace(name, nbytes, holds=held) for name, nbytes, held in each)
        return spectra if self.fold is None else (*spectra, self.fold.workspace)

    def _of_part(self, transform: Fft) -> Fft:
        return dataclasses.replace(transform, batch=transform.batch // self.count)

    def transform(self, operand: Operand, kind: Kind) -> Fft:
        """Of all planes. A filter's begins at the tap that lies on the first pixel, so that padding moves nothing.
        Padding that has pixels is a border of the image, whose first row is the first point, as the first tap is."""
        *planes, rows, columns = operand.shape
        before = tuple(pads[0] for pads in self.layer.of_padded.padding)
        is_filter = operand.name in ("w", "dw")
        start = tuple(-pad % points for pad, points in zip(before, self.basis.size, strict=True)) if is_filter else None
        has_border = operand.name == "x" and self.layer.padding_mode is not PaddingMode.ZEROS
        border = Border(self.layer.padding_mode, self.layer.padding) if has_border else None
        return Fft(
            self.basis.size,
            prod(planes),
            kind,
            valid=(rows, columns),
            layout=Layout.FREQUENCY,
            start=start,
            border=border,
            together=self.together(operand, prod(planes)),
        )

    def together(self, operand: Operand, batch: int) -> int | None:
        """Transforms of an image's own, of `batch` in all, where two of them are not always a pair; None for filters,
        which all images meet.
        """
        own = batch // self.layer.input[0]
        return own if own % 2 and operand.name not in ("w", "dw") else None


_WRITTEN_IN_PART = 3.0
"""What a part of a sector that is not written costs, for one that is not read: 12,288 planes of 128x128 made the passes
of L1 that transform them forward 1.45 times as long as the one back (2002 and 1886 us for 1350, H200)."""


def memory_ns(nbytes: float, rates: Rates) -> float:
    """The time in which a step moves so many bytes."""
    return nbytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)


def step_ns(nbytes: float, rates: Rates, computed_ns: float = 0.0) -> float:
    """The time of a launch that moves so many bytes while it computes."""
    return max(memory_ns(nbytes, rates), computed_ns) + rates.launch_ns


def transform_ns(transform: Fft, rates: Rates) -> float:
    """The time of the transforms of a layer's planes."""
    (spectrum,) = (operand for operand in transform.operands if operand.name == "spectrum")
    unused = spectrum.nbytes * (sector_share(transform.size) - 1)
    if not transform.inverse:
        unused *= _WRITTEN_IN_PART
    return step_ns(transform.bytes + unused, rates)


def sector_share(size: tuple[int, ...]) -> float:
    """Bytes that move for each one of a spectrum that lies frequency by frequency.

    Memory moves by sectors, of which transforms too large to be a few in a tile use a part: 12,288 of 128x128 points,
    two a tile, went at 1.37 KB/ns where those of 64x64, four a tile, went at 2.2 (H200, 2026-11-24).
    """
    together = MOST_TOGETHER // (prod(size) // 2)  # two real numbers are a complex one
    return NEIGHBOURS / max(1, min(NEIGHBOURS, together))
