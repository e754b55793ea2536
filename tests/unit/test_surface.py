"""Family names, problem and config keys, command words, exit codes, API and JSON documents are what they were."""

from __future__ import annotations

import json
from pathlib import Path

from surface import surface
from warpsmith.generator.registry import OPERATIONS


def test_is_what_it_was() -> None:
    """One test, not one for each part: making the surface takes 20 s."""
    stored, today = json.loads((Path(__file__).parent / "surface.json").read_text()), surface()
    assert list(today) == list(stored)
    assert [part for part in stored if today[part] != stored[part]] == []
    assert set(today["parameters"]) == {name for each in OPERATIONS.values() for name in each.listed}
