"""Parts of a layer in the frequency domain: basis, spectra, the parts of a batch that fit a workspace, model times."""

from __future__ import annotations

import dataclasses
import functools
from math import prod
from typing import ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d.fourier.plane_transforms import (
    TILES,
    WHOLE_PLANES,
    Basis,
    BasisRules,
    PlaneTransforms,
    slowness,
)
from warpsmith.generator.conv2d.layer.fold import Fold, folds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_usual_data, why_not_usual_end
from warpsmith.generator.device import REFERENCE, Rates
from warpsmith.generator.fft.block.block_family import MOST_TOGETHER, NEIGHBOURS
from warpsmith.generator.fft.problem import Fft, Kind
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand
from warpsmith.generator.steps import Workspace, aligned
from warpsmith.generator.tensor_cores import TensorInstruction

MOST_PARTS = 64
"""Most parts of a batch; with more, transforms and products are too small to fill a GPU."""
MEMORY_SHARE = 2500 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that transforms and products reach (measured, H200, 2026-11-24)."""
COMPLEX_BYTES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class ProductRate:
    """Rate of a family's products of spectra, measured on the reference GPU (an H200)."""

    flops_per_ns: float
    instruction: TensorInstruction | None = None
    """Tensor-core instruction of the products; None for float32 multiply-adds."""

    def ns(self, flops: float, rates: Rates) -> float:
        """Nanoseconds of products with `flops` operations, at the same share of the data-sheet rate on all GPUs."""
        share = self.flops_per_ns / self._multiply_adds_per_ns(REFERENCE)
        return flops / (share * self._multiply_adds_per_ns(rates))

    def _multiply_adds_per_ns(self, rates: Rates) -> float:
        if self.instruction is None:
            return rates.multiply_adds_per_ns
        return rates.tensor_multiply_adds_per_ns(self.instruction)


FLOAT32_PRODUCTS = ProductRate(35_000)
"""Products on the float32 units (2026-11-24)."""


def why_not_by_transforms(layer: Conv2d) -> str | None:
    """Why Fourier transforms of planes do not solve a layer, in one line; None if they do."""
    if layer.accuracy is Accuracy.ELEMENTWISE:
        return "has errors relative to the whole result: accuracy normwise"
    if layer.nonfinite is NonFinite.WINDOW:
        return "lets a NaN reach all results of its image: needs nonfinite any"
    if layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups > 1:
        return "takes stride 1, dilation 1 and one group"
    return why_not_usual_data(layer) or why_not_usual_end(layer)


def tile_cost_ns(layer: Conv2d, basis: Basis) -> float:
    """Nanoseconds to move the spectra of tiles there and back and to multiply them; the planes are the same for all
    sizes.

    The model is that of `FourierParts.expected_ns`, with transforms weighed by their factors, on the reference GPU,
    since the tiles of a config are the same everywhere.
    """
    signals = layer.input[0] * prod(TILES.tiles(layer, basis))
    filters, channels = layer.weight[:2]
    spectra = signals * channels + signals * filters + filters * channels
    nbytes = float(COMPLEX_BYTES * basis.frequencies * spectra)
    products_ns = FLOAT32_PRODUCTS.ns(8 * basis.frequencies * signals * filters * channels, REFERENCE)
    transforms_ns = memory_ns(nbytes * sector_share(basis.size) * slowness(basis), REFERENCE)
    return transforms_ns + max(memory_ns(nbytes, REFERENCE), products_ns)


