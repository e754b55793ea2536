"""Generated CUDA of the kernels that measure memories: a person has reviewed the text; tests/unit compile it."""

from __future__ import annotations

from pathlib import Path

from golden_files import GoldenFiles
from warpsmith.generator.memory_probe import MemoryProbe
from warpsmith.generator.presets import H200

FILES = GoldenFiles(
    Path(__file__).parent / "memory_probe", ("h200",), lambda _: MemoryProbe.of(H200).probe.program.source
)


def test_matches_the_reviewed_text() -> None:
    FILES.check("h200")


def test_there_is_one_file_for_each_case() -> None:
    FILES.check_names()
