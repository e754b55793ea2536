"""Convolutions of networks as they are computed without a search, beside cuDNN; and the whole networks.

    usage: python benchmarks/networks.py layers LIST.json [--networks NAME ...]
           python benchmarks/networks.py measure RESULTS.jsonl [--count 60] [--numerics ieee bf16] [--seconds 0]
                                         [--no-pointwise] [--list FILE] [--all-passes] [--within 600] [--lanes 2]
           python benchmarks/networks.py table RESULTS.jsonl
           python benchmarks/networks.py accuracy RESULTS.jsonl [--networks resnet50 ...] [--numerics ieee]
           python benchmarks/networks.py steps RESULTS.jsonl [--networks resnet50 ...] [--numerics ieee] [--compile]

`layers` writes every distinct convolution of the networks at a batch of 24: thirteen families of torchvision's
classification networks at their usual image, and a U-Net at 256x256. `conv2d_bench/network_layers.json` is its result.
It needs torchvision, as `accuracy` and `steps` do, but no data and no GPU.

`measure` draws `--count` layers of the list with `--seed`, one pass of each, network by network in turn. It takes them
in each of `--numerics`: `ieee` and `tf32` are float32 in NCHW, `tf32_last` and `bf16` are channels last. What
`warpsmith.plan` answers without a store of the user's is verified against float64 and takes turns with cuDNN (its own
search on, both layouts, the same precision), and with the fastest of the other families' defaults, of `--starts` starts
of its own, and of a search of `--seconds`. A row has the answer, the times that the families' models expect, and each
candidate's time alone. Passes that have a row are skipped.

`accuracy` runs one training step of each network with random weights on random images, keeps the activations and
gradients of each distinct convolution, and prints the errors of all passes on them against float64 beside cuDNN's, with
times in turns, in CUDA graphs. `steps` times inference and training steps of PyTorch's model and of the patched one in
turns, and adds up the times of their kernels. `bf16` is PyTorch's autocast, channels last.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from conv2d_bench import lines
from conv2d_bench.network_layers import (
    BATCH,
    LIST,
    NETWORKS,
    NUMERICS,
    SIDE,
    SIDES,
    derived,
    drawn,
    precision_of,
    read,
    write,
)
from conv2d_bench.network_tables import print_accuracy, print_choice, print_steps
from conv2d_bench.points import Point, taken
from conv2d_bench.turns import Measuring, Settings

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Pass
from warpsmith.generator.precision import Precision


def points(given: argparse.Namespace) -> Iterator[Point]:
    """The passes to measure. Raises BadArgument for an invalid list."""
    layers = [each for each in read(given.list) if not (given.no_pointwise and each.is_pointwise)]
    if given.all_passes:
        chosen = [(each, pass_) for each in layers for pass_ in Pass]
    else:
        chosen = list(drawn(layers, given.count, given.seed))
    for layer, pass_ in chosen:
        yield from (layer.point(pass_, numeric) for numeric in given.numerics)


def measure(given: argparse.Namespace) -> None:
    """Adds a row for each pass that has none."""
    start, rows = time.monotonic(), lines.latest(lines.read(given.results))
    done = {row["key"] for row in rows if lines.is_measured(row)}
    left = [point for point in dict.fromkeys(taken(points(given))) if point.problem.key() not in done]
    print(f"{len(left)} passes to measure", file=sys.stderr, flush=True)
    settings = Settings(
        DeviceRef.parse(given.device), given.seconds, given.starts, seed=given.seed, lanes=given.lanes, untuned=True
    )
    with contextlib.closing(Measuring(settings)) as measuring:
        lines.add(given.results, {"run": {**measuring.environment(), **_run(given)}})
        for row in measuring.rows(left, start + given.within):
            lines.add(given.results, {"set": "networks", **row})
            print(f"{time.monotonic() - start:5.0f} s  {told(row)}", file=sys.stderr, flush=True)


def told(row: lines.Row) -> str:
    """Text of a row, in one line."""
    if not lines.is_measured(row):
        return f"{row['name']}: {row['failed']}"
    answer, ours = row["answer"], row["ours"]
    cudnn = ", ".join(f"{us:.1f}" for us in row["cudnn_us"].values())
    return (
        f"{row['name']}: {answer['family']} {answer.get('us', 'failed')}, best {ours['family']} {ours['us']:.1f}, "
        f"cuDNN {cudnn} us, {row.get('untuned_ratio', 0):.2f}x, {row['seconds']} s, {row['failures']}"
    )


def accuracy(given: argparse.Namespace) -> None:
    """Adds a row for each pass of each network."""
    import torch
    from conv2d_bench.network_data import captured, rows

    device = torch.device("cpu" if given.device == "host" else given.device)
    for numeric in given.numerics:
        is_tf32 = precision_of(numeric) is Precision.TF32
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=is_tf32):
            for name in given.networks:
                kept = captured(name, numeric, device, given.batch, _side(name, given))
                for row in rows(kept, given.device, given.rounds):
                    lines.add(given.results, {"set": "accuracy", "network": name, "numeric": numeric, **row})


def steps(given: argparse.Namespace) -> None:
    """Adds a row for each network."""
    from conv2d_bench.network_steps import StepSettings, measured

    for numeric in given.numerics:
        for name in given.networks:
            settings = StepSettings(given.device, given.batch, _side(name, given), given.rounds, given.compile)
            row = _attempted(lambda name=name, numeric=numeric, settings=settings: measured(name, numeric, settings))
            named = {"set": "steps", "network": name, "numeric": numeric, "compiled": given.compile}
            row = {**named, "key": f"{name} {numeric} {given.compile} {given.batch}", **row}
            lines.add(given.results, row)
            print(row, file=sys.stderr, flush=True)


def _attempted(measured: Callable[[], lines.Row]) -> lines.Row:
    try:
        return measured()
    except Exception as error:  # the row reports it, and the run continues
        return {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}


def _side(name: str, given: argparse.Namespace) -> int:
    return given.side or SIDES.get(name, SIDE)


def _run(given: argparse.Namespace) -> lines.Row:
    """Options of a run and facts of its device, for its first line."""
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    options = {"seconds": given.seconds, "starts": given.starts, "seed": given.seed, "count": given.count}
    return {"begun": begun, "device_facts": DeviceRef.parse(given.device).device().spec(), **options}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("layers", "measure", "table", "accuracy", "steps"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--numerics", nargs="+", default=["ieee", "bf16"], choices=list(NUMERICS))
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--within", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--side", type=int, default=0, help="rows and columns of an image; 0: the network's usual ones")
    parser.add_argument("--rounds", type=int, default=15)
    for name in ("no-pointwise", "all-passes", "compile"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args(words)
    if given.action == "layers":
        write(given.results, derived(given.networks))
        return
    if given.action != "table":
        {"measure": measure, "accuracy": accuracy, "steps": steps}[given.action](given)
    rows = lines.read(given.results)
    print_choice([row for row in lines.latest(rows) if row["set"] == "networks"])
    print_accuracy([row for row in rows if row.get("set") == "accuracy"])
    print_steps([row for row in rows if row.get("set") == "steps"])


if __name__ == "__main__":
    main()
