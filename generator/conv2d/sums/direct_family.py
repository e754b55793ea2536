"""Several results per thread, in registers, with pixels and weights that are read once for many of them.

Source: the first rungs of "Optimizing a CNN in CUDA": more work per thread, registers as a cache, padding that costs no
checks (here the zeros of a tile in shared memory). For the gradient of the weights, the sums of a thread stay in
registers and are reduced at the end by shuffles and shared memory. That document's reduction adds blocks' sums
atomically. Here one block has all terms of its weights, so that the same inputs give the same bits.

If the padding repeats pixels, dgrad first computes the gradient of the padded image, in a workspace, and then folds it
(`fold.py`). A thread's window has no more taps than without padding.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.fold import PADDED, Fold, folds
from warpsmith.generator.conv2d.layer.limits import why_not_counted
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments, text_key
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.conv2d.layer.work import multiply_adds
from warpsmith.generator.conv2d.sums.direct_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.sums.direct_image_space import image_default, image_space
from warpsmith.generator.conv2d.sums.direct_weight_geometry import WeightGeometry, weight_default, weight_space
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space

MAX_TAPS = 128
"""Most taps in a filter row, which is always unrolled."""
MAX_PHASES = 64
"""Most phases of a strided dgrad; each has its own code."""


class Conv2dDirect(Family[Conv2d]):
    """`conv2d` as sums in registers."""

    name = "conv2d_direct"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if folds(problem) and problem.layout is not ImageLayout.NCHW:
            return f"folds the gradient of padded images in nchw only, and none in {problem.layout}"
        if (why := why_not_counted(problem)) is not None:
            return why
        if problem.pass_ is Pass.WGRAD:
            return None
        if (taps := problem.weight[3]) > MAX_TAPS:
            return f"writes out the taps of a filter's row, {MAX_TAPS} of them at the most; this one has {taps}"
        if folds(problem) and (nbytes := _fold(problem).workspace.nbytes) > problem.workspace_limit:
            return f"the gradient of the padded images takes {nbytes} bytes of workspace"
        row_axis, column_axis = axes_of(_summed(problem))
        phases = len(row_axis.phases) * len(column_axis.phases)
        if phases > MAX_PHASES:
            return f"writes out every phase of a stride, {MAX_PHASES} of them at the most; this one has {phases}"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        conv2d = _summed(problem)
        return (weight_space if conv2d.pass_ is Pass.WGRAD else image_space)(conv2d, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        conv2d = _summed(problem)
        return (weight_default if conv2d.pass_ is Pass.WGRAD else image_default)(conv2d, device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        conv2d = _summed(problem)
        if conv2d.pass_ is Pass.WGRAD:
            return WeightGeometry.of(conv2d, config).written
        return ImageGeometry.of(conv2d, config).written.multiply_adds

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)

    def program(self, problem: Conv2d, config: Config) -> Program:
        if problem.pass_ is Pass.WGRAD:
            text, weight = Conv2dText.of(problem), WeightGeometry.of(problem, config)
            source = render("conv2d/direct_weight.cu.jinja", p=text, g=weight, config=config.key())
            launch = Launch.of_blocks(self.name, weight.blocks, weight.threads, conv2d_arguments(problem))
            return Program.of_source(self.name, config, source, (launch,))
        return self._image_program(problem, config)

    def _image_program(self, problem: Conv2d, config: Config) -> Program:
        image = ImageGeometry.of(_summed(problem), config)
        end = dataclasses.replace(Conv2dText.of(_summed(problem)), key=text_key(problem))
        fold = _fold(problem) if folds(problem) else None
        text = end if fold is None else end.writing_float()
        source = render("conv2d/direct_image.cu.jinja", p=text, end=end, g=image, fold=fold, config=config.key())
        block = (image.block_columns, image.block_rows, image.block_filters)
        launch = Launch(self.name, (image.blocks, 1, 1), block, conv2d_arguments(problem))
        if fold is None:
            return Program.of_source(self.name, config, source, (launch,))
        source_of, weights, *biases, target = conv2d_arguments(problem)
        launch = dataclasses.replace(launch, arguments=(source_of, weights, Pointer(PADDED)))
        folding = fold.launch(target, biases=tuple(biases))
        return Program.of_source(self.name, config, source, (launch, folding), (fold.workspace,))


def _summed(problem: Conv2d) -> Conv2d:
    """The layer whose sum is computed: on padded images if their gradient is folded afterwards."""
    return problem.of_padded if folds(problem) else problem


def _fold(problem: Conv2d) -> Fold:
    return Fold.of(problem, "conv2d_direct_fold", problem.input[0])
