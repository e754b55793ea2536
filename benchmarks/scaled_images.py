"""Cost of scaling the images of a batch one by one, compared with the same config with one power of two for all.

usage: python benchmarks/scaled_images.py [LAYER ...]
such as: python benchmarks/scaled_images.py alexnet strided resnet stem L5:fprop

A layer is a word of `conv2d_layers.py`. Its fprop and dgrad are timed with the config of the shipped winner, if its
family scales images, and with the defaults of such families. Both programs of a config take turns on random data, in
CUDA graphs. Results with one power of two for a batch are not verified.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import cast
from unittest import mock

from conv2d_bench.points import Point, layers, taken
from conv2d_bench.sampled import Unjudged

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.location import shipped_store
from warpsmith.store.record import Measurement, Record
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy

CUDA = DeviceRef(DeviceKind.CUDA)
USUAL = ("alexnet", "strided", "resnet", "stem", "L5")
FAMILIES: dict[str, Family] = {
    family.name: family for family in (Conv2dWarpgroup(), Conv2dWinograd(), Conv2dMma(), Conv2dSlices())
}


def configs(problem: ws.Conv2d, device: Device, stored: dict[str, Record]) -> Iterator[tuple[str, Family, Config]]:
    """Origin of a config, its family, and the config."""
    record = stored.get(problem.key())
    if record is not None and record.trial.family in FAMILIES:
        yield "stored", FAMILIES[record.trial.family], record.trial.config
    for family in FAMILIES.values():
        if family.why_not(problem, device) is None:
            yield "default", family, family.default(problem, device)


def together(family: Family, problem: ws.Conv2d, config: Config) -> Program:
    """The program that scales all images by one power of two."""
    with mock.patch.object(ws.Conv2d, "scales", new_callable=mock.PropertyMock, return_value=1):
        return family.program(problem, config)


def times_us(point: Point, family: Family, config: Config) -> tuple[float, float]:
    """Microseconds of a call with one power of two for all images, and with one for each."""
    policy, compiler = TimingPolicy.for_kind(CUDA.kind), CUDA.compiler()
    programs = (together(family, point.problem, config), family.program(point.problem, config))
    unknown = cast(Measurement, None)  # no program is verified
    contenders = tuple(Contender(each, compiler.compile_program(each), unknown) for each in programs)
    with (
        contextlib.closing(CUDA.open()) as runtime,
        contextlib.closing(Testbed(runtime, point.problem, 0, policy, guarded=False, judge=Unjudged())) as bed,
    ):
        before, after = bed.side_by_side(contenders, policy, peers=False).ours
    return before.median_ns / 1000, after.median_ns / 1000


def main() -> None:
    """Prints a line for each layer, pass and config."""
    points = taken(layers(sys.argv[1:] or USUAL))
    with Store.open(str(shipped_store()), write=False) as store:
        stored = {record.problem.key(): record for record in store.records("conv2d")}
    device = CUDA.device()
    print(f"{device.name}; us a call: one power of two for all images, then one for each")
    for point in points:
        if point.problem.pass_ is ws.Pass.WGRAD or point.problem.input[0] == 1:
            continue
        for source, family, config in configs(point.problem, device, stored):
            before, after = times_us(point, family, config)
            told = f"{point.name:18} {source:8} {family.name:17}"
            print(f"{told} {before:9.2f} {after:9.2f} {after / before - 1:+7.2%}", flush=True)


if __name__ == "__main__":
    main()
