"""Rate of image filters by the size of the image: from which size on does time grow with the number of pixels?

    usage: python benchmarks/filter_saturation.py [--device D] [--store FILE] [--filter 3x3 ...] [--image 640x480 ...]
                                                  [--dtype float32] [--json]

Iandola et al. 2013, section 4, say that figures for one size generalise to images that saturate the GPU, from about
640x480 on. The stored answer of each problem, or its default, is verified and then timed in turns with a copy of as
many bytes. On a GPU both run in CUDA graphs, so that no time of the host counts, with warm and with cold L2. Small
images have no cold timing: L2 has room for all buffers that are rotated through. On the host there are no graphs, and
caches are warm.

Columns: median us, Gpixel/s, the share of the rate of the largest image, and the copy's time over the filter's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import warpsmith as ws
from warpsmith.cli.options import extent
from warpsmith.cli.output import print_table
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import PIXELS, DType, member
from warpsmith.plans.lookup import look_up
from warpsmith.store.record import COPY, Failure, Timing
from warpsmith.tuner.evaluate.evaluator import Evaluator, Workshop
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.workers.deadlines import Deadlines

FILTERS = ("3x3", "7x7")
IMAGES = ("64x64", "128x128", "160x120", "320x240", "640x480", "1280x960", "1920x1080", "3840x2160", "9216x9216")
SEED = 0
HEADER = ("filter", "image", "L2", "answer", "us", "Gpixel/s", "% of largest", "copy us", "% of copy")


@dataclasses.dataclass(frozen=True)
class Row:
    """One filter and image, under one condition of L2."""

    filter: str
    image: str
    pixels: int
    cold: bool
    answer: str
    """How the answer was found, and its family."""
    ours: Timing
    copy: Timing

    @property
    def pixels_per_ns(self) -> float:
        return self.pixels / self.ours.median_ns


def policies(kind: DeviceKind) -> tuple[TimingPolicy, ...]:
    """Policies of the timing: a GPU's graphs with warm and with cold L2, and the host's only one."""
    if kind is DeviceKind.HOST:
        return (TimingPolicy.for_kind(kind),)
    return tuple(TimingPolicy.for_kind(kind, cold=cold, launching=Launching.GRAPH) for cold in (False, True))


def rows(
    filters: list[ws.Filter2d], device: DeviceRef, store: str | None, policy: TimingPolicy, workshop: Workshop
) -> Iterator[Row]:
    """Rows of the problems for which the policy's L2 can be had. Exits if an answer is wrong."""
    model = device.device()
    for problem in filters:
        if policy.cold and not policy.rotation(problem.bytes, model.l2_bytes).cold:
            continue
        match = look_up(problem, model, store)
        with Evaluator.open(
            problem,
            device,
            None,
            CompilerChoice.AUTO,
            SEED,
            Deadlines(),
            sanitize=False,
            policy=policy,
            workshop=workshop,
        ) as evaluator:
            contender = evaluator.verified(match.program, evaluator.bench)
            beside = contender
            if not isinstance(contender, Failure):
                beside = evaluator.bench.side_by_side((contender,), peers=False)
        if isinstance(beside, Failure):
            raise SystemExit(f"{problem.key()}: {beside.kind}: {beside.message}")
        (ours,) = beside.ours
        (copy,) = (each.timing for each in beside.baselines if each.name == COPY)
        height, width = problem.image
        names = ("x".join(map(str, problem.filter)), f"{width}x{height}")
        yield Row(*names, width * height, policy.cold, f"{match.kind}, {match.program.family}", ours, copy)


def table(found: list[Row]) -> Iterator[tuple[str, ...]]:
    """Cells of all rows. The largest image is that of the same filter and L2."""
    for row in found:
        alike = [each for each in found if (each.filter, each.cold) == (row.filter, row.cold)]
        largest = max(alike, key=lambda each: each.pixels)
        yield (
            row.filter,
            row.image,
            "cold" if row.cold else "warm",
            row.answer,
            f"{row.ours.median_ns / 1e3:.2f}",
            f"{row.pixels_per_ns:.3f}",
            f"{100 * row.pixels_per_ns / largest.pixels_per_ns:.1f}",
            f"{row.copy.median_ns / 1e3:.2f}",
            f"{100 * row.copy.median_ns / row.ours.median_ns:.1f}",
        )


def document(row: Row) -> dict[str, Any]:
    return {**dataclasses.asdict(row), "pixels_per_ns": row.pixels_per_ns}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", default=None)
    parser.add_argument("--filter", action="append", help=f"ROWSxCOLUMNS; default {', '.join(FILTERS)}")
    parser.add_argument("--image", action="append", help="WIDTHxHEIGHT; default nine sizes up to 9216x9216")
    parser.add_argument("--dtype", default=DType.FLOAT32.value)
    parser.add_argument("--json", action="store_true", help="one JSON object for each row")
    options = parser.parse_args(arguments)
    device, dtype = DeviceRef.parse(options.device), member(DType, options.dtype, "dtype", PIXELS)
    model, found = device.device(), []
    sizes = [extent(image, "--image") for image in options.image or IMAGES]
    filters = [extent(each, "--filter") for each in options.filter or FILTERS]
    problems = [ws.Filter2d((height, width), each, dtype=dtype) for each in filters for width, height in sizes]
    compiler = device.compiler(CompilerChoice.AUTO, sanitize=False)
    with Workshop.open(compiler, Deadlines()) as workshop:
        for policy in policies(model.kind):
            for row in rows(problems, device, options.store, policy, workshop):
                found.append(row)
                if options.json:
                    print(json.dumps(document(row)), flush=True)
    if not options.json:
        conditions = dict.fromkeys(each.ours.policy.split(", ", 2)[2] for each in found)
        print(f"{model.name}, {dtype}; medians, {' or '.join(conditions)}\n")
        print_table(HEADER, table(found))


if __name__ == "__main__":
    main()
