"""The command line: `warpsmith tune|query|export|bench|verify|explain|report|db|doctor`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and exits: 0 done, 1 failed, 2 bad arguments, 3 nothing stored."""
    from warpsmith.cli.streams import fill_closed_descriptors

    fill_closed_descriptors()
    from warpsmith.cli.app import run

    sys.exit(run(sys.argv[1:]))
