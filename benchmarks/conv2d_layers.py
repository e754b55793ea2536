"""Tunes convolution layers and prints the winner of each pass beside cuDNN, in float32 and in TF32.

    usage: python benchmarks/conv2d_layers.py STORE SECONDS LAYER...
such as: python benchmarks/conv2d_layers.py layers.db 20 L2 L3:wgrad table4 alexnet

A layer is one of those of fbfft's tables 3 and 4 or of current networks, with or without a pass; `table4`, `alexnet`,
`overfeat` and `current` are lists of them. SECONDS are those of each search; 0 takes what the store has. cuDNN in
float32 takes turns with the winner. In TF32, whose error of 3e-4 no winner may have, it is timed behind them, in a CUDA
graph. Beneath each layer stand the best time of every family and what each step of the winner takes by itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import sys
from collections.abc import Iterator

import warpsmith as ws
from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Pass
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.steps import Launch
from warpsmith.plans.lookup import regenerate
from warpsmith.store.record import Measurement, Record
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.operations.answers import random_operands
from warpsmith.tuner.operations.conv2d.peers import torch_peer

# Name: N, C, rows, columns, K, R, S, stride, padding, groups.
LAYERS = {
    "L1": (128, 3, 128, 128, 96, 11, 11, 1, 0, 1),
    "L2": (128, 64, 64, 64, 64, 9, 9, 1, 0, 1),
    "L2b": (128, 64, 64, 64, 128, 9, 9, 1, 0, 1),
    "L3": (128, 128, 32, 32, 128, 9, 9, 1, 0, 1),
    "L4": (128, 128, 16, 16, 128, 7, 7, 1, 0, 1),
    "L5": (128, 384, 13, 13, 384, 3, 3, 1, 0, 1),
    "alexnet2": (128, 64, 27, 27, 192, 5, 5, 1, 2, 1),
    "alexnet3": (128, 192, 13, 13, 384, 3, 3, 1, 1, 1),
    "alexnet4": (128, 384, 13, 13, 256, 3, 3, 1, 1, 1),
    "alexnet5": (128, 256, 13, 13, 256, 3, 3, 1, 1, 1),
    "overfeat2": (128, 96, 24, 24, 256, 5, 5, 1, 0, 1),
    "overfeat3": (128, 256, 12, 12, 512, 3, 3, 1, 1, 1),
    "overfeat4": (128, 512, 12, 12, 1024, 3, 3, 1, 1, 1),
    "overfeat5": (128, 1024, 12, 12, 1024, 3, 3, 1, 1, 1),
    "resnet64": (32, 64, 56, 56, 64, 3, 3, 1, 1, 1),
    "depthwise7": (32, 192, 28, 28, 192, 7, 7, 1, 3, 192),
    "depthwise31": (16, 128, 56, 56, 128, 31, 31, 1, 15, 128),
}
LISTS = {
    "table4": ("L1", "L2", "L2b", "L3", "L4", "L5"),
    "alexnet": tuple(f"alexnet{number}" for number in range(2, 6)),
    "overfeat": tuple(f"overfeat{number}" for number in range(2, 6)),
    "current": ("resnet64", "depthwise7", "depthwise31"),
}
REPLAYS, CALLS = 15, 5
"""Of a graph, and in it: TF32's time is the median."""


def problems(words: list[str]) -> Iterator[tuple[str, ws.Conv2d]]:
    for word in words:
        name, _, wanted = word.partition(":")
        for layer in LISTS.get(name, (name,)):
            n, c, rows, columns, k, r, s, stride, padding, groups = LAYERS[layer]
            shape = {"input": (n, c, rows, columns), "weight": (k, c // groups, r, s)}
            options = {"stride": stride, "padding": padding, "groups": groups}
            for pass_ in (Pass(wanted),) if wanted else Pass:
                yield f"{layer} {pass_}", ws.Conv2d(**shape, **options, pass_=pass_)


def tf32_us(problem: ws.Conv2d) -> float:
    """Of cuDNN, NCHW."""
    import torch

    peer = torch_peer(problem, random_operands(problem, 0), DeviceKind.CUDA)
    torch.backends.cudnn.allow_tf32 = True
    try:
        for _ in range(3):
            peer.run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                peer.run()
        graph.replay()
        times = []
        for _ in range(REPLAYS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / CALLS)
        return statistics.median(times)
    finally:
        torch.backends.cudnn.allow_tf32 = False


def steps_us(record: Record, device: DeviceRef) -> str:
    """What each step of the winner takes by itself, in us; empty for a program of one."""
    program = regenerate(record)
    if program is None or len(program.steps) == 1:
        return ""
    policy, outcome = TimingPolicy.for_kind(DeviceKind.CUDA), record.trial.outcome
    assert isinstance(outcome, Measurement)
    binaries = device.compiler().compile_program(program)
    steps = tuple(dict.fromkeys(program.steps))
    alone = tuple(Contender(dataclasses.replace(program, steps=(step,)), binaries, outcome) for step in steps)
    with (
        contextlib.closing(device.open()) as runtime,
        contextlib.closing(Testbed(runtime, record.problem, 0, policy, guarded=False)) as bed,
    ):
        times = bed.side_by_side(alone, policy, peers=False).ours
    names = (each.unit if isinstance(each, Launch) else str(each.library) for each in steps)
    return ", ".join(f"{name} {timing.median_ns / 1000:.1f}" for name, timing in zip(names, times, strict=True))


def families_us(store: Store, problem: ws.Conv2d, device: DeviceRef) -> str:
    """The fastest trial of each family."""
    best: dict[str, float] = {}
    for trial in store.trials(problem, device.device()):
        if trial.median_ns is not None:
            best[trial.family] = min(trial.median_ns, best.get(trial.family, math.inf))
    known = {family.name for family in FAMILIES}
    ordered = sorted((ns, name) for name, ns in best.items() if name in known)
    return ", ".join(f"{name} {ns / 1000:.1f}" for ns, name in ordered)


def main(path: str, seconds: str, *words: str) -> None:
    device, rows, ratios = DeviceRef.parse("cuda:0"), [], []
    for name, problem in problems(list(words)):
        if float(seconds):
            ws.tune(problem, "cuda:0", trials=2000, time_limit=float(seconds), store=path)
        record = ws.query(problem, "cuda:0", store=path).record
        assert record is not None
        with Store.open(path, write=False) as store:
            families = families_us(store, problem, device)
        ours = record.timing.median_ns / 1000
        cudnn = next((each.timing.median_ns / 1000 for each in record.baselines if "cudnn" in each.name), math.nan)
        tf32, outcome = tf32_us(problem), record.trial.outcome
        assert isinstance(outcome, Measurement)
        ratios.append(cudnn / ours)
        rows.append((name, record.trial.family, *(f"{each:.1f}" for each in (ours, cudnn, tf32)), f"{cudnn / ours:.2f}",
                     f"{tf32 / ours:.2f}", f"{outcome.max_error:.1e}"))  # fmt: skip
        print(f"{' | '.join(rows[-1])} | families: {families} | steps: {steps_us(record, device)}", flush=True)
    header = ("layer", "family", "us", "cuDNN fp32", "TF32", "speed-up", "over TF32", "error")
    print_table(header, rows)
    print(f"geometric mean of the speed-up over cuDNN in float32: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
