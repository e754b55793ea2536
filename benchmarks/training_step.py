"""Times the three passes of layers with shared spectra, as three plans, and by cuDNN, in turns, and prints a table.

    usage: python benchmarks/training_step.py [--device cuda:0|host] [--rounds 15] STORE SECONDS LAYER...
such as: python benchmarks/training_step.py layers.db 20 L2 L3 L4 8,32,64,64/32,32,5,5/2

A layer is one of LAYERS, or N,C,rows,columns/K,C,R,S/padding. SECONDS is the time of the search of each pass; 0 uses
the winners in STORE. STORE is `-` to use only what plans know without a store.

Before anything is timed, y, dx and dw of both steps are verified against PyTorch's autograd in float64, with a bound of
1e-6 in the Euclidean norm. On a GPU each way is one CUDA graph of fprop, dgrad and wgrad, and the L2 cache is
overwritten before each replay. The three take turns, and medians are printed, in us. Beside them stand the memory of
the kept spectra, and the choice of `reuse=None` with the times behind it. It takes about 5 s a layer on an H200,
without searches.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import warpsmith as ws
from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.plans.conv2d.training import TrainingStep
from warpsmith.tuner.operations.conv2d.peers import torch_peer

LAYERS = {
    "L1": "128,3,128,128/96,3,11,11/0",
    "L2": "128,64,64,64/64,64,9,9/0",
    "L2b": "128,64,64,64/128,64,9,9/0",
    "L3": "128,128,32,32/128,128,9,9/0",
    "L4": "128,128,16,16/128,128,7,7/0",
    "L5": "128,384,13,13/384,384,3,3/0",
    "alexnet2": "128,64,27,27/192,64,5,5/2",
}
"""Layers of fbfft's tables 3 and 4 that are solved in the frequency domain."""
BOUND = 1e-6
"""Bound of the error in the Euclidean norm, relative to the result's norm."""
FLUSHED_BYTES = 256 << 20
"""Bytes written before each replay: several times the L2 cache."""
WARM_UP = 3
HEADER = ("layer", "shared us", "plans us", "cuDNN us", "over plans", "over cuDNN", "error", "MiB kept", "choice")

Tensors = dict[str, Any]
Way = Callable[[], None]


def layer_of(word: str) -> ws.Conv2d:
    """A layer by its name or its numbers. Raises BadArgument for anything else."""
    try:
        shape, weight, padding_word = LAYERS.get(word, word).split("/")
        numbers = [tuple(map(int, each.split(","))) for each in (shape, weight)]
        return ws.Conv2d(*numbers, padding=int(padding_word))  # type: ignore[arg-type]
    except ValueError:
        raise BadArgument(f"{word} is no layer: one of {', '.join(LAYERS)}, or 8,3,64,64/16,3,5,5/2") from None


