"""benchmarks/torch_step.py: a run of each network, the layers that it tunes, and the inputs that it rejects."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import warpsmith as ws
import warpsmith.torch as wt
from scripts import benchmark

torch = pytest.importorskip("torch")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = benchmark("torch_step")
    monkeypatch.setattr(found, "CALLS", 5)
    return found


@exhaustive.one_in(2)
@pytest.mark.usefixtures("compile_quickest")
@pytest.mark.parametrize("network", ["resnet", "convnext"])
def test_a_run_tells_all_figures(script: Any, network: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The store does not exist yet, as in a first run."""
    words = [
        "--store",
        str(tmp_path / "step.db"),
        "--network",
        network,
        "--channels",
        "4",
        "--batch",
        "2",
        "--size",
        "4",
        "--device",
        "host",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        script.main([*words, "--rounds", "1", "--json"])
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{\n") :])
    assert (found["replaced"], found["left"]) == (0, {"resnet": 10, "convnext": 20}[network])
    errors = found["gradient_errors"]
    assert 0 < errors["torch"] == errors["warpsmith"] < 1e-3  # PyTorch computes both
    assert found["ratio"] == pytest.approx(found["torch_ms"] / found["warpsmith_ms"])
    assert [row["call"] for row in found["calls_us"]] == ["no gradient", "forward", "forward and backward"]
    assert all(row[name] > 0 for row in found["calls_us"] for name in ("torch", "warpsmith", "left to torch"))


@pytest.mark.usefixtures("compile_quickest")
def test_a_run_under_autocast_in_channels_last(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--channels", "4", "--batch", "2", "--size", "4", "--device", "host", "--rounds", "1"]
    script.main([*words, "--autocast", "bfloat16", "--channels-last", "--precision", "bf16", "--fallback", "default"])
    told = capsys.readouterr().out
    assert "; bfloat16, channels_last" in told
    assert "autocast to bfloat16, channels last, precision bf16" in told


def test_every_pass_that_a_step_needs_is_tuned(script: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3), torch.nn.Conv2d(4, 4, 3, padding=1))
    wanted = script.problems(wt.patch(model, torch.randn(2, 3, 9, 9)))
    assert [each.pass_ for each in wanted] == [ws.Pass.FPROP, ws.Pass.WGRAD, *ws.Pass, *ws.Pass]


def test_an_error_is_that_of_gradients(script: Any) -> None:
    torch.manual_seed(0)
    batch = script.Batch.of(2, 8, torch.device("cpu"))
    one, two = (script.gradients(script.resnet(2), batch) for _ in range(2))
    assert len(one) == len(list(script.resnet(2).parameters()))
    assert script.error(one, one) == 0
    assert script.error(one, two) > 0.1
