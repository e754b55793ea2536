"""cuFFT as a candidate: the time that other families must beat, and the winner where cuFFT is fastest.

cuFFT scales nothing. Its transforms to real numbers use their input as scratch memory, and they do not ignore the part
of a spectrum that no real signal has. One pass of ours over memory makes up for each of these: it scales the input on
its way into memory that may be overwritten, or it scales the output.

Source: cuFFT API reference, CUDA 13: advanced data layout, and multidimensional transforms.
"""

from __future__ import annotations

import dataclasses
import enum
from math import prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.problem import Fft, Kind, Layout, Order
from warpsmith.generator.fft.text import text_key
from warpsmith.generator.library_calls import CufftTransform, Direction, Strided, TransformKind
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.program import Launch, LibraryCall, Pointer, Program, Step, Unit, Workspace
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MOST_TRANSFORMS = 2**31 - 1
"""Largest batch: cuFFT counts transforms in an int."""
SCRATCH = "scaled"
"""Name of the workspace that holds the scaled input."""


class Scaling(enum.StrEnum):
    """Position of our scaling pass relative to the cuFFT call."""

    NONE = "none"
    """There is nothing to scale, and no pass."""
    BEFORE = "before"
    """The pass writes the input of the transform."""
    AFTER = "after"
    """The pass scales the result in place."""


class FftCufft(Family[Fft]):
    """`fft` by cuFFT, in batch and frequency layout. It is never the default answer where nothing is stored."""

    name = "fft_cufft"
    may_answer = False

    def why_not(self, problem: Fft, device: Device) -> str | None:
        if device.kind is DeviceKind.HOST:
            return "calls cuFFT, which runs on GPUs only"
        if problem.order is Order.REVERSED:
            return "cuFFT has no bit-reversed order"
        if problem.layout is Layout.TRANSPOSED:
            return "cuFFT exchanges no dimensions"
        if problem.valid is not None or problem.start is not None or problem.border is not None:
            return "cuFFT neither pads nor clips"
        if problem.tiling is not None:
            return "cuFFT takes whole signals, no tiles of planes"
        if problem.product is not None:
            return "cuFFT takes spectra, not what they are the product of"
        if problem.batch > MOST_TRANSFORMS:
            return f"cuFFT takes {MOST_TRANSFORMS} transforms at most"
        return None

    def space(self, problem: Fft, device: Device) -> Space:
        scalings = _scalings(problem)
        is_none, is_complex = scalings == (Scaling.NONE,), problem.kind is Kind.C2R
        return Space(
            (
                Parameter("scaling", tuple(each.value for each in scalings), "where a pass over memory scales"),
                Parameter("threads", (0,) if is_none else (128, 256, 512), "threads of a block of that pass"),
                Parameter(
                    "vector", (0,) if is_none else (2,) if is_complex else (4, 2, 1), "floats that each of them scales"
                ),
            ),
            (
                Constraint(
                    "the number of floats must be a multiple of the vector",
                    lambda scaling, vector: (
                        vector == 0 or _scaled(problem, Scaling(scaling)).components.size % vector == 0
                    ),
                ),
            ),
        )

    def default(self, problem: Fft, device: Device) -> Config:
        config = self.space(problem, device).like({"scaling": _scalings(problem)[0].value, "threads": 256, "vector": 4})
        if config is None:
            raise ValueError(f"the space of {problem.key()} is empty")
        return config

    def program(self, problem: Fft, config: Config) -> Program:
        fft, scaling = problem, Scaling(config.text("scaling"))
        source, target = fft.inputs[0].name, fft.output.name
        if scaling is Scaling.NONE:
            return Program(self.name, config, (), (cufft_call(fft, source, target),))
        scale = ScalePass.of(fft, scaling, config)
        units = (Unit("scale", render("fft/scale.cu.jinja", g=scale, config=config.key())),)
        if scaling is Scaling.AFTER:
            return Program(self.name, config, units, (cufft_call(fft, source, target), scale.launch(target, target)))
        # A complex batch layout is the same on both sides, so the transform runs in the result's own memory.
        in_place = fft.kind is Kind.C2C and fft.layout is Layout.BATCH
        between = target if in_place else SCRATCH
        steps: tuple[Step, ...] = (scale.launch(source, between), cufft_call(fft, between, target))
        return Program(self.name, config, units, steps, () if in_place else (Workspace(SCRATCH, fft.inputs[0].nbytes),))


