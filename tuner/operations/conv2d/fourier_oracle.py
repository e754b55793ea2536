"""Float64 references of large layers by NumPy's Fourier transforms, where sums over taps would take minutes.

Tiles of padded images are transformed and nothing wraps around, unlike in the kernels under test. Errors are some 1e-16
of the whole result's root mean square, so the scale must be at least as large as that.

Source: the correlation and the convolution theorem.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.conv2d.padding import Numbers, folded, standing, window
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip, quick_length, threads

Values = NDArray[np.float64]
Spectra = NDArray[np.complex128]

_LARGE = 1 << 31
"""Multiply-adds over taps above which this way is faster: direct sums of so many take about two seconds on 16 cores."""
_TOGETHER = 4
"""Tiles per matrix product, for which the spectra of all filters are read once."""
_LEAST = 64
"""Least points of a tile along an axis, if the image has as many. Spectra of whole planes of 512x512 and their products
took 34 GB for 128 by 128 channels; those of 64x64 tiles take 0.6 GB.
"""


def is_by_transforms(problem: Conv2d) -> bool:
    """True if the reference of a problem is computed here."""
    taps = math.prod(problem.weight[2:])
    is_plain = problem.stride == problem.dilation == (1, 1) and problem.groups == 1
    return is_plain and problem.accuracy is Accuracy.NORMWISE and taps > 1 and problem.flops // 2 > _LARGE


def by_transforms(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    """Result of a pass, with `of` applied to all inputs, using at most `room` bytes of scratch memory."""
    work = problem.pass_.select(_fprop, _dgrad, _wgrad)
    return work(problem, operands, of, room)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tiles:
    """Windows of padded images that are transformed one by one, and the valid part of their correlations.

    A window of `size` pixels gives `step` results along each axis; the others wrap around the window's end.
    """

    size: tuple[int, int]
    step: tuple[int, int]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Row and column index of the image at each position of the padded image; -1 for zero padding."""
    results: tuple[int, int]
    """Rows and columns of a result plane."""

    @classmethod
    def of(cls, places: tuple[NDArray[np.int64], NDArray[np.int64]], taps: tuple[int, int]) -> _Tiles:
        rows, columns = (
            quick_length(min(len(at), max(_LEAST, 4 * count))) for at, count in zip(places, taps, strict=True)
        )
        step = rows - taps[0] + 1, columns - taps[1] + 1
        results = len(places[0]) - taps[0] + 1, len(places[1]) - taps[1] + 1
        return cls((rows, columns), step, places, results)

    @property
    def frequencies(self) -> int:
        return self.size[0] * (self.size[1] // 2 + 1)

    def corners(self, images: int) -> list[tuple[int, int, int]]:
        """Image index, first row and first column of the results of each tile."""
        rows, columns = (range(0, count, step) for count, step in zip(self.results, self.step, strict=True))
        return list(itertools.product(range(images), rows, columns))

    def window(self, images: NDArray[Any], corner: tuple[int, int, int], of: Numbers) -> Values:
        """Pixels of a tile's window, (channels, rows, columns)."""
        image, top, left = corner
        rows, columns = self.places[0][top : top + self.size[0]], self.places[1][left : left + self.size[1]]
        return window(images[image], rows, columns, of)

    def part(self, corner: tuple[int, int, int]) -> tuple[slice, slice]:
        """Rows and columns of the results that a tile covers."""
        _, top, left = corner
        return slice(top, min(top + self.step[0], self.results[0])), slice(
            left, min(left + self.step[1], self.results[1])
        )

    def spectra(self, planes: list[Values]) -> Spectra:
        """Spectra (frequencies, planes, channels) of planes (channels, rows, columns), zero-padded to `size`."""
        found = [np.fft.rfft2(plane, s=self.size).reshape(len(plane), -1) for plane in planes]
        return np.ascontiguousarray(np.moveaxis(np.stack(found), -1, 0))

    def planes(self, spectra: Spectra) -> Values:
        """Inverse transforms of spectra, (planes, channels, rows, columns)."""
        half = (self.size[0], self.size[1] // 2 + 1)
        found = np.moveaxis(spectra, 0, -1).reshape(*spectra.shape[1:], *half)
        return np.fft.irfft2(found, s=self.size)


def _fprop(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    result = np.empty(problem.output.shape)
    weights = operands["w"]
    tiles = _Tiles.of((standing(problem, 0), standing(problem, 1)), problem.weight[2:])
    for filters in _blocks(weights.shape[0], weights.shape[1], tiles, room):
        _correlate(operands["x"], of(weights[filters]), tiles, of, result[:, filters], room // 2)
    if problem.bias:
        result += of(operands["b"])[:, None, None]
    return result


def _dgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    """Computes the padded image's gradient as the correlation of zero-padded dy with the rotated filters, and folds
    it.
    """
    result = np.empty(problem.output.shape)
    rotated = operands["w"][..., ::-1, ::-1].swapaxes(0, 1)
    rows, columns = (
        np.pad(np.arange(count), taps - 1, constant_values=-1)
        for count, taps in zip(problem.output_size, problem.weight[2:], strict=True)
    )
    tiles = _Tiles.of((rows, columns), problem.weight[2:])
    plane_bytes = 8 * math.prod(problem.padded_size)
    for channels in _blocks(rotated.shape[0], rotated.shape[1], tiles, room // 2, plane_bytes):
        own = of(rotated[channels])
        together = max(1, room // 4 // (len(own) * plane_bytes))
        for first in range(0, problem.input[0], together):
            images = operands["dy"][first : first + together]
            padded = np.empty((len(images), len(own), *problem.padded_size))
            _correlate(images, own, tiles, of, padded, room // 4)
            result[first : first + together, channels] = folded(problem, padded)
    if problem.bias:
        result += of(operands["b"])[:, None, None]
    return result


def _wgrad(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers, room: int) -> Values:
    x, gradients = operands["x"], operands["dy"]
    result = np.empty(problem.output.shape)
    rows, columns = problem.weight[2:]
    tiles = _Tiles.of((standing(problem, 0), standing(problem, 1)), (rows, columns))
    corners, lock = tiles.corners(len(x)), threading.Lock()
    # The room holds the sum and one product per thread.
    for filters in _blocks(problem.weight[0], problem.weight[1], tiles, room // (1 + threads())):
        total = np.zeros((tiles.frequencies, filters.stop - filters.start, problem.weight[1]), np.complex128)

        def add(numbers: slice, filters: slice = filters, total: Spectra = total) -> None:
            for first in range(numbers.start * _TOGETHER, min(len(corners), numbers.stop * _TOGETHER), _TOGETHER):
                mine = corners[first : first + _TOGETHER]
                seen = tiles.spectra([tiles.window(x, corner, of) for corner in mine])
                dy = tiles.spectra([of(gradients[corner[0], filters][:, *tiles.part(corner)]) for corner in mine])
                product = dy.conj().swapaxes(1, 2) @ seen
                with lock:
                    np.add(total, product, out=total)

        count, scratch = math.ceil(len(corners) / _TOGETHER), room // (1 + threads())
        for_each_strip(count, STRIP_BYTES, add, scratch_bytes=scratch, room=room - total.nbytes)
        result[filters] = tiles.planes(total)[..., :rows, :columns]
    return result


def _blocks(outputs: int, inputs: int, tiles: _Tiles, room: int, beside: int = 0) -> list[slice]:
    """Blocks of result channels whose spectra are computed together, as many as fit but at least one.

    Each channel takes `beside` bytes in addition. Half of the room holds these spectra, which need a temporary of equal
    size; the other half holds the threads' windows.
    """
    each = 3 * 16 * tiles.frequencies * inputs + beside
    count = max(1, min(outputs, room // 2 // each))
    return [slice(first, min(first + count, outputs)) for first in range(0, outputs, count)]


def _correlate(images: NDArray[Any], weights: Values, tiles: _Tiles, of: Numbers, target: Values, room: int) -> None:
    """Writes the correlation of padded images (images, channels, rows, columns) with filters (outputs, channels, taps)
    to `target` (images, outputs, rows, columns).

    It handles some tiles at a time, on as many cores as have room.
    """
    factors = tiles.spectra([*weights]).conj().swapaxes(1, 2)  # (frequencies, channels, outputs)
    corners = tiles.corners(len(images))
    # Windows, their magnitudes and spectra, copied once; the products, copied once, and their planes.
    tile_bytes = 4 * 16 * tiles.frequencies * (weights.shape[0] + weights.shape[1])
    together = max(1, min(_TOGETHER, room // tile_bytes))

    def parts(numbers: slice) -> None:
        for first in range(numbers.start * together, min(len(corners), numbers.stop * together), together):
            mine = corners[first : first + together]
            seen = tiles.spectra([tiles.window(images, corner, of) for corner in mine])
            for corner, planes in zip(mine, tiles.planes(seen @ factors), strict=True):
                rows, columns = tiles.part(corner)
                target[corner[0], :, rows, columns] = planes[
                    :, : rows.stop - rows.start, : columns.stop - columns.start
                ]

    count = math.ceil(len(corners) / together)
    for_each_strip(count, STRIP_BYTES, parts, scratch_bytes=together * tile_bytes, room=room)