def tensors(layer: ws.Conv2d, where: str) -> Tensors:
    """x, w and dy on a device, normal deviates of a fixed seed."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shapes = {"x": layer.input, "w": layer.weight, "dy": (layer.input[0], layer.weight[0], *layer.output_size)}
    return {name: torch.randn(shape, generator=generator).to(where) for name, shape in shapes.items()}


def passes(step: TrainingStep, given: Tensors) -> tuple[Any, Any, Any]:
    """Computes y, dx and dw."""
    return step.fprop(given["x"], given["w"]), step.dgrad(given["dy"]), step.wgrad()


def expected(layer: ws.Conv2d, given: Tensors) -> tuple[Any, Any, Any]:
    """Computes y, dx and dw by autograd, in float64."""
    import torch

    (above, below), (left, right) = layer.padding
    x, w = (given[name].double().requires_grad_() for name in ("x", "w"))
    padded = torch.nn.functional.pad(x, (left, right, above, below))
    y = torch.nn.functional.conv2d(padded, w)
    y.backward(given["dy"].double())
    return y.detach(), x.grad, w.grad


def errors_of(results: tuple[Any, ...], references: tuple[Any, ...]) -> list[float]:
    """Relative error of each result, in the Euclidean norm."""
    return [
        float((result.double() - reference).norm() / reference.norm())
        for result, reference in zip(results, references, strict=True)
    ]


def checked(word: str, errors: list[float]) -> float:
    """Largest error. Raises AssertionError if one is above BOUND, or is no number."""
    if not all(each <= BOUND for each in errors):
        told = ", ".join(f"{each:.1e}" for each in errors)
        raise AssertionError(f"{word}: the errors are {told}, and the bound is {BOUND:.0e}")
    return max(errors)


def cudnn(layer: ws.Conv2d, given: Tensors, kind: DeviceKind) -> Way:
    """PyTorch's three passes: cuDNN's in float32, by its own search."""
    operands = {name: each.cpu().numpy() for name, each in given.items()}
    peers = [
        torch_peer(problem, {each.name: operands[each.name] for each in problem.inputs}, kind)
        for problem in (dataclasses.replace(layer, pass_=pass_) for pass_ in ws.Pass)
    ]

    def run() -> None:
        for peer in peers:
            peer.run()

    return run


def timed_on_gpu(ways: list[Way], rounds: int) -> list[float]:
    """Median of each way, in us: one graph each, replayed in turns, with the L2 cache overwritten before each
    replay.
    """
    import torch

    graphs = []
    for way in ways:
        for _ in range(WARM_UP):
            way()
        torch.cuda.synchronize()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            way()
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    times: list[list[float]] = [[] for _ in ways]
    for number in range(WARM_UP + rounds):
        for graph, own in zip(graphs, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.fill_(number)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number >= WARM_UP:
                own.append(begin.elapsed_time(end) * 1000)
    return [statistics.median(each) for each in times]


def timed_on_host(ways: list[Way], rounds: int) -> list[float]:
    """Median of each way, in us, called in turns."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, own in zip(ways, times, strict=True):
            begin = time.perf_counter()
            way()
            own.append((time.perf_counter() - begin) * 1e6)
    return [statistics.median(each) for each in times]


def row(word: str, device: DeviceRef, store: str | None, rounds: int) -> tuple[str, ...]:
    """A line of the table. Raises BadArgument if a layer's spectra cannot be kept."""
    layer, on_gpu = layer_of(word), device.kind is DeviceKind.CUDA
    name = f"cuda:{device.ordinal}" if on_gpu else "host"
    shared, usual = (ws.training_step(layer, name, reuse=reuse, store=store) for reuse in (True, False))
    choice = ws.training_step(layer, name, store=store).choice
    given = tensors(layer, name if on_gpu else "cpu")
    reference = expected(layer, given)
    error = checked(word, [each for step in (shared, usual) for each in errors_of(passes(step, given), reference)])
    del reference
    ways = [*((lambda step=step: passes(step, given)) for step in (shared, usual)), cudnn(layer, given, device.kind)]
    ours, plans, theirs = (timed_on_gpu if on_gpu else timed_on_host)(ways, rounds)
    families = ", ".join(match.program.family for step in (shared, usual) for match in step.matches.values())
    return (
        word,
        *(f"{each:.1f}" for each in (ours, plans, theirs)),
        f"{plans / ours:.2f}",
        f"{theirs / ours:.2f}",
        f"{error:.1e}",
        f"{shared.workspace_bytes / 2**20:.1f}",
        f"reuse={choice.reuse} by {choice.by}: {choice.reason} ({families})",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("store")
    parser.add_argument("seconds", type=float)
    parser.add_argument("layers", nargs="+")
    options = parser.parse_args()
    device, rows = DeviceRef.parse(options.device), []
    store = None if options.store == "-" else options.store
    for word in options.layers:
        try:
            for pass_ in ws.Pass if options.seconds else ():
                problem = dataclasses.replace(layer_of(word), pass_=pass_)
                ws.tune(problem, options.device, trials=2000, time_limit=options.seconds, store=store)
            rows.append(row(word, device, store, options.rounds))
            print(" | ".join(rows[-1]), flush=True)
        except BadArgument as error:
            print(f"{word}: {error}", flush=True)
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
