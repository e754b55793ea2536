"""The Python code of README, quick starts and guides runs on the host device and computes what its comments say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.parametrize("page", CLAIMS)
def test_python_of_a_page_runs(
    page: str, code_blocks: Callable[[str], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any("import torch" in block.code for block in code_blocks(page)):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    claims = 0
    for block in code_blocks(page):
        if block.gpu is None:
            claims += block.run(names)
        else:
            compile(block.code, page, "exec")  # tests/gpu/test_quick_start_gpu.py runs it
    assert claims == CLAIMS[page]
