"""Where processes that tests start find modules."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parent
"""This folder, with `builders.py` and its neighbours."""


def python_path(*folders: Path | str) -> str:
    """A PYTHONPATH of these folders, and of what was in it before: the package itself may be found by it."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
