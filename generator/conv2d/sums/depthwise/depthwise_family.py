"""Depthwise and grouped layers: windows that slide over planes in shared memory, with sums and weights in registers.

A layer whose groups have few channels does little work per pixel. Its time is that of memory, or of instructions other
than multiply-adds if a kernel has many of them. So a block copies whole planes, or bands of them, with their padding
into shared memory once. A thread reads each row of its window once and uses it for all tap rows that need it, and keeps
the weights of its filter in registers.

dgrad is the same sum with another index map (`conv2d/axes.py`), for each phase of a stride on the same tile. wgrad
keeps the taps of a filter as sums in registers, over some images per block. A second kernel adds up the blocks' sums in
a fixed order, so that the same inputs give the same bits.

Source: the sliding window of `filter2d_window`, and "Optimizing a CNN in CUDA" (registers as a cache, the reduction of
the weights' gradient).
"""

from __future__ import annotations

import dataclasses
import itertools

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.fourier.circular_family import LIKELY_TAPS, Conv2dCircular
from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.fold import PADDED, Fold, folds
from warpsmith.generator.conv2d.layer.limits import why_not_usual_data
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments, text_key
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.layer.work import multiply_adds
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_default import ranked, variants
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import FLOAT_BYTES, ImageGeometry
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_space import image_space, smallest_image
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import image_ns
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_default import weight_ns, weight_ranked, weight_variants
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_space import smallest_weight, weight_space
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space

MAX_GROUP = 16
"""Most channels, or filters, per group; with more of them, the GEMM families do the work."""
LIKELY_GROUP = 8
"""Most channels, or filters, per group for which the family is a default where nothing is stored."""
MOST_STARTS = 10
MAX_TAPS = 64
"""Most columns of a filter; their taps are unrolled."""
MAX_PHASES = 16
"""Most phases of a strided dgrad; each has its own code."""
SUM_THREADS = 256
SUMS = "sums"
"""Name of the workspace for the blocks' partial sums of wgrad."""


class Conv2dDepthwise(Family[Conv2d]):
    """`conv2d` of groups with few channels."""

    name = "conv2d_depthwise"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := device.why_no(ASYNC_COPIES) or why_not_usual_data(problem)) is not None:
            return why
        if max(problem.group_channels, problem.group_filters) > MAX_GROUP:
            return f"is for groups of {MAX_GROUP} channels and filters at the most"
        if (taps := problem.weight[3]) > MAX_TAPS:
            return f"writes out the taps of a filter's row, {MAX_TAPS} of them at the most; this one has {taps}"
        if folds(problem) and (nbytes := _fold(problem).workspace.nbytes) > problem.workspace_limit:
            return f"the gradient of the padded images takes {nbytes} bytes of workspace"
        summed = _summed(problem)
        if problem.pass_ is not Pass.WGRAD:
            down, across = axes_of(summed)
            if (phases := len(down.phases) * len(across.phases)) > MAX_PHASES:
                return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
        space = self.space(problem, device)
        if (smallest_weight(space) if problem.pass_ is Pass.WGRAD else smallest_image(summed, space)) is None:
            return f"the window of one result does not fit {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """False for filters so large that a transform of the plane costs less than their taps, if `conv2d_circular`
        solves the layer.
        """
        if device.kind is not DeviceKind.CUDA or problem.groups == 1 or self.why_not(problem, device) is not None:
            return False
        if max(problem.group_channels, problem.group_filters) > LIKELY_GROUP:
            return False
        taps = problem.weight[2] * problem.weight[3]
        return taps < LIKELY_TAPS or Conv2dCircular().why_not(problem, device) is not None

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        conv2d = _summed(problem)
        config = _usual(conv2d, device)[0]
        if conv2d.pass_ is Pass.WGRAD:
            return weight_ns(conv2d, WeightGeometry.of(conv2d, config), device)
        return image_ns(conv2d, ImageGeometry.of(conv2d, config), device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        conv2d = _summed(problem)
        return (weight_space if conv2d.pass_ is Pass.WGRAD else image_space)(conv2d, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _usual(_summed(problem), device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        conv2d = _summed(problem)
        (best, *others), space = _usual(conv2d, device), self.space(problem, device)
        portions = (weight_variants if conv2d.pass_ is Pass.WGRAD else variants)(best, space)
        starts = itertools.chain.from_iterable(itertools.zip_longest(others, portions))
        return tuple(dict.fromkeys(each for each in starts if each is not None))[:MOST_STARTS]

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        conv2d = _summed(problem)
        return (WeightGeometry if conv2d.pass_ is Pass.WGRAD else ImageGeometry).of(conv2d, config).written

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)

    def program(self, problem: Conv2d, config: Config) -> Program:
        if problem.pass_ is Pass.WGRAD:
            return self._weight_program(problem, config)
        image, fold = ImageGeometry.of(_summed(problem), config), _fold(problem) if folds(problem) else None
        end = dataclasses.replace(Conv2dText.of(_summed(problem)), key=text_key(problem))
        text = end if fold is None else end.writing_float()
        source = render("conv2d/depthwise_image.cu.jinja", p=text, end=end, g=image, fold=fold, config=config.key())
        arguments = conv2d_arguments(problem)
        launch = Launch(self.name, (image.blocks, 1, 1), (image.threads, 1, 1), arguments, image.shared_bytes)
        if fold is None:
            return Program.of_source(self.name, config, source, (launch,))
        source_of, weights, *biases, target = arguments
        launch = dataclasses.replace(launch, arguments=(source_of, weights, Pointer(PADDED)))
        folding = fold.launch(target, biases=tuple(biases))
        return Program.of_source(self.name, config, source, (launch, folding), (fold.workspace,))

    def _weight_program(self, problem: Conv2d, config: Config) -> Program:
        geometry = WeightGeometry.of(problem, config)
        text = Conv2dText.of(problem)
        source = render("conv2d/depthwise_weight.cu.jinja", p=text, g=geometry, config=config.key())
        *inputs, output = conv2d_arguments(problem)
        target = output if geometry.splits == 1 else Pointer(SUMS)
        launch = Launch(
            self.name, (geometry.blocks, 1, 1), (geometry.threads, 1, 1), (*inputs, target), geometry.shared_bytes
        )
        if geometry.splits == 1:
            return Program.of_source(self.name, config, source, (launch,))
        blocks = -(-problem.output.size // SUM_THREADS)
        total = Launch.of_blocks(f"{self.name}_sum", blocks, SUM_THREADS, (Pointer(SUMS), output))
        workspace = Workspace(SUMS, FLOAT_BYTES * geometry.splits * problem.output.size)
        return Program.of_source(self.name, config, source, (launch, total), (workspace,))


def _summed(problem: Conv2d) -> Conv2d:
    """The layer whose sum is computed: on padded images if their gradient is folded afterwards."""
    return problem.of_padded if folds(problem) else problem


def _fold(problem: Conv2d) -> Fold:
    return Fold.of(problem, "conv2d_depthwise_fold", problem.input[0])


def _usual(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """Configs that are expected to be fast, sorted by expected time; empty if none is legal."""
    return (weight_ranked if problem.pass_ is Pass.WGRAD else ranked)(problem, device)
