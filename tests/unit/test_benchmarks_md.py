"""Figures in the benchmark pages: those of shipped winners equal their stored records."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.store.conditions import Launched
from warpsmith.store.location import shipped_store
from warpsmith.store.record import COPY, Record
from warpsmith.store.store import Store
from warpsmith.units import format_time

LAB = Path(__file__).parents[2] / "docs" / "lab"
PAGES = ("filters.md", "transforms.md", "layers.md", "layers-by-transforms.md")
REPEATED = 0.025
"""Largest relative difference of two runs of a kernel, for tables of a run later than the record."""

_AGAIN = "the table tells of a later run of `bench`, in which all its filters took turns with the peers in one process"
EXCEPTIONS = {
    **{("image filters", size): _AGAIN for size in ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7", "9x9", "11x11", "15x15")},
    ("image filters", "15x15 Gaussian, known"): _AGAIN,
    ("squares", "256x256 c2r"): "it was not measured again with its family's latest kernels, and has no shipped record",
}
"""Rows whose figures are not those of a shipped record, and the reason. Figures 7 and 8 have tables of ratios alone,
those of graphs of plans, which no record has.
"""


@dataclasses.dataclass(frozen=True)
class Table:
    """A Markdown table, and the text between it and the table before."""

    text: str
    header: list[str]
    rows: list[list[str]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row about a problem: its figures, and the figures that each record of that problem gives."""

    table: str
    name: str
    told: tuple[str, ...]
    stored: tuple[tuple[str, ...], ...]


