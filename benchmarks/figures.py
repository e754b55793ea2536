"""Draws every published figure and writes every published table from raw results, without a GPU.

    usage: python benchmarks/figures.py [--check]
           python benchmarks/figures.py --pack RESULTS.jsonl NAME

`benchmarks/results/NAME.jsonl.gz` holds the rows of a script, one measured point a line after a line with the device,
its software and the command that measured them. This script draws docs/images/*.svg from them, and replaces the tables
between `<!-- table NAME -->` and `<!-- end of table -->` in the pages of docs/. `--check` writes nothing and exits with
1 if a table would change. `--pack` compresses new rows into the folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from conv2d_bench.lines import Row
from published.figures_of_papers import batches_table, draw_batches, paths_table, small_filters_table
from published.single_tables import bases_table, ladder_table, memory_table, saturation_table, twiddles_table

ROOT = Path(__file__).parents[1]
RESULTS, DOCS, IMAGES = ROOT / "benchmarks/results", ROOT / "docs", ROOT / "docs/images"
MARK = re.compile(r"(<!-- table (?P<name>[\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Publication:
    """Tables and pictures of one file of results."""

    results: str
    """Name of the file in RESULTS, without its ending."""
    tables: Mapping[str, Callable[[Sequence[Row]], str]]
    """Functions that make the Markdown of each table, by the name in its marks."""
    pictures: Mapping[str, Callable[[Sequence[Row], Path], None]] = dataclasses.field(default_factory=dict)
    """Functions that draw each picture of IMAGES, by its file name."""

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.results}.jsonl.gz"

    def rows(self) -> list[Row]:
        """The rows of the file: the runs, and the last row of each point."""
        with gzip.open(self.path, "rt", encoding="utf-8") as file:
            listed = [json.loads(line) for line in file]
        runs = [row for row in listed if "run" in row]
        return [*runs, *{row["key"]: row for row in listed if "key" in row}.values()]


PUBLICATIONS = (
    Publication(
        "fft-batches",
        {"fft-figure7": batches_table(7), "fft-figure8": batches_table(8)},
        {"fft-figure7.svg": draw_batches(7), "fft-figure8.svg": draw_batches(8)},
    ),
    Publication("conv2d-small", {"conv2d-small": small_filters_table}),
    Publication("filter-paths", {"filter-paths": paths_table}),
    Publication("filter-saturation", {"filter-saturation": saturation_table}),
    Publication("memory", {"memory": memory_table}),
    Publication("fft-twiddles", {"fft-twiddles": twiddles_table}),
    Publication("basis-sizes", {"basis-sizes": bases_table}),
    Publication("cnn-ladder", {"cnn-ladder": ladder_table}),
)


def written_tables() -> dict[str, str]:
    """Markdown of every published table, by its name."""
    found: dict[str, str] = {}
    for each in PUBLICATIONS:
        rows = each.rows()
        found |= {name: written(rows) for name, written in each.tables.items()}
    return found


def pages() -> Iterator[tuple[Path, str, str]]:
    """Yields each page with a published table: its path, its text, and the text with today's tables."""
    found = written_tables()
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        yield path, text, MARK.sub(lambda mark: f"{mark[1]}{found[mark['name']]}\n{mark[3]}", text)


def pack(source: Path, name: str) -> None:
    """Compresses rows into RESULTS: the same bytes for the same rows."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.jsonl.gz").write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pack", nargs=2, metavar=("RESULTS.jsonl", "NAME"))
    given = parser.parse_args()
    if given.pack:
        pack(Path(given.pack[0]), given.pack[1])
    changed = [(path, text) for path, before, text in pages() if text != before]
    if given.check:
        for path, _ in changed:
            print(f"{path.relative_to(ROOT)}: a table differs from its results", file=sys.stderr)
        return 1 if changed else 0
    for path, text in changed:
        path.write_text(text)
    for each in PUBLICATIONS:
        rows = each.rows()
        for name, draw in each.pictures.items():
            draw(rows, IMAGES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
