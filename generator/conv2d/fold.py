"""The gradient of images from that of padded ones, where pixels stand in the padding: the adjoint of the padding.

A pixel adds up all places at which it stands, in ascending order, so that the same inputs give the same bits: mirrored
padding has up to three of an axis, and repeated edges one more than there are of them.
"""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.program import Launch, Pointer, Workspace

PADDED = "padded"
"""The workspace: the gradient of padded images, (images, channels, rows, columns)."""
THREADS = 256


def folds(layer: Conv2d) -> bool:
    """Whether a result is a gradient of padded images first."""
    return layer.pass_ is Pass.DGRAD and layer.padding_mode is not PaddingMode.ZEROS


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """What the template needs; of some images of a layer."""

    key: str
    entry: str
    mode: PaddingMode
    channels: int
    planes: int
    """Images by channels."""
    rows: int
    columns: int
    padded_rows: int
    padded_columns: int
    above: int
    left: int
    threads: int = THREADS

    @classmethod
    def of(cls, layer: Conv2d, entry: str, images: int) -> Fold:
        (above, _), (left, _) = layer.padding
        return cls(
            text_key(layer),
            entry,
            layer.padding_mode,
            layer.input[1],
            images * layer.input[1],
            *layer.input[2:],
            *layer.padded_size,
            above=above,
            left=left,
        )

    @property
    def pixels(self) -> int:
        """Of the result."""
        return self.planes * self.rows * self.columns

    @property
    def nbytes(self) -> int:
        """That are read and written."""
        return self.workspace.nbytes + 4 * self.pixels

    @property
    def workspace(self) -> Workspace:
        """Of the padded images' gradient."""
        return Workspace(PADDED, 4 * prod((self.planes, self.padded_rows, self.padded_columns)))

    def launch(self, target: Pointer, unit: str = "", biases: tuple[Pointer, ...] = ()) -> Launch:
        """From the workspace to the result, with the biases that are added, where there are some."""
        grid = (-(-self.pixels // THREADS), 1, 1)
        return Launch(self.entry, grid, (THREADS, 1, 1), (Pointer(PADDED), *biases, target), unit=unit)
