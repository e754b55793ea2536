"""The Python code of README, quick starts and guides runs on the host device and computes what its comments say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup

CLAIMS = {
    "README.md": 1,
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

LARGE_FILTER = "psf = np.ones((95, 95)"
"""First words of a block that applies 9025 weights to a photograph `x`. By default it gets a corner of the photograph."""


@pytest.mark.usefixtures("compile_quickly", "without_emulated_products")
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
            if block.gpu is not None:
                compile(block.code, page, "exec")  # tests/gpu/test_quick_start_gpu.py runs it
                continue
            if block.code.startswith(LARGE_FILTER) and not exhaustive.requested():
                names["x"] = names["x"][:128, :128].copy()
            claims += block.run(names)
        assert claims == CLAIMS[page]


@pytest.fixture
def without_emulated_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves `filter2d_warpgroup` out of the searches by default. The host emulates its matrix instructions, so that one
    of its candidates takes longer on a photograph than all others together.
    """
    if not exhaustive.requested():
        monkeypatch.setattr(Filter2dWarpgroup, "why_not", lambda *_: "left out of this test")
