"""Times whole training steps of small networks, in PyTorch and patched, in turns, and prints a table.

    usage: python benchmarks/torch_step.py [--network resnet|convnext] [--channels 64] [--batch 32] [--size 56]
                                           [--autocast float16|bfloat16] [--channels-last] [--precision ieee]
                                           [--device cuda:0|host] [--store FILE] [--tune SECONDS] [--rounds 30] [--json]
such as: python benchmarks/torch_step.py --network resnet --channels 128 --store step.db --tune 10

A step is the forward pass, a cross entropy, the backward pass and SGD with momentum. Both models begin with the same
parameters and see the same images. PyTorch runs in eager mode, with TF32 off for convolutions and matrix products and
cuDNN's own search on. The patched model does the same where no winner is stored. So both are float32 throughout, except
for what `--autocast` casts; losses are not scaled, because only times are compared. With `--tune`, each convolution
pass without a stored winner is first searched for that many seconds, into `--store`. Times are for a whole step
including a wait for the device, the median over the rounds, in ms; the two models take turns. Before anything is timed,
the gradients of all parameters are compared with those of the same model in float64. The largest error of each model is
printed, relative to the largest number of that gradient.

Then the CPU time of a call of a tiny layer is printed, in us, for PyTorch's function and warpsmith's, from loops of
calls that do not wait.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import warpsmith as ws
import warpsmith.torch as wt
from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.store.location import write_location
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device

CLASSES = 10
WARM_UP = 5
CALLS = 100
"""Calls of one loop; the driver's queue holds several times as many launches."""


class ResNetBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the first may halve the image and change the channels."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ConvNeXtBlock(nn.Module):
    """A 7x7 depthwise convolution, a norm, and two pointwise convolutions, beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
            nn.GroupNorm(1, channels),
            *(nn.Conv2d(channels, 4 * channels, 1), nn.GELU(), nn.Conv2d(4 * channels, channels, 1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)  # type: ignore[no-any-return]


def resnet(channels: int) -> nn.Module:
    """A 3x3 stem, two blocks, and two blocks at half the size with twice the channels."""
    return nn.Sequential(
        *(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()),
        *(ResNetBlock(channels, channels), ResNetBlock(channels, channels)),
        *(ResNetBlock(channels, 2 * channels, 2), ResNetBlock(2 * channels, 2 * channels)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, CLASSES)),
    )


def convnext(channels: int) -> nn.Module:
    """A stem of 4x4 patches, three blocks, a 2x2 downsampling to twice the channels, three blocks."""
    return nn.Sequential(
        *(nn.Conv2d(3, channels, 4, 4), nn.GroupNorm(1, channels)),
        *(ConvNeXtBlock(channels) for _ in range(3)),
        nn.Conv2d(channels, 2 * channels, 2, 2),
        *(ConvNeXtBlock(2 * channels) for _ in range(3)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, CLASSES)),
    )


NETWORKS: dict[str, tuple[Callable[[int], nn.Module], int]] = {"resnet": (resnet, 1), "convnext": (convnext, 4)}
"""Constructor of each network, and image pixels per result of its first layer, along one axis."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Inputs of a training step."""

    images: Tensor
    labels: Tensor
    autocast: torch.dtype | None = None

    @property
    def casting(self) -> torch.autocast:
        """Autocast context in which a model runs."""
        return torch.autocast(self.images.device.type, dtype=self.autocast, enabled=self.autocast is not None)

    @classmethod
    def of(cls, batch: int, size: int, device: torch.device, autocast: torch.dtype | None = None) -> Batch:
        """Normal deviates of a fixed seed."""
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(batch, 3, size, size, generator=generator)
        labels = torch.randint(CLASSES, (batch,), generator=generator)
        return cls(images.to(device), labels.to(device), autocast)


def backward(model: nn.Module, batch: Batch) -> None:
    """Runs the forward pass, the loss and the backward pass."""
    with batch.casting:
        loss = nn.functional.cross_entropy(model(batch.images), batch.labels)
    loss.backward()  # type: ignore[no-untyped-call]


def stepper(model: nn.Module, batch: Batch) -> Callable[[], None]:
    """Function that runs a whole training step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()

    return step


def gradients(model: nn.Module, batch: Batch) -> list[Tensor]:
    """Gradients of all parameters."""
    model.zero_grad()
    backward(model, batch)
    return [each.grad for each in model.parameters() if each.grad is not None]


def error(found: list[Tensor], exact: list[Tensor]) -> float:
    """Largest difference of any gradient, relative to its largest number."""
    both = zip(found, exact, strict=True)
    return max(float((one - two).abs().max() / two.abs().max()) for one, two in both)


def problems(report: wt.PatchReport) -> list[ws.Conv2d]:
    """Passes without a stored winner that a training step needs. No step needs the gradient of the images."""
    return [each for each in report.missing if each.pass_ is not ws.Pass.DGRAD or each.input[1] > 3]


def tune(wanted: list[ws.Conv2d], device: str, seconds: float, store: str | None) -> None:
    """Searches for each problem and prints the winner."""
    for problem in wanted:
        report = ws.tune(problem, device, trials=2000, time_limit=seconds, store=store)
        print(f"{problem.key()}: {report.record.trial.family}", flush=True)


def wait(device: torch.device) -> None:
    """Waits for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_turns(steps: list[Callable[[], None]], device: torch.device, rounds: int) -> list[float]:
    """Median time of each step, in ms."""
    times: list[list[float]] = [[] for _ in steps]
    for number in range(WARM_UP + rounds):
        for step, own in zip(steps, times, strict=True):
            wait(device)
            begin = time.perf_counter()
            step()
            wait(device)
            if number >= WARM_UP:
                own.append(1e3 * (time.perf_counter() - begin))
    return [statistics.median(each) for each in times]


