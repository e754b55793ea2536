"""Module search path for processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parent
"""The folder of `builders.py` and its neighbours."""


def python_path(*folders: Path | str) -> str:
    """PYTHONPATH with `folders` before its present entries, since the package itself may be found through those."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
