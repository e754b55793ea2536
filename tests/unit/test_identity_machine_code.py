"""Canonical form and machine code: what it ignores does not reach the compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsmith.generator.fingerprint import canonical

pytest.importorskip("cuda.bindings.nvrtc")

from golden_files import reviewed
from machine_code import code_of

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLES = (
    "window_3x3_valid",
    "matrix_5x5_uint8",
    "fft_block_245_pairs_bulk",
    "cgemm/warpgroup_odd",
    "conv2d/depthwise_last_fprop",
    "conv2d/mma_dgrad_channels_last",
    "conv2d/im2col_wgrad",
)
"""Texts with shuffles, mma, bulk copies, wgmma and tensor maps."""


@pytest.mark.parametrize("name", SAMPLES)
def test_canonical_text_compiles_to_the_same_machine_code(name: str) -> None:
    text = reviewed((GOLDEN / name).parent, Path(name).name)
    found = canonical(text).text
    assert len(found) < len(text)
    assert code_of(re.sub(r"@(\d)", r"name_\1", found)) == code_of(text)
