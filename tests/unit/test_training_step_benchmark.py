"""benchmarks/training_step.py: layers it takes, and layers it refuses."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

import warpsmith as ws
from warpsmith.errors import BadArgument

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "training_step.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("training_step", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_takes_layers_by_name_and_by_number(script: ModuleType) -> None:
    assert script.layer_of("L3") == ws.Conv2d((128, 128, 32, 32), (128, 128, 9, 9))
    assert all(map(script.layer_of, script.LAYERS))
    assert script.layer_of("8,3,64,60/16,3,5,4/2") == ws.Conv2d((8, 3, 64, 60), (16, 3, 5, 4), padding=2)  # type: ignore[arg-type]
    for word in ("L9", "8,3,64/16,3,5,4/2", "8,3,64,60/16,3,5,4"):
        with pytest.raises(BadArgument):
            script.layer_of(word)


def test_lets_no_error_above_the_bound_through(script: ModuleType) -> None:
    assert script.checked("L3", [1e-7, 9e-7, 0.0]) == 9e-7
    for wrong in (2e-6, math.nan, math.inf):
        with pytest.raises(AssertionError, match="L3: the errors are"):
            script.checked("L3", [1e-7, wrong, 1e-8])


def test_errors_are_relative_to_each_result(script: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    reference = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert script.errors_of((reference.float(), (reference * 1.5).float()), (reference, reference)) == [0.0, 0.5]
