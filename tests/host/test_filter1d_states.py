"""States and packed sequences of every filter1d family on the CPU, compared with float64 sums and under sanitizers."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest

import exhaustive
import forking
import sanitized
import verified
from filter1d_cases import DEVICE, FAMILIES, covering_configs, program_of, solved_by
from filter1d_states import STATES
from policies import ONE_RUN
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.program import Program
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed

ABLE = tuple(family for family in FAMILIES if solved_by(family, STATES))
every_family = pytest.mark.parametrize("family", ABLE, ids=lambda family: family.name)


def test_the_families_with_states() -> None:
    assert {each.name for each in ABLE} == {
        "filter1d_plain",
        "filter1d_registers",
        "filter1d_channels",
        "filter1d_step",
        "filter1d_partitioned",
    }


class TestResults:
    """Every outcome covers guards around operands and states, stress data, and equal bits."""

    @every_family
    def test_defaults_are_right(self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler) -> None:
        problems = exhaustive.share(solved_by(family, STATES), ABLE.index(family), 2)
        verified.check(host, quickest, [(each, program_of(family, each)) for each in problems])

    @every_family
    def test_random_configs_are_right(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        problems = exhaustive.share(solved_by(family, STATES), ABLE.index(family) + 1, 2)
        verified.check(host, quickest, [(each, program_of(family, each, 1)) for each in problems])

    @every_family
    def test_every_value_of_every_parameter_is_right(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        problems = (
            Filter1d(300, 5, 2, mode="causal", channels=8, filters=8, state="both", dtype="float16", bias=True),
            Filter1d(300, 4, mode="causal", layout="btc", channels=8, filters=8, state="both", packed=9),
            Filter1d(2, 4, 3, mode="causal", channels=16, filters=16, dtype="bfloat16", state="carried", state_rows=5),
        )
        cases = [
            (each, family.program(each, config))
            for each in solved_by(family, problems)
            for config in covering_configs(family, each)
        ]
        verified.check(host, quickest, cases)

    @every_family
    @pytest.mark.usefixtures("compile_without_optimisation")
    def test_kernels_are_clean_under_the_sanitizers(self, family: Family[Filter1d], tmp_path: Path) -> None:
        some = exhaustive.share(solved_by(family, STATES), ABLE.index(family), 3)
        cases = [(each, program_of(family, each, turn)) for turn, each in enumerate(some)]
        assert cases
        sanitized.check(cases, tmp_path)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "complex64", "bfloat16"])
@pytest.mark.parametrize("state", ["carried", "both"])
def test_kernels_verify_states_of_every_type(dtype: str, state: str, host: HostRuntime, quickest: HostCompiler) -> None:
    """Results and states of other types are verified by kernels; a kernel that leaves out a sample is found."""
    problem = Filter1d(30, 4, 2, mode="causal", channels=3, dtype=dtype, state=state)  # type: ignore[arg-type]
    right = Filter1dPlain().program(problem, Filter1dPlain().default(problem, DEVICE))
    line = "target[i] = " if state == "carried" else "after[item] = samples"
    assert right.source.count(line) == 1
    text = right.source.replace(line, f"if ({'i' if state == 'carried' else 'item'} != 1) {line}")
    wrong = Program.of_source(right.family, right.config, text, right.launches)
    with contextlib.closing(Testbed(host, problem, 0, ONE_RUN, guarded=True, compiler=quickest)) as bed:
        found = [bed.evaluate(each, quickest.compile_program(each), ONE_RUN).outcome for each in (right, wrong)]
    assert isinstance(found[0], Measurement), found[0]
    assert isinstance(found[1], Failure)
    assert "state" in found[1].message if state == "carried" else "after" in found[1].message


def test_places_that_lie_anywhere_stay_within_the_arrays() -> None:
    """`starts` that fall or lie outside, and rows that do not exist: no access leaves an array, whatever they hold."""
    script = Path(__file__).parents[1] / "wild_places.py"
    done = forking.run([sys.executable, str(script)], env=dict(os.environ), text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "216 calls stayed within their arrays" in done.stdout
