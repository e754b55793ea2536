"""Generated CUDA has at most 120 columns, like the project's own code.

`wide_lines.txt` counts the lines that are wider today, by golden file; an update lowers counts and never raises them.
Once that file is empty, delete it with all that reads and writes it here, and expect no wide line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_files import all_reviewed, updating

FOLDER = Path(__file__).parent
COUNTS = FOLDER / "wide_lines.txt"
MOST_COLUMNS = 120
ADVICE = (
    "Break the lines in the template. If there are fewer than before: WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden"
)


def test_no_golden_file_gains_a_line_over_120_columns() -> None:
    wide = {name: found for name, text in all_reviewed(FOLDER).items() if (found := _wide(text))}
    if updating():
        _lower_counts(wide)
    allowed = _counts()
    wrong = [
        f"{name}: {len(found)} lines over {MOST_COLUMNS} columns, the file says {allowed.get(name, 0)}: {found[:5]}"
        for name in sorted({*wide, *allowed})
        if len(found := wide.get(name, [])) != allowed.get(name, 0)
    ]
    if wrong:
        pytest.fail("\n".join([*wrong, ADVICE]), pytrace=False)


def _lower_counts(wide: dict[str, list[str]]) -> None:
    lowered = {name: min(count, len(wide.get(name, []))) for name, count in _counts().items()}
    COUNTS.write_text("".join(f"{name} {count}\n" for name, count in lowered.items() if count))


def _counts() -> dict[str, int]:
    pairs = (line.split() for line in COUNTS.read_text().splitlines())
    return {name: int(count) for name, count in pairs}


def _wide(text: str) -> list[str]:
    """Places and widths of the wide lines."""
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number} has {len(line)}" for number, line in lines if len(line) > MOST_COLUMNS]
