"""Generated CUDA has at most 120 columns, like the project's own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_files import all_reviewed

FOLDER = Path(__file__).parent
MOST_COLUMNS = 120


def test_no_golden_file_has_a_line_over_120_columns() -> None:
    wide = [
        f"{name}, line {number}: {len(line)} columns"
        for name, text in all_reviewed(FOLDER).items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MOST_COLUMNS
    ]
    if wide:
        pytest.fail("\n".join([*wide, "Break these lines in the template."]), pytrace=False)