def _scalings(problem: Fft) -> tuple[Scaling, ...]:
    """Legal positions of the scaling pass, the usual one first."""
    if problem.kind is Kind.C2R:  # cuFFT would overwrite the spectrum
        return (Scaling.BEFORE,)
    return (Scaling.NONE,) if problem.scale == 1 else (Scaling.AFTER, Scaling.BEFORE)


def _scaled(problem: Fft, scaling: Scaling) -> Operand:
    return problem.output if scaling is Scaling.AFTER else problem.inputs[0]


def cufft_call(problem: Fft, source: str, target: str) -> LibraryCall:
    """Library call that computes the whole transform between two buffers, in the layouts of the problem's operands."""
    signal = Strided(problem.size, 1, prod(problem.size))
    spectrum = Strided(problem.spectrum_size, 1, prod(problem.spectrum_size))
    if problem.layout is Layout.FREQUENCY:
        spectrum = Strided(problem.spectrum_size, problem.batch, 1)
    sides = (spectrum, signal) if problem.inverse else (signal, spectrum)
    direction = Direction.INVERSE if problem.inverse else Direction.FORWARD
    transform = CufftTransform(TransformKind(problem.kind.value), problem.size, problem.batch, direction, *sides)
    return LibraryCall(transform, (Pointer(source), Pointer(target)))


@dataclasses.dataclass(frozen=True, slots=True)
class Hermitian:
    """Memory layout of a half spectrum, for the pass that makes its self-mirrored columns Hermitian."""

    rows: int
    columns: int
    column_pitch: int
    """Complex numbers from one column to the next."""
    is_even: bool
    """True if the last column is its own mirror image too, as the first one is."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePass:
    """Template values of the scaling pass."""

    problem_key: str
    family: str
    entry: str
    summary: tuple[str, ...]
    """Lines of the kernel's header."""
    count: int
    """Vectors that the pass scales."""
    threads: int
    """Threads per block."""
    vector: int
    """Floats that one thread scales."""
    scale: str
    """Factor, as a CUDA literal."""
    hermitian: Hermitian | None
    """None if spectra are taken as they are."""

    @classmethod
    def of(cls, problem: Fft, scaling: Scaling, config: Config) -> ScalePass:
        """Scaling pass of a config; its literals have the digits of float32."""
        operand, vector = _scaled(problem, scaling), config.integer("vector")
        purpose = "scales the output of cuFFT" if scaling is Scaling.AFTER else "scales the input of cuFFT"
        return cls(
            problem_key=text_key(problem),
            family=FftCufft.name,
            entry="fft_cufft_scale",
            summary=(f"One vector of {vector} floats per thread: {purpose}.",),
            count=operand.components.size // vector,
            threads=config.integer("threads"),
            vector=vector,
            scale=float_literal(problem.scale),
            hermitian=_hermitian(problem) if problem.kind is Kind.C2R else None,
        )

    def launch(self, source: str, target: str) -> Launch:
        """Launch from one buffer to another, or in place."""
        return Launch(
            entry=self.entry,
            grid=(-(-self.count // self.threads), 1, 1),
            block=(self.threads, 1, 1),
            arguments=(Pointer(source), Pointer(target)),
            unit="scale",
        )


def _hermitian(problem: Fft) -> Hermitian:
    assert problem.inputs[0].dtype is DType.COMPLEX64
    *rows, columns = problem.spectrum_size
    pitch = problem.batch if problem.layout is Layout.FREQUENCY else 1
    return Hermitian(prod(rows), columns, pitch, problem.size[-1] % 2 == 0)
