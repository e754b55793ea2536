"""benchmarks/preset_answers.py: each cell of its table is a family with a time, by the GPU's own rates."""

from __future__ import annotations

import pytest

from scripts import benchmark

SCRIPT = benchmark("preset_answers")
TOLD = {
    (name, gpu): SCRIPT.told(layer, device)
    for name, layer in SCRIPT.LAYERS.items()
    for gpu, device in SCRIPT.DEVICES.items()
}


@pytest.mark.parametrize("layer", SCRIPT.LAYERS)
def test_each_gpu_has_an_answer_with_a_time_of_its_own(layer: str) -> None:
    own = {gpu: TOLD[layer, gpu].split(" (")[0] for gpu in SCRIPT.DEVICES}
    times = {gpu: int(answer.rsplit(" ", 1)[1]) for gpu, answer in own.items()}
    assert len(set(own.values())) == len(own)
    assert min(times, key=times.__getitem__) in ("H200", "B200")


@pytest.mark.parametrize("gpu", [gpu for gpu in SCRIPT.DEVICES if gpu != "H200"])
def test_products_by_warpgroups_answer_on_hopper_alone(gpu: str) -> None:
    assert not any(TOLD[name, gpu].startswith(("warpgroup", "winograd")) for name in SCRIPT.LAYERS)
