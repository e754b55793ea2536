"""The forward transforms, which store spectra as halves: one launch finds the largest number, one transforms."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.halves.maximum import THREADS, Maximum
from warpsmith.generator.device import Device
from warpsmith.generator.fft.block.choice import Access
from warpsmith.generator.fft.block.family import FftBlock, block_launch, block_source
from warpsmith.generator.fft.block.halves import HalvedSpectra, HalvesOrder
from warpsmith.generator.fft.block.text import FftBlockText
from warpsmith.generator.fft.words import Packing, require_fft
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

LARGEST = "largest"
"""The unit of the launch that finds the largest number, and the workspace of what its blocks find."""
POWER = "power"
"""The workspace of the power of two by which all numbers are scaled."""


class HalvedTransform(FftBlock):
    """`fft_block` with halves for a spectrum: a stage of a layer, and no answer to a problem of its own."""

    order: ClassVar[HalvesOrder]

    def default(self, problem: Problem, device: Device) -> Config:
        """That of complex numbers, but for pairs of real signals, whose numbers a thread stores two at once."""
        chosen = super().default(problem, device)
        values = chosen.values()
        if values["packing"] != Packing.PAIR or values.get("spectrum") != Access.SEQUENTIAL:
            return chosen
        return self.space(problem, device).like({**values, "spectrum": Access.STAGED.value}) or chosen

    def program(self, problem: Problem, config: Config) -> Program:
        fft = require_fft(problem)
        (signal,) = fft.inputs
        maximum = Maximum(self.name, signal)
        text = FftBlockText.of(fft, config, HalvedSpectra.of(fft, self.order, maximum.blocks))
        found = render("conv2d/halves_largest.cu.jinja", key=fft.key(), g=maximum, threads=THREADS)
        arguments = (Pointer(signal.name), Pointer(LARGEST), Pointer(POWER), Pointer(fft.output.name))
        largest = dataclasses.replace(
            maximum.launch(), unit=LARGEST, arguments=(Pointer(signal.name), Pointer(LARGEST))
        )
        return Program(
            self.name,
            config,
            (Unit("", block_source(text, config)), Unit(LARGEST, found)),
            (largest, block_launch(text, arguments)),
            (
                Workspace(LARGEST, 4 * maximum.blocks, holds=(signal.name,)),
                Workspace(POWER, 4, holds=(signal.name,)),
            ),
        )


class TransformInTurns(HalvedTransform):
    """High and low parts take turns: for products that sum over what lies side by side."""

    name = "fft_block_halves_in_turns"
    order = HalvesOrder.TURNS


class TransformApart(HalvedTransform):
    """High parts, then low ones: for products that sum over what lies from row to row."""

    name = "fft_block_halves_apart"
    order = HalvesOrder.APART
