"""The Python of the README and of the quick starts runs on the host device and computes what its comments say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CLAIMS = {
    "README.md": 3,
    "docs/quickstart-image-processing.md": 7,
    "docs/quickstart-signal-processing.md": 7,
    "docs/quickstart-cuda.md": 1,
    "docs/guide/samplers.md": 0,
    "docs/guide/pytorch.md": 1,
}
"""Pages, and in how many places each says in a comment what NumPy or SciPy would compute."""


def test_every_quick_start_is_run() -> None:
    root = Path(__file__).parent.parent.parent
    assert {str(page.relative_to(root)) for page in root.glob("docs/quickstart-*.md")} == CLAIMS.keys() - {
        "README.md",
        "docs/guide/samplers.md",
        "docs/guide/pytorch.md",
    }


@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.parametrize("page", CLAIMS)
def test_python_of_a_page_runs(
    page: str, code_blocks: Callable[[str], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    claims = 0
    for block in code_blocks(page):
        if block.gpu is None:
            claims += block.run(names)
        else:
            compile(block.code, page, "exec")  # tests/gpu/test_quick_start_gpu.py runs it
    assert claims == CLAIMS[page]
