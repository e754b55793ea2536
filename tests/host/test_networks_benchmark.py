"""benchmarks/networks.py on the host: layers of a list untuned, errors on a network's own data, whole steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import benchmark
from warpsmith.generator.conv2d import Conv2d, Pass

torch = pytest.importorskip("torch")
script, layers = benchmark("networks"), benchmark("conv2d_bench.network_layers")
models, data, steps = (benchmark(f"conv2d_bench.network_{name}") for name in ("models", "data", "steps"))

LINES = [
    {"layer": {"input": [2, 4, 9, 9], "weight": [4, 4, 3, 3], "padding": [[1, 1], [1, 1]]}, "networks": {"a": 2}},
    {"layer": {"input": [2, 4, 6, 6], "weight": [8, 4, 1, 1]}, "networks": {"a": 1, "b": 1}},
    {"layer": {"input": [2, 4, 9, 9], "weight": [4, 1, 3, 3], "groups": 4}, "networks": {"b": 1}},
]


def tiny(_: str) -> Any:
    """A strided layer, a grouped layer and a classifier of three classes."""
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.ReLU(inplace=True), torch.nn.Conv2d(4, 4, 3, groups=2)),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3)),
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the script on the host and returns the rows of its file."""
    for module in (data, steps):
        monkeypatch.setattr(module, "network", tiny)
    (tmp_path / "list.json").write_text(json.dumps(LINES))

    def call(action: str, *options: str) -> list[dict[str, Any]]:
        results = tmp_path / "results.jsonl"
        script.main([action, str(results), "--device", "host", *options])
        return [json.loads(line) for line in results.read_text().splitlines()]

    return call


def test_a_row_has_the_answer_beside_cudnn_and_the_models(run: Any, tmp_path: Path) -> None:
    options = ("--list", str(tmp_path / "list.json"), "--count", "2", "--numerics", "ieee", "--no-pointwise")
    begun, *rows = run("measure", *options)
    assert begun["run"]["count"] == 2
    assert sorted(row["name"].split(":")[0] for row in rows) == ["a", "b"]
    for row in rows:
        assert row["match"] == "default"
        assert 0 < row["answer"]["error"] <= 1e-6
        assert row["answer"]["family"] in row["expected_us"]
        assert [row["answer"]["family"], row["answer"]["config"]] in [each[:2] for each in row["tried_us"]]
        assert row["untuned_ratio"] == pytest.approx(min(row["cudnn_us"].values()) / row["answer"]["us"], rel=1e-2)
        assert row["answer"]["us"] >= row["ours"]["us"]
    assert len(run("measure", *options)) == 4  # a run's line, and no pass again


def test_errors_are_those_of_the_network_s_own_data(run: Any) -> None:
    rows = run(
        "accuracy", "--networks", "alexnet", "--numerics", "ieee", "--batch", "2", "--side", "8", "--rounds", "1"
    )
    assert sorted(row["pass"] for row in rows) == ["dgrad", "fprop", "fprop", "wgrad", "wgrad"]
    assert all(0 <= row["errors"][whose] < 1e-6 for row in rows for whose in ("ours", "cudnn"))
    assert all(row["ratio"] > 0 for row in rows)


def test_steps_of_both_models_are_timed(run: Any) -> None:
    (row,) = run("steps", "--networks", "alexnet", "--numerics", "ieee", "--batch", "2", "--side", "8", "--rounds", "1")
    assert (row["replaced"], row["left"]) == (2, 0)
    for kind in ("inference", "training"):
        times = row[f"{kind}_ms"]
        assert row[f"{kind}_ratio"] == pytest.approx(times["torch"] / times["warpsmith"], rel=1e-3, abs=1e-4)


def test_layers_come_network_by_network_and_all_before_one_comes_again() -> None:
    known = layers.read(layers.LIST)
    count = len(known)
    drawn = list(layers.drawn(known, 3 * count, 1))
    assert len({layer.name for layer, _ in drawn[:16]}) == 16
    assert len({(layer.name, pass_) for layer, pass_ in drawn}) == len(drawn) == 3 * count
    assert {pass_ for _, pass_ in drawn[:count]} == set(Pass)
    assert list(layers.drawn(known, 9, 1)) == drawn[:9] != list(layers.drawn(known, 9, 2))


def test_the_list_is_that_of_the_networks(tmp_path: Path) -> None:
    """The U-Net needs no torchvision, and its layers are those of its figure."""
    own = layers.derived(["unet"])
    known = {each.layer for each in layers.read(layers.LIST)}
    assert {each.layer for each in own} <= known
    # The last step up, 128 channels of 128x128 to 64 of 256x256, is the gradient of this layer.
    assert Conv2d((24, 64, 256, 256), (128, 64, 2, 2), stride=2) in {each.layer for each in own}
    layers.write(tmp_path / "again.json", own)
    assert layers.read(tmp_path / "again.json") == own
