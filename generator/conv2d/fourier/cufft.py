"""Layers by the libraries alone: cuFFT, transpositions, cuBLAS, and copies that pad and clip between them.

The paper calls this its cuFFT convolution. The transforms take padded copies and leave spectra plane by plane, but the
products read them frequency by frequency, so every spectrum is transposed. `conv2d_fft` has to beat it; it is a
candidate too.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3 (table 1; section 3.4 for what is
searched: basis sizes, batched or single products, and streams). The steps of a program run in order; streams are those
of one step, over which single products are spread.
"""

from __future__ import annotations

import dataclasses
import functools
from math import prod

from warpsmith.generator.cgemm.cublas_family import STREAMS, CgemmCublas
from warpsmith.generator.conv2d.fourier.fourier_steps import most_streams, with_room
from warpsmith.generator.conv2d.fourier.parts import FourierParts, why_not_by_transforms
from warpsmith.generator.conv2d.fourier.plane_transforms import BASIS, Basis, bases, likely_bases
from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.cufft_family import MOST_TRANSFORMS, cufft_call
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, LibraryCall, Pointer, Program, Step, Unit, Workspace
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.generator.steps import aligned

PLANES, SPECTRA = "planes", "spectra"
"""Workspaces that all transforms share: planes that are padded or still to be clipped, and spectra plane by plane."""
FACTORS, PRODUCT = ("spectra_a", "spectra_b"), "spectra_c"
"""Workspaces of spectra frequency by frequency."""
TILE = 32
"""Rows and columns that a block transposes."""


