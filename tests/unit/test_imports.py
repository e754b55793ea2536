"""Cost of importing warpsmith. Each import runs in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys

MEASURE = """
import sys, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
import json
print(json.dumps([seconds, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def fresh_import(module: str) -> tuple[float, set[str]]:
    """Seconds of the import, and the top-level packages loaded afterwards."""
    command = [sys.executable, "-c", MEASURE.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, packages = json.loads(done.stdout)
    return seconds, set(packages)


def test_importing_warpsmith_loads_no_third_party() -> None:
    _, loaded = fresh_import("warpsmith")
    assert "warpsmith" in loaded
    heavy = {"numpy", "jinja2", "optuna", "sqlalchemy", "alembic", "typer", "rich", "pycuda", "cuda", "platformdirs"}
    assert not {*heavy, "torch"} & loaded


def test_importing_warpsmith_takes_less_than_a_tenth_of_a_second() -> None:
    # The best of several: the machine may be busy with other things.
    assert min(fresh_import("warpsmith")[0] for _ in range(5)) < 0.1


def test_a_bundle_is_read_without_the_tuner_s_packages() -> None:
    _, loaded = fresh_import("warpsmith.plans.bundle")
    assert "numpy" in loaded
    assert not {"optuna", "sqlalchemy", "alembic", "jinja2", "typer", "rich", "pycuda"} & loaded