def tables() -> Iterator[Table]:
    text, lines = "", []
    for line in [*"\n\n".join((LAB / page).read_text(encoding="utf-8") for page in PAGES).splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif lines:
            header, _, *rows = lines
            yield Table(text, header, rows)
            text, lines = "", []
        else:
            text += f"{line}\n"


@pytest.fixture(scope="module")
def records() -> tuple[Record, ...]:
    with Store.open(str(shipped_store()), write=False) as store:
        found = store.records()
    # Figures 7 and 8 give ratios of graphs of plans instead.
    return tuple(record for record in found if not record.conditions.startswith(Launched.GRAPH))


def copy_ns(record: Record) -> float:
    return next(each.timing.median_ns for each in record.baselines if each.name == COPY)


def transform_figures(record: Record) -> tuple[str, str, str]:
    """Microseconds, percent of copy speed, speed-up."""
    ours, verdict = record.timing.median_ns, record.verdict
    assert verdict is not None
    return f"{ours / 1e3:.1f}", f"{100 * copy_ns(record) / ours:.1f}", f"{verdict.speed_up:.2f}"


def transforms(
    records: tuple[Record, ...], size: str, kind: str, valid: str | None = None
) -> tuple[tuple[str, ...], ...]:
    wanted = tuple(map(int, size.split("x"))), None if valid is None else tuple(map(int, valid.split("x")))
    return tuple(
        transform_figures(record)
        for record in records
        if isinstance(record.problem, Fft)
        and (record.problem.size, record.problem.valid) == wanted
        and record.problem.kind == kind
    )


def plain(*cells: str) -> tuple[str, ...]:
    return tuple(re.sub(r"[*%]| us$", "", cell) for cell in cells)


def lines_of_transforms(records: tuple[Record, ...]) -> Iterator[Row]:
    for table in tables():
        if table.header[:3] != ["n", "us", "% of copy"]:
            continue
        kind = "r2c" if "real to complex" in table.text.lower() else "c2r"
        for row, start in itertools.product(table.rows, range(0, 12, 4)):
            n, *told = row[start : start + 4]
            if n:
                (size,) = plain(n)
                yield Row(f"one dimension, {kind}", size, plain(*told), transforms(records, size, kind))


def squares(records: tuple[Record, ...]) -> Iterator[Row]:
    (table,) = [each for each in tables() if each.header[:2] == ["n x n", "real to complex"]]
    for size, *told in table.rows:
        for kind, cells in (("r2c", told[:3]), ("c2r", told[3:])):
            yield Row("squares", f"{size} {kind}", plain(*cells), transforms(records, size, kind))


def padded(records: tuple[Record, ...]) -> Iterator[Row]:
    (table,) = [each for each in tables() if each.header[0] == "points"]
    for row, start in itertools.product(table.rows, (0, 4)):
        name, *told = row[start : start + 4]
        valid, size = name.split(" in ")
        yield Row("padded", name, plain(*told), transforms(records, size, "r2c", valid))


def filters(records: tuple[Record, ...], dtype: str, image: tuple[int, int], size: str, *, known: bool) -> list[Record]:
    return [
        record
        for record in records
        if isinstance(record.problem, Filter2d)
        and (record.problem.dtype, record.problem.image) == (dtype, image)
        and "x".join(map(str, record.problem.filter)) == size
        and (record.problem.weights is not None) == known
    ]


def small_types(records: tuple[Record, ...]) -> Iterator[Row]:
    (table,) = [each for each in tables() if each.header[:2] == ["type", "image"]]
    for dtype, image, size, ours, copy, share, _ in table.rows:
        columns, rows = map(int, image.split("x"))
        stored = tuple(
            (
                format_time(record.timing.median_ns),
                format_time(copy_ns(record)),
                f"{record.timing.median_ns / copy_ns(record):.2f}x",
            )
            for record in filters(records, dtype, (rows, columns), size, known=False)
        )
        yield Row("small types", f"{dtype} {image} {size}", (ours, copy, share), stored)


def image_filters(records: tuple[Record, ...]) -> Iterator[Row]:
    (table,) = [each for each in tables() if each.header[0] == "filter" and "cuDNN" in each.header]
    libraries = ("cuDNN", "CuPy", "NPP")
    for row in table.rows:
        cells = dict(zip(table.header, row, strict=True))
        size, _, known = cells["filter"].partition(" ")
        told = (cells["ours"], *(cells[library] for library in libraries))
        stored = []
        for record in filters(records, "float32", (9216, 9216), size, known=bool(known)):
            beside = {each.name.split()[0]: format_time(each.timing.median_ns) for each in record.baselines}
            times = (beside[library.lower()] for library in libraries)
            stored.append((format_time(record.timing.median_ns), *times))
        yield Row("image filters", cells["filter"], told, tuple(stored))


def number(cell: str) -> float:
    """Number in a cell; times are in microseconds."""
    value = float(re.sub(r"[^0-9.]", "", cell))
    return 1000 * value if cell.endswith("ms") else value


RULES = {lines_of_transforms: 140, squares: 12, padded: 8, small_types: 12, image_filters: 10}
"""Readers of table rows, and the fewest rows each must find; a reader that finds none would pass unnoticed."""


@pytest.fixture(scope="module")
def rows(records: tuple[Record, ...]) -> list[Row]:
    found = []
    for rule, least in RULES.items():
        mine = list(rule(records))
        assert len(mine) >= least, rule.__name__
        found += mine
    return found


def test_figures_are_those_of_the_shipped_records(rows: list[Row]) -> None:
    wrong = [
        f"{row.table}, {row.name}: the table says {row.told}, the store {row.stored or 'nothing'}"
        for row in rows
        if row.told not in row.stored and (row.table, row.name) not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_needed(rows: list[Row]) -> None:
    known = {(row.table, row.name): row for row in rows}
    assert [each for each in EXCEPTIONS if each not in known or known[each].told in known[each].stored] == []


def test_later_runs_are_near_the_shipped_records(rows: list[Row]) -> None:
    for row in rows:
        if EXCEPTIONS.get((row.table, row.name)) == _AGAIN:
            near = [
                stored
                for stored in row.stored
                if all(abs(number(a) / number(b) - 1) <= REPEATED for a, b in zip(row.told, stored, strict=True))
            ]
            assert near, f"{row.name}: {row.told} in the table, {row.stored} in the store"
