"""Launches of a layer on 16-bit operands: maximum and split kernels, the GEMM, and the sum of split-K partials."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

PARTS = "parts"
"""Name of the workspace for split-K partial sums."""
MAIN = "multiply"
"""Name of the unit with the GEMM kernel."""
SUM_THREADS = 256
"""Threads per block of the kernel that adds up partial sums."""


def image_program(family: str, template: str, problem: Conv2d, config: Config, geometry: ImageTiles) -> Program:
    """Program of fprop or dgrad; `template` defines the GEMM kernel named `family`."""
    images, filters = geometry.images, geometry.filters
    text = render(template, p=Conv2dText.of(problem), g=geometry, config=config.key())
    bias = (Pointer("b"),) if problem.bias else ()
    arguments = (
        Pointer(images.packed.name),
        Pointer(filters.packed.name),
        *images.powers,
        *filters.powers,
        *bias,
        Pointer(problem.output.name),
    )
    multiply = multiplying(family, geometry, arguments)
    units = (*images.units(problem), *filters.units(problem), Unit(MAIN, text))
    steps = (*filters.launches(), *images.launches(), multiply)
    return Program(family, config, units, steps, (*filters.workspaces(), *images.workspaces()))


def weight_program(family: str, template: str, problem: Conv2d, config: Config, geometry: WeightTiles) -> Program:
    """Program of wgrad; `template` defines the GEMM kernel named `family`."""
    x, dy = geometry.x, geometry.dy
    text = render(template, p=Conv2dText.of(problem), g=geometry, config=config.key())
    multiply = multiplying(family, geometry, (Pointer(x.packed.name), Pointer(dy.packed.name), Pointer(PARTS)))
    total, add = summing(family, problem, geometry)
    units = (*x.units(problem), *dy.units(problem), Unit(MAIN, text), total)
    steps = (*x.launches(), *dy.launches(), multiply, add)
    workspaces = (*x.workspaces(), *dy.workspaces(), Workspace(PARTS, geometry.sum_bytes))
    return Program(family, config, units, steps, workspaces)


def summing(family: str, problem: Conv2d, geometry: WeightTiles) -> tuple[Unit, Launch]:
    """Unit and launch of the kernel that adds up wgrad's partial sums; it begins early if the GEMM does."""
    name = f"{family}_sum"
    total = render(
        "conv2d/halves_sum.cu.jinja",
        p=Conv2dText.of(problem),
        key=text_key(problem),
        g=geometry,
        strides=problem.output.element_strides,
        threads=SUM_THREADS,
    )
    arguments = (Pointer(PARTS), *geometry.x.powers, *geometry.dy.powers, Pointer(problem.output.name))
    launch = Launch.of_blocks(name, geometry.sum_blocks, SUM_THREADS, arguments)
    return Unit(name, total), dataclasses.replace(launch, unit=name, begins_early=geometry.maps)


def multiplying(family: str, geometry: ImageTiles | WeightTiles, arguments: tuple[Argument, ...]) -> Launch:
    """The launch of the GEMM kernel, which begins early if tensor maps describe its operands."""
    launch = Launch.of_blocks(family, geometry.blocks, geometry.threads, arguments)
    return dataclasses.replace(launch, shared_bytes=geometry.shared_bytes, unit=MAIN, begins_early=geometry.maps)
