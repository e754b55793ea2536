"""What answers layers unsearched on GPUs of each architecture, by the models and those GPUs' rates. It needs no GPU.

    python benchmarks/preset_answers.py [--passes fprop dgrad wgrad] [--precision ieee]

Each cell is the family that answers and its expected time in us; behind it is the next family with its time. The last
line of a layer are the times that its bytes alone take at each GPU's memory rate.
"""

from __future__ import annotations

import argparse
import dataclasses

from warpsmith.cli.output import print_table
from warpsmith.generator.conv2d import Conv2d, Pass, Precision
from warpsmith.generator.device import Device
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import A10, A100, B200, H200, RTX_4090, RTX_5090
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import able_families

RTX_3090 = dataclasses.replace(
    A10,
    name="NVIDIA GeForce RTX 3090",
    multiprocessors=82,
    memory_bytes=24 * 2**30,
    clock_mhz=1695,
    memory_clock_mhz=9751,
)
DEVICES = {"A100": A100, "3090": RTX_3090, "4090": RTX_4090, "5090": RTX_5090, "B200": B200, "H200": H200}
LAYERS = {
    "64x56x56, 3x3": Conv2d((32, 64, 56, 56), (64, 64, 3, 3), padding=1),  # type: ignore[arg-type]  # one number is both
    "512x7x7, 3x3": Conv2d((32, 512, 7, 7), (512, 512, 3, 3), padding=1),  # type: ignore[arg-type]
    "64x56x56 to 256, 1x1": Conv2d((32, 64, 56, 56), (256, 64, 1, 1)),
    "1024x14x14 to 256, 1x1": Conv2d((32, 1024, 14, 14), (256, 1024, 1, 1)),
    "3x224x224, 7x7, stride 2": Conv2d((32, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3),  # type: ignore[arg-type]
    "144x56x56, 3x3, depthwise": Conv2d((32, 144, 56, 56), (144, 1, 3, 3), padding=1, groups=144),  # type: ignore[arg-type]
    "96x56x56, 7x7, depthwise": Conv2d((32, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96),  # type: ignore[arg-type]
}


def told(layer: Conv2d, device: Device) -> str:
    """The answer with its expected time, and the next family."""
    gate = Gate(layer, device)
    answer, _ = default_answer(layer, device)
    others = [
        (time_ns, each) for each in able_families(gate) if (time_ns := gate.likely_ns(each)) and each is not answer
    ]
    own_ns = answer.expected_ns(layer, device)
    own = f"{answer.name.removeprefix('conv2d_')} {own_ns / 1e3:.0f}" if own_ns else answer.name.removeprefix("conv2d_")
    if not others:
        return own
    next_ns, following = min(others, key=lambda each: each[0])
    return f"{own} ({following.name.removeprefix('conv2d_')} {next_ns / 1e3:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", nargs="+", choices=list(Pass), default=[Pass.FPROP.value])
    parser.add_argument("--precision", choices=list(Precision), default=Precision.IEEE.value)
    given = parser.parse_args()
    rows = []
    for name, forward in LAYERS.items():
        for pass_ in map(Pass, given.passes):
            layer = dataclasses.replace(forward, pass_=pass_, precision=Precision(given.precision))
            rows.append((f"{name} {pass_}", *(told(layer, each) for each in DEVICES.values())))
        bytes_us = (forward.bytes / each.rates.memory_bytes_per_ns / 1e3 for each in DEVICES.values())
        rows.append(("  its bytes", *(f"{each:.0f}" for each in bytes_us)))
    print_table(("layer, 32 images", *DEVICES), rows)


if __name__ == "__main__":
    main()