def overheads(device: torch.device, rounds: int) -> list[dict[str, Any]]:
    """CPU time of calls of a tiny layer, in us: PyTorch's, warpsmith's by a plan, and warpsmith's left to PyTorch."""
    x, w = torch.randn(1, 8, 8, 8, device=device), torch.randn(8, 8, 3, 3, device=device)
    parameter = nn.Parameter(w)
    ways: dict[str, Callable[..., Tensor]] = {
        "torch": nn.functional.conv2d,
        "warpsmith": lambda x, w: wt.conv2d(x, w, fallback="default"),
        "left to torch": lambda x, w: wt.conv2d(x, w),
    }
    calls: dict[str, Callable[[Callable[..., Tensor]], Any]] = {
        "no gradient": lambda way: way(x, w),
        "forward": lambda way: way(x, parameter),
        "forward and backward": lambda way: torch.autograd.grad(way(x, parameter).sum(), parameter),
    }
    rows = []
    for kind, call in calls.items():
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                wait(device)
                begin = time.perf_counter()
                for _ in range(CALLS):
                    call(way)
                if number:  # the first round is a warm-up
                    times[name].append(1e6 * (time.perf_counter() - begin) / CALLS)
        rows.append({"call": kind, **{name: statistics.median(own) for name, own in times.items()}})
    return rows


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all figures of one network."""
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cpu" if options.device == "host" else options.device)
    make, pixels = NETWORKS[options.network]
    torch.manual_seed(0)
    memory_format = torch.channels_last if options.channels_last else torch.contiguous_format
    theirs = make(options.channels).to(device, memory_format=memory_format)
    autocast = None if options.autocast is None else getattr(torch, options.autocast)
    ours, batch = copy.deepcopy(theirs), Batch.of(options.batch, pixels * options.size, device, autocast)
    chosen = {"precision": options.precision, "fallback": options.fallback, "store": options.store}
    if options.store:
        Store.open(write_location(options.store), write=True).close()  # creates the store, so that it can be searched
    with batch.casting:
        if options.tune:
            tune(problems(wt.patch(ours, batch.images, **chosen)), options.device, options.tune, options.store)
        report = wt.patch(ours, batch.images, **chosen)
    print(report, flush=True)
    in_float64 = dataclasses.replace(batch, images=batch.images.double(), autocast=None)
    exact = gradients(copy.deepcopy(theirs).double(), in_float64)
    errors = [error(gradients(model, batch), exact) for model in (theirs, ours)]
    with shared_device(DeviceRef.parse(options.device)) as lock_file, DeviceLock(lock_file):
        torch_ms, ours_ms = in_turns([stepper(theirs, batch), stepper(ours, batch)], device, options.rounds)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "host"
    return {
        "device": name,
        "torch": torch.__version__,
        "network": options.network,
        "channels": options.channels,
        "batch": options.batch,
        "size": options.size,
        "autocast": options.autocast,
        "channels_last": options.channels_last,
        "precision": options.precision,
        "replaced": len(report.replaced),
        "left": len(report.left),
        "torch_ms": torch_ms,
        "warpsmith_ms": ours_ms,
        "ratio": torch_ms / ours_ms,
        "gradient_errors": dict(zip(("torch", "warpsmith"), errors, strict=True)),
        "calls_us": overheads(device, options.rounds),
    }


def show(found: dict[str, Any]) -> None:
    """Prints the figures as tables."""
    told = "{network}, {channels} channels, batch {batch}, size {size}, {device}, PyTorch {torch}".format(**found)
    told += f", autocast to {found['autocast']}" if found["autocast"] else ""
    print(f"{told}{', channels last' if found['channels_last'] else ''}, precision {found['precision']}")
    header = ("layers replaced", "left", "torch ms", "warpsmith ms", "ratio", "torch's error", "warpsmith's error")
    times = (f"{found[name]:.3f}" for name in ("torch_ms", "warpsmith_ms"))
    figures = (str(found["replaced"]), str(found["left"]), *times, f"{found['ratio']:.3f}")
    errors = (f"{each:.1e}" for each in found["gradient_errors"].values())
    print_table(header, [(*figures, *errors)])
    rows = found["calls_us"]
    names = tuple(rows[0])
    cells = [(row["call"], *(f"{row[name]:.1f}" for name in names[1:])) for row in rows]
    print_table(("call", *(f"{name} us" for name in names[1:])), cells)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="resnet")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=56, help="rows and columns of the first layer's result")
    parser.add_argument("--autocast", choices=["float16", "bfloat16"], help="dtype of PyTorch's autocast")
    parser.add_argument("--channels-last", action="store_true", help="memory format of the models")
    parser.add_argument("--precision", choices=[*map(str, ws.Precision)], default="ieee", help="of the plans")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--store", help="file to tune into, and to search first")
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS", help="of searching, for each pass")
    parser.add_argument("--fallback", choices=[*wt.Fallback], default="torch")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
        found = measure(options)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
