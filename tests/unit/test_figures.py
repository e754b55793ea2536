"""Published tables and pictures come from the rows in benchmarks/results, without a GPU."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from scripts import benchmark

figures = benchmark("figures")
DRAWN = [(each, name) for each in figures.PUBLICATIONS for name in each.pictures]


def test_every_table_in_the_documentation_is_what_its_results_give() -> None:
    changed = [path.name for path, before, today in figures.pages() if before != today]
    assert changed == [], "run `python benchmarks/figures.py`"


def test_every_table_has_a_place_in_the_documentation() -> None:
    marked = {mark["name"] for _, text, _ in figures.pages() for mark in figures.MARK.finditer(text)}
    assert marked == set(figures.written_tables())


def test_an_altered_table_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- table fft-figure7 -->\nanother\n<!-- end of table -->\n")
    monkeypatch.setattr(figures, "DOCS", tmp_path)
    ((_, before, today),) = figures.pages()
    assert before != today
    assert "real to complex" in today


@pytest.mark.parametrize(("publication", "name"), DRAWN, ids=[name for _, name in DRAWN])
def test_every_picture_is_drawn_alike_each_time(publication: Any, name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows, paths = publication.rows(), [tmp_path / f"{number}.svg" for number in range(2)]
    for path in paths:
        publication.pictures[name](rows, path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert b"<svg" in first


def test_no_result_names_a_path_of_the_machine() -> None:
    for each in figures.PUBLICATIONS:
        text = gzip.decompress(each.path.read_bytes()).decode()
        assert "/root" not in text
        assert "/home" not in text
