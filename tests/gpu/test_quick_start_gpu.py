"""The blocks of the CUDA quick start that need a GPU run there, after the blocks that need none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_blocks_for_a_gpu_run(
    library: str, code_blocks: Callable[[str], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array_library = pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    checked = 0
    for block in code_blocks("docs/quickstart-cuda.md"):
        if block.gpu is None:
            block.run(names)
        elif block.gpu == library:
            names["plan"] = names["ws"].plan(names["problem"], "cuda:0")
            block.run(names)
            array_library.cuda.Device(0).synchronize() if library == "cupy" else array_library.cuda.synchronize()
            x, y = (names[name].get() if library == "cupy" else names[name].cpu().numpy() for name in "xy")
            expected = correlate2d(x.astype(np.float64), names["w"], mode="valid")
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * abs(expected).max())
            checked += 1
    assert checked == {"torch": 2, "cupy": 1}[library]