class Conv2dCufft(Family[Conv2d]):
    """`conv2d` by cuFFT and cuBLAS. The family is never a default."""

    name = "conv2d_cufft"
    default_reach = DEFAULT_REACH
    may_answer = False

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if device.kind is DeviceKind.HOST:
            return "calls cuFFT and cuBLAS, which run on GPUs only"
        if (why := why_not_by_transforms(problem)) is not None:
            return why
        if problem.bias or problem.relu:
            return "adds no bias and has no ReLU"
        if problem.padding_mode is not PaddingMode.ZEROS:
            return "pads with zeros only"
        if _first(problem) is None:
            return f"needs more than {problem.workspace_limit} bytes of workspace"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        found = _bases(problem)
        product = CgemmCublas().space(FourierParts(problem, found[0], 1).product, device)
        return Space(
            (
                Parameter(BASIS, tuple(each.word for each in found), "points of all transforms, rows by columns"),
                Parameter("threads", (128, 256, 512), "of a block that pads or clips"),
                Parameter("transposers", (4, 8, 16), f"threads that transpose each row of {TILE} numbers' tile"),
                *product.parameters,
            ),
            (*product.constraints, _streams_constraint(problem, found)),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        first = _first(problem)
        if first is None:
            raise ValueError(f"{problem.key()} is not solved by {self.name}: {self.why_not(problem, device)}")
        product = CgemmCublas().default(FourierParts(problem, first, 1).product, device)
        return Config.of({BASIS: first.word, "threads": 256, "transposers": 8, **product.values()})

    def program(self, problem: Conv2d, config: Config) -> Program:
        parts = FourierParts(problem, Basis.of(config.text(BASIS)), 1)
        return with_room(_Steps(problem, parts, config).program(self.name), problem.workspace_limit)


def _first(layer: Conv2d) -> Basis | None:
    """The first of the likely basis sizes whose memory fits, the libraries' included; None if none does."""
    return next((basis for basis in likely_bases(layer) if _fits(layer, basis)), None)


@functools.lru_cache(64)
def _bases(layer: Conv2d) -> tuple[Basis, ...]:
    """All basis sizes whose memory fits, the likeliest first."""
    return tuple(basis for basis in bases(layer) if _fits(layer, basis))


def _fits(layer: Conv2d, basis: Basis) -> bool:
    parts = FourierParts(layer, basis, 1)
    return parts.fits() and _nbytes(parts) <= layer.workspace_limit and _is_counted(parts)


def _streams_constraint(layer: Conv2d, found: tuple[Basis, ...]) -> Constraint:
    """Streams that each basis leaves workspace for; the product's own constraints are those of the first basis."""
    most = {
        each.basis.word: min(each.basis.frequencies, most_streams(layer.workspace_limit - _own_bytes(each)))
        for each in (FourierParts(layer, basis, 1) for basis in found)
    }
    why = f"each stream has a frequency and a share of what the spectra leave of {layer.workspace_limit} bytes"
    return Constraint(why, lambda basis, calls: STREAMS[calls] <= most[basis])


def _is_counted(parts: FourierParts) -> bool:
    return all(each.batch <= MOST_TRANSFORMS for each in (*parts.forward, parts.inverse))


def _nbytes(parts: FourierParts) -> int:
    """Fewest bytes of workspace. Only a device knows what cuFFT takes. Transforms in two dimensions are assumed to take
    a copy of all spectra, up to what cuBLAS usually takes.
    """
    (spectra,) = (aligned(each.nbytes) for each in _workspaces(parts) if each.name == SPECTRA)
    return _own_bytes(parts) + max(LEAST_CUBLAS_BYTES, min(spectra, USUAL_CUBLAS_BYTES))


def _own_bytes(parts: FourierParts) -> int:
    """Bytes of the program's own workspaces, aligned."""
    return sum(aligned(each.nbytes) for each in _workspaces(parts))


def _workspaces(parts: FourierParts) -> tuple[Workspace, ...]:
    transforms = (*parts.forward, parts.inverse)
    return (
        Workspace(PLANES, max(each.batch * each.points for each in transforms) * DType.FLOAT32.itemsize),
        Workspace(SPECTRA, max(each.batch for each in transforms) * parts.basis.frequencies * DType.COMPLEX64.itemsize),
        *parts.workspaces((*FACTORS, PRODUCT)),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneCopy:
    """Variables of the template for a copy that pads planes or clips them; literals have the digits of float32."""

    key: str
    entry: str
    transform: Fft
    threads: int
    scale: str
    """Scale of the numbers that are clipped."""

    @property
    def is_padding(self) -> bool:
        return not self.transform.inverse

    @property
    def count(self) -> int:
        """Numbers that are written, one per thread."""
        size = self.transform.size if self.is_padding else self.transform.signal_size
        return self.transform.batch * prod(size)

    @property
    def start(self) -> tuple[int, ...]:
        return self.transform.start or (0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Transposition:
    """Variables of the template that transposes a matrix of complex numbers."""

    key: str
    entry: str
    rows: int
    columns: int
    transposers: int
    tile: int = TILE

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks across and down."""
        return -(-self.columns // TILE), -(-self.rows // TILE)


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps:
    """Units and steps of a config, in order."""

    layer: Conv2d
    parts: FourierParts
    config: Config

    def program(self, name: str) -> Program:
        units: list[Unit] = []
        steps: list[Step] = []
        for which, factor, transform, target in zip(
            ("first", "second"), self.parts.factors, self.parts.forward, FACTORS, strict=True
        ):
            self._copy(units, steps, f"pad_{which}", transform, (factor.name, PLANES))
            steps.append(_transform(transform, PLANES, SPECTRA))
            sizes = transform.batch, self.parts.basis.frequencies
            self._transpose(units, steps, f"transpose_{which}", sizes, (SPECTRA, target))
        product = Config.of({each: self.config.values()[each] for each in ("function", "calls")})
        memory = dict(zip(("a", "b", "c"), (*FACTORS, PRODUCT), strict=True))
        for step in CgemmCublas().program(self.parts.product, product).steps:
            assert isinstance(step, LibraryCall)
            steps.append(
                dataclasses.replace(step, arguments=tuple(Pointer(memory[each.buffer]) for each in step.arguments))
            )
        inverse = self.parts.inverse
        sizes = self.parts.basis.frequencies, inverse.batch
        self._transpose(units, steps, "transpose_back", sizes, (PRODUCT, SPECTRA))
        steps.append(_transform(inverse, SPECTRA, PLANES))
        self._copy(units, steps, "clip", inverse, (PLANES, self.layer.output.name))
        return Program(name, self.config, tuple(units), tuple(steps), _workspaces(self.parts))

    def _copy(self, units: list[Unit], steps: list[Step], name: str, transform: Fft, memory: tuple[str, str]) -> None:
        copy = PlaneCopy(
            text_key(self.layer),
            "conv2d_cufft_pad" if not transform.inverse else "conv2d_cufft_clip",
            transform,
            self.config.integer("threads"),
            float_literal(1 / transform.points),
        )
        units.append(Unit(name, render("conv2d/plane_copy.cu.jinja", g=copy, config=self.config.key())))
        grid = (-(-copy.count // copy.threads), 1, 1)
        steps.append(Launch(copy.entry, grid, (copy.threads, 1, 1), tuple(map(Pointer, memory)), unit=name))

    def _transpose(
        self, units: list[Unit], steps: list[Step], name: str, sizes: tuple[int, int], memory: tuple[str, str]
    ) -> None:
        transposition = Transposition(
            text_key(self.layer), "conv2d_cufft_transpose", *sizes, self.config.integer("transposers")
        )
        units.append(Unit(name, render("conv2d/transpose.cu.jinja", g=transposition, config=self.config.key())))
        grid = (prod(transposition.blocks), 1, 1)
        block = (TILE, transposition.transposers, 1)
        steps.append(Launch(transposition.entry, grid, block, tuple(map(Pointer, memory)), unit=name))


def _transform(transform: Fft, source: str, target: str) -> LibraryCall:
    """The cuFFT call for whole planes, each with its half spectrum."""
    return cufft_call(dataclasses.replace(transform, layout=Layout.BATCH), source, target)
