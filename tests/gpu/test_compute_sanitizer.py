"""Every family under compute-sanitizer: reads and writes outside allocations, and races for shared memory."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"


WIDE = (
    Filter2d(image=(26, 1117), filter=(3, 5), border=Border.REFLECT, convolve=True),
    Filter2d(image=(40, 560), filter=(15, 15), planes=2),
    Filter2d(image=(20, 608), filter=(2, 3), channels=3, dtype=DType.UINT8, border=Border.WRAP),
)
"""As wide as a warpgroup, whose products of matrices take 512 outputs at a time."""


@pytest.mark.skipif(not Path(SANITIZER).exists(), reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_every_family_under_compute_sanitizer(spread: tuple[Filter2d, ...], tmp_path: Path, tool: str) -> None:
    device = cuda_device(0)
    cases: list[tuple[Filter2d, Program]] = []
    for problem in (*spread, *WIDE):
        rng = random.Random(problem.key())
        for family in families_for(problem, device):
            config = family.space(problem, device).drawn(rng) or family.default(problem, device)
            cases.append((problem, family.program(problem, config)))
    compiler = NvrtcCompiler(device.arch)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        binaries = list(pool.map(lambda case: compiler.compile(case[1]), cases))
    compiled = tmp_path / "programs"
    compiled.write_bytes(pickle.dumps([(*case, binary) for case, binary in zip(cases, binaries, strict=True)]))
    watched = (sys.executable, str(Path(__file__).with_name("memory_checked.py")), str(compiled))
    ran = subprocess.run(
        [SANITIZER, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9", *watched],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert f"{len(cases)} programs ran" in ran.stdout
