"""Gradient of images from the gradient of padded images, if the padding repeats pixels: the adjoint of the padding.

A pixel adds up the gradients of all places at which it stands, in ascending order, so that the same inputs give the
same bits. With mirrored padding it stands at up to three places per axis. With repeated edges, an edge pixel stands at
one place more than the padding has rows.
"""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.program import Launch, Pointer, Workspace

PADDED = "padded"
"""Name of the workspace with the gradient of padded images: (images, channels, rows, columns)."""
THREADS = 256


def folds(layer: Conv2d) -> bool:
    """Whether a result is computed as a gradient of padded images and folded afterwards."""
    return layer.pass_.is_transposed and layer.padding_mode is not PaddingMode.ZEROS


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """Variables of the template, for some images of a layer."""

    key: str
    entry: str
    mode: PaddingMode
    channels: int
    planes: int
    """Images times channels."""
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
        """Pixels of the result."""
        return self.planes * self.rows * self.columns

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written."""
        return self.workspace.nbytes + 4 * self.pixels

    @property
    def workspace(self) -> Workspace:
        """Workspace of the padded images' gradient."""
        return Workspace(PADDED, 4 * prod((self.planes, self.padded_rows, self.padded_columns)))

    def launch(self, target: Pointer, unit: str = "", biases: tuple[Pointer, ...] = ()) -> Launch:
        """The launch that folds the workspace into the result, and adds the biases if there are any."""
        grid = (-(-self.pixels // THREADS), 1, 1)
        return Launch(self.entry, grid, (THREADS, 1, 1), (Pointer(PADDED), *biases, target), unit=unit)