@dataclasses.dataclass(frozen=True)  # without slots: problems of a layer are asked for many times, and made once
class FourierParts:
    """A layer, its basis, the number of parts of its batch, and how its planes are transformed.

    At each frequency the spectrum of x is a matrix of images by channels, that of w of filters by channels, and that of
    y of images by filters; with tiles, each tile of an image is a row. The layer is X conj(W), and its gradients are DY
    W and conj(DY) X. The first operand of the product is split with the batch, and so is its result; the second operand
    is whole. A gradient of weights sums over the batch: both operands are split, and the results of all parts are kept
    and added up.
    """

    adds_parts: ClassVar[bool] = True
    """Whether a sum over the batch may be computed as a sum over its parts."""
    rules: ClassVar[BasisRules] = BasisRules(tile_cost_ns)

    layer: Conv2d
    basis: Basis
    count: int
    transforms: PlaneTransforms = WHOLE_PLANES

    @classmethod
    @functools.lru_cache(256)
    def of(
        cls, layer: Conv2d, basis: Basis, transforms: PlaneTransforms = WHOLE_PLANES, beside: int = 0
    ) -> FourierParts | None:
        """The fewest parts whose spectra fit the layer's workspace beside so many bytes; None if no number of parts
        fits.
        """
        images = layer.input[0]
        most = MOST_PARTS if cls.adds_parts or not layer.pass_.sums_images else 1
        found = (cls(layer, basis, n, transforms) for n in range(1, min(images, most) + 1) if images % n == 0)
        return next((parts for parts in found if parts.fits(beside)), None)

    def fits(self, beside: int = 0) -> bool:
        """Whether the layer's workspace holds the spectra and `beside` bytes. No spectrum may be larger than an operand
        may be.
        """
        try:
            return self.workspace_bytes + beside <= self.layer.workspace_limit
        except BadArgument:
            return False

    @property
    def images(self) -> int:
        """Images per part."""
        return self.layer.input[0] // self.count

    @property
    def signals(self) -> int:
        """Transforms per channel, which are the rows of the first operand, or the terms of a sum over the batch."""
        return self.images * prod(self.transforms.tiles(self.layer, self.basis))

    @functools.cached_property
    def factors(self) -> tuple[Operand, Operand]:
        """The operands of the layer that are the product's first and second operand."""
        named = {operand.name: operand for operand in self.layer.inputs}
        first, second = self.layer.pass_.factors
        return named[first], named[second]

    @functools.cached_property
    def product(self) -> Cgemm:
        """The product of one part; a factor that is transposed is conjugated."""
        m, n, k = self.layer.pass_.gemm(self.signals, self.layer.input[1], self.layer.weight[0])
        a, b = self.layer.pass_.select((Op.N, Op.C), (Op.N, Op.N), (Op.C, Op.N))
        return Cgemm(self.basis.frequencies, m, n, k, a, b)

    @functools.cached_property
    def forward(self) -> tuple[Fft, Fft]:
        """The transforms of both factors; for factors that are split, those of one part."""
        first, second = (self._transform(each, Kind.R2C) for each in self.factors)
        return self._of_part(first), self._of_part(second) if self.is_sum else second

    @functools.cached_property
    def inverse(self) -> Fft:
        """The transforms to the result, or to the gradient of padded images; for results that are split, those of one
        part.
        """
        whole = self._transform(self.layer.of_padded.output, Kind.C2R)
        return whole if self.is_sum else self._of_part(whole)

    @functools.cached_property
    def is_sum(self) -> bool:
        """Whether the result is one sum over the batch."""
        return self.layer.pass_.sums_images

    @property
    def has_bias_behind(self) -> bool:
        """Whether a step of its own adds a bias to the spectra of the result."""
        return self.layer.bias

    @property
    def results(self) -> int:
        """Results whose spectra are kept at a time, to be added up."""
        return self.count if self.is_sum else 1

    @property
    def result_pitch_bytes(self) -> int:
        """Bytes from the spectra of one part's result to those of the next."""
        return aligned(self.product.output.nbytes)

    @functools.cached_property
    def fold(self) -> Fold | None:
        """The fold after the inverse transforms of a part; None if they write the result."""
        return Fold.of(self.layer, "fold", self.images) if folds(self.layer) else None

    def expected_ns(self, rates: Rates, products: ProductRate = FLOAT32_PRODUCTS) -> float:
        """Nanoseconds of all steps on a device with these rates; each step is bound by its bytes or its arithmetic."""
        first, second, result = (transform_ns(each, rates) for each in (*self.forward, self.inverse))
        product = step_ns(self.product.bytes, rates, products.ns(self.product.flops, rates))
        if not self.is_sum:
            return self.count * (first + product + result + self.fold_ns(rates)) + second
        added = step_ns((self.count + 1) * self.product.output.nbytes, rates) if self.count > 1 else 0.0
        return self.count * (first + second + product) + added + result

    def fold_ns(self, rates: Rates) -> float:
        """Nanoseconds of the fold of a part; 0 if there is no fold."""
        return 0.0 if self.fold is None else step_ns(self.fold.nbytes, rates)

    @property
    def spectra_bytes(self) -> int:
        """Bytes of all spectra that are kept at a time, each aligned as workspaces are."""
        assert self.product.output.dtype is DType.COMPLEX64
        return sum(aligned(each.nbytes) for each in self.product.inputs) + self.results * self.result_pitch_bytes

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the spectra and of the gradient that is folded."""
        nbytes = 0 if self.fold is None else self.fold.workspace.nbytes
        return self.spectra_bytes + aligned(nbytes)

    @property
    def workspace_left(self) -> int:
        """Bytes of the layer's workspace that other steps may use."""
        return self.layer.workspace_limit - self.workspace_bytes

    def workspaces(self, names: tuple[str, str, str]) -> tuple[Workspace, ...]:
        """Workspaces for the spectra of both factors and of the result, followed by that of the fold. The spectra of
        filters can be prepacked.
        """
        holds = ((), ("w",) if self.factors[1].name == "w" else (), ())
        a, b, c = (operand.nbytes for operand in self.product.operands)
        each = zip(names, (a, b, c + (self.results - 1) * self.result_pitch_bytes), holds, strict=True)
        spectra = tuple(Workspace(name, nbytes, holds=names) for name, nbytes, names in each)
        return spectra if self.fold is None else (*spectra, self.fold.workspace)

    def _of_part(self, transform: Fft) -> Fft:
        return dataclasses.replace(transform, batch=transform.batch // self.count)

    def _transform(self, operand: Operand, kind: Kind) -> Fft:
        """The transform of all planes of an operand, of the whole batch."""
        return self.transforms.transform(self.layer, self.basis, operand, kind)


_WRITTEN_IN_PART = 3.0
"""Cost of the unused part of a sector that is written, relative to one that is read. 12,288 planes of 128x128 made the
forward transforms in the passes of L1 take 1.45 times as long as the inverse one (2002 and 1886 us for 1350, H200).
"""


def memory_ns(nbytes: float, rates: Rates) -> float:
    """Nanoseconds in which a step moves `nbytes` bytes."""
    return nbytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)


def step_ns(nbytes: float, rates: Rates, computed_ns: float = 0.0) -> float:
    """Nanoseconds of a launch that moves `nbytes` bytes while it computes for `computed_ns`."""
    return max(memory_ns(nbytes, rates), computed_ns) + rates.launch_ns


def transform_ns(transform: Fft, rates: Rates) -> float:
    """Nanoseconds of the transforms of a layer's planes."""
    (spectrum,) = (operand for operand in transform.operands if operand.name == "spectrum")
    unused = spectrum.nbytes * (sector_share(transform.size) - 1)
    if not transform.inverse:
        unused *= _WRITTEN_IN_PART
    return step_ns(transform.bytes + unused, rates)


def sector_share(size: tuple[int, ...]) -> float:
    """Bytes that move per byte of a spectrum that is stored frequency by frequency.

    Memory moves in sectors. Transforms so large that a tile has few of them use only a part of each sector: 12,288 of
    128x128 points, two per tile, went at 1.37 KB/ns where those of 64x64, four per tile, went at 2.2 (H200,
    2026-11-24).
    """
    together = MOST_TOGETHER // (prod(size) // 2)  # two real numbers are a complex one
    return NEIGHBOURS / max(1, min(NEIGHBOURS, together))
