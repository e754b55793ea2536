"""The Python code of README, quick starts and guides runs on the host device and computes what its comments say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup

CLAIMS = {
    "README.md": 1,
    "docs/long-signals.md": 0,
    "docs/quickstart-image-processing.md": 7,
    "docs/quickstart-signal-processing.md": 7,
    "docs/quickstart-cuda.md": 1,
    "docs/quickstart-pytorch.md": 0,
    "docs/guide/bundles.md": 0,
    "docs/guide/ffts.md": 2,
    "docs/guide/filters.md": 1,
    "docs/guide/layers.md": 0,
    "docs/guide/matrix-products.md": 0,
    "docs/guide/pytorch.md": 1,
    "docs/guide/samplers.md": 0,
    "docs/guide/signals.md": 15,
}
"""Pages, with the number of comments in each that name the NumPy or SciPy equivalent."""

CONTRIBUTORS = {"docs/guide/adding-a-family.md", "docs/guide/adding-a-gpu.md", "docs/guide/adding-an-operation.md"}
"""Pages whose Python is part of a file and does not run by itself."""


def test_the_python_of_every_page_is_run(code_blocks: Callable[[str], list[Any]]) -> None:
    root = Path(__file__).parent.parent.parent
    found = (page for folder in (".", "docs", "docs/guide") for page in root.glob(f"{folder}/*.md"))
    pages = (str(page.relative_to(root)) for page in found)
    assert {page for page in pages if code_blocks(page)} - CONTRIBUTORS == CLAIMS.keys()


ONE_SEARCH = ("README.md", "docs/guide/bundles.md", "docs/guide/filters.md")
"""Pages that tune the same problem by the same number of trials. They share a store, so that the first one searches."""

SMALLER = {
    "(512, 512)": "(128, 128)",
    "(512, 520)": "(128, 136)",
    ":512]": ":128]",
    "pitch=2080": "pitch=544",
    "(1080, 1920": "(135, 240",
    "skimage.data.camera()": "skimage.data.camera()[:128, :128].copy()",
    "(95, 95)": "(39, 39)",
    "95**2": "39**2",
}
"""Sizes of photographs and of the largest filter in pages, and those that run by default. Kernels without optimisation
take a second for each of a page's photographs.
"""


@pytest.mark.usefixtures("compile_quickest", "without_emulated_products")
@pytest.mark.parametrize("pages", [ONE_SEARCH, *((page,) for page in CLAIMS if page not in ONE_SEARCH)], ids="+".join)
def test_python_of_pages_runs(
    pages: tuple[str, ...], code_blocks: Callable[[str], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in pages:
        if any("import torch" in block.code for block in code_blocks(page)):
            pytest.importorskip("torch")
        folder = tmp_path / page.replace("/", "-")
        folder.mkdir()
        monkeypatch.chdir(folder)
        names: dict[str, Any] = {}
        claims = 0
        for block in code_blocks(page):
            if block.gpu is None:
                claims += dataclasses.replace(block, code=as_run(block.code)).run(names)
            else:
                compile(block.code, page, "exec")  # tests/gpu/test_quick_start_gpu.py runs it
        assert claims == CLAIMS[page]


def test_every_smaller_size_is_in_a_page(code_blocks: Callable[[str], list[Any]]) -> None:
    text = "".join(block.code for page in CLAIMS for block in code_blocks(page))
    assert [size for size in SMALLER if size not in text] == []


def as_run(code: str) -> str:
    """A page's code with smaller photographs, or as it is if the run is exhaustive."""
    for size, smaller in ({} if exhaustive.requested() else SMALLER).items():
        code = code.replace(size, smaller)
    return code


@pytest.fixture
def without_emulated_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves `filter2d_warpgroup` out of the searches by default. The host emulates its matrix instructions, so that a
    candidate takes longer on a photograph than all others together.
    """
    if not exhaustive.requested():
        monkeypatch.setattr(Filter2dWarpgroup, "why_not", lambda *_: "left out of this test")
