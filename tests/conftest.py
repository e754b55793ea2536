"""What every test gets: folders of its own, and a skip for what needs a GPU."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith.generator.device import H200, Device
from warpsmith.generator.families.filter2d_plain import Filter2dPlain
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space

FAULTS = {
    "none": "",
    "out-of-bounds": "if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) result[-3] = 1.0f;",
    "never-ends": "for (volatile int i = 0; i >= 0; i = 0) {}",
    "wrong": "sum += 1.0f;",
    "does-not-compile": "this is no CUDA;",
    "reads-outside": "if (blockIdx.x == 0) sum += 0.0f * image[kRows * kColumns];",
    "crashes": "*reinterpret_cast<volatile int*>(8) = 1;",
}


class PlantedFamily(Family):
    """The plain kernel with a fault of one's choice written into it."""

    name = "planted"
    faults = tuple(FAULTS)
    _plain = Filter2dPlain()

    def __init__(self, *faults: str) -> None:
        self._faults = faults

    def why_not(self, problem: Problem, device: Device) -> str | None:
        return self._plain.why_not(problem, device)

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002
        return Space((Parameter("fault", self._faults, "what is wrong with it"),), ())

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        return Config.of({"fault": self._faults[0]})

    def program(self, problem: Problem, config: Config) -> Program:
        program = self._plain.program(problem, self._plain.default(problem, H200))
        before = "    result[(plane * kOutputRows"
        assert program.source.count(before) == 1
        source = program.source.replace(before, f"    {FAULTS[config.text('fault')]}\n{before}")
        return dataclasses.replace(program, family=self.name, config=config, source=source)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees or touches the user's store. Compiled binaries are shared by the tests of one run."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "binaries"))
    monkeypatch.delenv("WARPSMITH_STORE", raising=False)
    return home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from warpsmith.devices.cuda.available import cuda_device_count

    if cuda_device_count() > 0:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU with the cuda extra here"))


@pytest.fixture
def planted() -> type[PlantedFamily]:
    """A family of kernels with faults: `planted("none", "wrong")`; `planted.faults` names them all."""
    return PlantedFamily


@pytest.fixture
def document(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a command that ends well prints with --json."""

    def call(*arguments: str) -> Any:
        from warpsmith.cli.app import run

        assert run([*arguments, "--json"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return json.loads(shown.out)

    return call
