"""Cost of importing warpsmith. Each import runs in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys

MEASURE = """
import sys, time
start = time.process_time()
import {module}
seconds = time.process_time() - start
import json
print(json.dumps([seconds, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def fresh_import(module: str) -> tuple[float, set[str]]:
    """CPU seconds of the import, and the top-level packages loaded afterwards."""
    command = [sys.executable, "-c", MEASURE.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, packages = json.loads(done.stdout)
    return seconds, set(packages)


def test_importing_warpsmith_loads_no_third_party() -> None:
    _, loaded = fresh_import("warpsmith")
    assert "warpsmith" in loaded
    heavy = {"numpy", "jinja2", "optuna", "sqlalchemy", "alembic", "typer", "rich", "pycuda", "cuda", "platformdirs"}
    assert not {*heavy, "torch"} & loaded


def test_importing_warpsmith_takes_about_a_tenth_of_a_second() -> None:
    # 0.03 s on a workstation and 0.09 s on the slowest machine that was tried. NumPy alone would add as much again. The
    # best of several counts, since caches may be cold.
    assert min(fresh_import("warpsmith")[0] for _ in range(5)) < 0.15


def test_a_bundle_is_read_without_the_tuner_s_packages() -> None:
    _, loaded = fresh_import("warpsmith.plans.bundle")
    assert "numpy" in loaded
    assert not {"optuna", "sqlalchemy", "alembic", "jinja2", "typer", "rich", "pycuda"} & loaded
