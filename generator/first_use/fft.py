"""Reference kernels of `fft`."""

from __future__ import annotations

from math import prod

from warpsmith.generator.cgemm.problem import Op
from warpsmith.generator.fft.problem import Fft, Kind, Layout, Order
from warpsmith.generator.first_use.reference import Mirrored, Reference, Scale, packed, reference_program
from warpsmith.generator.padding import Outside
from warpsmith.generator.problem import DType

_LAYOUTS = {Layout.BATCH: 0, Layout.TRANSPOSED: 1, Layout.FREQUENCY: 2}
_TERM_COST = 8
"""Multiply-adds that take as long as one term, which has a sine and a cosine in float64."""

Pair = tuple[int, int]


def fft_reference(problem: Fft, threads: int) -> Reference:
    """Reference whose sums are one frequency of a forward transform, or one point of an inverse one."""
    rows, columns = _pair(problem.size, 1)
    spectrum_columns = problem.spectrum_size[-1]
    row_bits, column_bits = _bits(problem)
    steps = _steps(problem, rows, spectrum_columns)
    integers = {
        "is_inverse": int(problem.inverse is True),
        "is_real": int(problem.is_real),
        "layout": _LAYOUTS[problem.layout],
        "mode": Outside.CONSTANT if problem.border is None else problem.border.mode.outside,
        "batch": problem.batch,
        "rows": rows,
        "columns": columns,
        "spectrum_columns": spectrum_columns,
        "row_bits": row_bits,
        "column_bits": column_bits,
        **_axes("signal", _pair(problem.signal_size, 1)),
        **_axes("bordered", _pair(problem.bordered_size, 1)),
        **_before(problem),
        **_axes("start", _pair(problem.start or (0,), 0)),
        **dict(zip(("spectrum_batch", "spectrum_row", "spectrum_column"), steps, strict=True)),
        **_tiles(problem),
        **_product(problem),
    }
    reals = {"scale": problem.scale}
    names = [operand.name for operand in problem.inputs]
    is_complex = problem.output.dtype is DType.COMPLEX64
    real = DType.FLOAT32
    return Reference(
        program=reference_program("fft", threads, integers, reals, real, real, parts=2 if is_complex else 1),
        values=packed(integers, reals),
        inputs=(names[0], names[min(1, len(names) - 1)], names[-1]),
        terms=prod(problem.spectrum_size if problem.inverse else problem.bordered_size),
        term_cost=_TERM_COST,
        scale=Scale.RMS,
        mirrored=_mirrored(problem, spectrum_columns, steps) if problem.kind is Kind.C2R else (),
    )


def _pair(numbers: tuple[int, ...], missing: int) -> Pair:
    """Rows and columns; a transform of one dimension has one row."""
    first, second = (missing, *numbers)[-2:]
    return first, second


def _axes(name: str, pair: Pair) -> dict[str, int]:
    return {f"{name}_rows": pair[0], f"{name}_columns": pair[1]}


def _before(problem: Fft) -> dict[str, int]:
    pads = () if problem.border is None else tuple(before for before, _ in problem.border.pads)
    rows, columns = _pair(pads or (0,), 0)
    return {"rows_before": rows, "columns_before": columns}


def _bits(problem: Fft) -> Pair:
    """Bits of a row and of a column frequency that are reversed in its place; 0 in natural order."""
    if problem.order is Order.NATURAL:
        return 0, 0
    rows, columns = _pair(problem.size, 1)
    return rows.bit_length() - 1, (columns // 2 if problem.is_real else columns).bit_length() - 1


def _steps(problem: Fft, rows: int, columns: int) -> tuple[int, int, int]:
    """Elements from one spectrum, one row and one column to the next."""
    match problem.layout:
        case Layout.BATCH:
            return rows * columns, columns, 1
        case Layout.TRANSPOSED:
            return rows * columns, 1, rows
        case Layout.FREQUENCY:
            return 1, columns * problem.batch, problem.batch


def _tiles(problem: Fft) -> dict[str, int]:
    tiling = problem.tiling
    named = {"tile": (1, 1), "step": (1, 1), "origin": (0, 0), "plane": (1, 1)}
    if tiling is not None:
        named["tile"], named["step"] = _pair(tiling.count, 1), _pair(tiling.step, 1)
        named["origin"], named["plane"] = _pair(tiling.origin, 0), _pair(tiling.plane, 1)
    axes = {key: number for name, pair in named.items() for key, number in _axes(name, pair).items()}
    return {"is_tiled": int(tiling is not None), "inner": tiling.inner if tiling else 1, **axes}


def _product(problem: Fft) -> dict[str, int]:
    product = problem.product
    return {
        "is_product": int(product is not None),
        "has_offset": int(product is not None and product.offset),
        "product_rows": product.rows if product else 1,
        "product_columns": product.columns if product else 1,
        "product_terms": product.terms if product else 1,
        "a_transposes": int(product is not None and product.a.transposes),
        "a_conjugates": int(product is not None and product.a is Op.C),
        "b_transposes": int(product is not None and product.b.transposes),
        "b_conjugates": int(product is not None and product.b is Op.C),
    }


def _mirrored(problem: Fft, columns: int, steps: tuple[int, int, int]) -> tuple[Mirrored, ...]:
    if problem.product is None:
        return (Mirrored("spectrum", problem.batch, steps),)
    sizes = [prod(shape) for shape in problem.product.shapes]
    return tuple(Mirrored(name, size, (1, columns * size, size)) for name, size in zip("ab", sizes, strict=True))
