"""NPP filter peers: all taps at once, or a row and a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.separable import Term
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.filter2d import npp
from warpsmith.tuner.operations.peer import Peer, Unavailable
from warpsmith.tuner.operations.reference import Operands

FILTERS = {DType.FLOAT32: "nppiFilterBorder_32f", DType.UINT8: "nppiFilterBorder32f_8u"}
"""Function names by element type of image and result. The weights are float32 in both."""

DeviceArrays = tuple[Callable[[NDArray[Any]], Any], Callable[[Any], NDArray[Any]]]
"""Functions that copy an array to the device, and back."""


def npp_peer(problem: Filter2d, taps: NDArray[np.float32], operands: Operands, arrays: DeviceArrays, sets: int) -> Peer:
    """Peer that runs NPP's filter on dense arrays.

    Args:
        problem: filter problem.
        taps: weights as (filters, R, S), rotated so that a correlation applies them.
        operands: the problem's inputs.
        arrays: another library's device memory; NPP has none of its own.
        sets: number of buffer sets.

    Raises:
        Unavailable: NPP does not support the problem.
    """
    _require(problem, tuple(FILTERS))
    name = f"{FILTERS[problem.dtype]}_C{problem.channels}R"
    filter_image = npp.FilterBorder(name)
    to_device, to_host = arrays
    above, left = _centre(problem)
    # NPP's filters are convolutions, so their mask is rotated, and so is the position of its anchor.
    turned = to_device(np.ascontiguousarray(taps[0, ::-1, ::-1]))
    mask = npp.Mask(turned, *problem.filter, (problem.filter[0] - 1 - above, problem.filter[1] - 1 - left))
    sources, targets = _images(problem, operands, to_device, sets)
    offset = (above, left) if problem.border is Border.VALID else (0, 0)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        filter_image(sources[index], offset, targets[index], mask, stream)

    return Peer(f"npp {npp.version()} {name}", run, lambda: to_host(targets[0].array))


def separable_npp_peer(problem: Filter2d, term: Term, operands: Operands, arrays: DeviceArrays, sets: int) -> Peer:
    """Peer that runs NPP's row filter, then its column filter, with a float32 image between them. Raises as `npp_peer`
    does.
    """
    _require(problem, (DType.FLOAT32,))
    names = [f"nppiFilter{way}Border_32f_C{problem.channels}R" for way in ("Row", "Column")]
    along, down = (npp.LineFilterBorder(name) for name in names)
    to_device, to_host = arrays
    (above, left), (r, s) = _centre(problem), problem.filter
    row = npp.Line(to_device(np.array(term.row[::-1], np.float32)), s, s - 1 - left)
    column = npp.Line(to_device(np.array(term.column[::-1], np.float32)), r, r - 1 - above)
    sources, targets = _images(problem, operands, to_device, sets)
    # The intermediate image of border `valid` has the result's columns and every row, which the column filter reads.
    rows, columns = problem.image[0], problem.output_shape[1]
    shape = (rows, columns, problem.channels)
    between = [_image(to_device(np.zeros(shape, np.float32)), (rows, columns), problem) for _ in range(sets)]
    inside = problem.border is Border.VALID

    def run(index: int = 0, stream: int | None = None, /) -> None:
        along(sources[index], (0, left if inside else 0), between[index], row, stream)
        down(between[index], (above if inside else 0, 0), targets[index], column, stream)

    return Peer(f"npp {npp.version()} {' and '.join(names)}", run, lambda: to_host(targets[0].array))


def _require(problem: Filter2d, dtypes: tuple[DType, ...]) -> None:
    if problem.border not in (Border.VALID, Border.NEAREST):
        raise Unavailable(f"it has no border {problem.border}: it replicates at the edge")
    if problem.result_dtype is not None or problem.dtype not in dtypes:
        result = problem.result_dtype or problem.dtype
        raise Unavailable(f"it has no such filter from {problem.dtype} to {result}")
    if problem.planes > 1 or problem.filters > 1:
        raise Unavailable("it has one image and one filter a call")


def _centre(problem: Filter2d) -> tuple[int, int]:
    """Rows above and columns left of the pixel that a window is assigned to.

    With border `valid` that is the window's centre: a library may be fastest in the inside of the image.
    """
    if problem.border is Border.VALID:
        return problem.filter[0] // 2, problem.filter[1] // 2
    return problem.before


def _images(
    problem: Filter2d, operands: Operands, to_device: Callable[[NDArray[Any]], Any], sets: int
) -> tuple[list[npp.Image], list[npp.Image]]:
    empty = np.zeros(problem.output.shape, str(problem.output.dtype))
    sources = [_image(to_device(operands["image"]), problem.image, problem) for _ in range(sets)]
    return sources, [_image(to_device(empty), problem.output_shape, problem) for _ in range(sets)]


def _image(array: Any, extent: tuple[int, int], problem: Filter2d) -> npp.Image:
    return npp.Image(array, *extent, problem.channels * problem.dtype.itemsize)
