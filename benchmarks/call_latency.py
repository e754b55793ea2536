"""CPU time of a call: bound calls and small layers beside PyTorch's, repeated `ws.plan` calls, first plans, imports.

    usage: python benchmarks/call_latency.py [--device auto|cuda:I|host] [--rounds 60] [--calls 100]
                                             [--processes 10] [--json]

A call is timed on the CPU: the mean over a loop of 100 calls that waits for the device before and after, but not
inside. The driver's queue holds 1024 launches, so no call waits for an earlier one. warpsmith's and PyTorch's calls
take turns, and the medians over all rounds are printed, in us. A step of a layer is its forward and backward pass; a
backward pass alone repeats that of one graph. If CuPy is installed, its arrays are passed too, and on
the host NumPy's. First plans and imports are timed in fresh processes, whose modules and machine code are on disk
already.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from statistics import median
from typing import Any

import numpy as np

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind

CALLS = 100
HITS = 2000

CASES: dict[str, ws.Problem] = {
    "filter2d 3x3, 256x256": ws.Filter2d(image=(256, 256), filter=(3, 3)),
    "filter2d 3x3, 1080x1920": ws.Filter2d(image=(1080, 1920), filter=(3, 3)),
    "fft 64x64, batch 64": ws.Fft(size=(64, 64), batch=64),
}

FIRST_PLAN = """
import sys, time, torch, warpsmith as ws
device = sys.argv[1]
if device.startswith("cuda"):
    torch.zeros(1, device=device)
    torch.cuda.synchronize()
problem = ws.Filter2d(image=(256, 256), filter=(3, 3))
start = time.perf_counter()
import warpsmith.plans.make
ready = time.perf_counter()
ws.plan(problem, device)
print(1e3 * (time.perf_counter() - start), 1e3 * (time.perf_counter() - ready))
"""
"""Prints ms of the first plan, with its imports and without."""

IMPORT = """
import time
start = time.perf_counter()
import warpsmith
print(1e3 * (time.perf_counter() - start))
"""


@dataclasses.dataclass(frozen=True)
class Subject:
    case: str
    library: str
    kind: str
    """`out`, `new`, or the name of another library's function."""
    call: Callable[[], Any]


def subjects(case: str, problem: ws.Problem, ref: DeviceRef) -> list[Subject]:
    """Calls of a problem's plan with each array library, and PyTorch's own function."""
    import torch

    plan = ws.plan(problem, str(ref))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(each.shape).astype(each.dtype.value) for each in problem.inputs]
    dense, weights = arrays[0], arrays[1:]
    where = torch.device(str(ref) if ref.kind is DeviceKind.CUDA else "cpu")
    x = torch.from_numpy(dense).to(where)
    found = _calls(case, "torch", plan, x, weights, torch.empty_like(plan(x, *weights)))
    if weights:
        image, filter_ = x[None, None], torch.from_numpy(weights[0]).to(where)[None, None]
        conv2d = torch.nn.functional.conv2d
        found.append(Subject(case, "torch", "conv2d", lambda: conv2d(image, filter_)))
    else:
        rfft2 = torch.fft.rfft2
        found.append(Subject(case, "torch", "rfft2", lambda: rfft2(x)))
    if ref.kind is DeviceKind.HOST:
        return found + _calls(case, "numpy", plan, dense, weights, np.empty_like(plan(dense, *weights)))
    try:
        import cupy
    except ImportError:
        return found
    with cupy.cuda.Device(ref.ordinal):
        y = cupy.asarray(dense)
        return found + _calls(case, "cupy", plan, y, weights, cupy.empty_like(plan(y, *weights)))


def _calls(case: str, library: str, plan: Any, x: Any, weights: list[Any], out: Any) -> list[Subject]:
    return [
        Subject(case, library, "out", lambda: plan(x, *weights, out=out)),
        Subject(case, library, "new", lambda: plan(x, *weights)),
    ]


def layer_subjects(ref: DeviceRef) -> list[Subject]:
    """A small layer with gradients of image, weights and bias: PyTorch's and warpsmith's, as functions and modules."""
    import torch

    import warpsmith.torch as wt

    where = torch.device(str(ref) if ref.kind is DeviceKind.CUDA else "cpu")
    torch.manual_seed(0)
    theirs = torch.nn.Conv2d(8, 8, 3, padding=1).to(where)
    ours = copy.deepcopy(theirs)
    wt.patch(ours, fallback="default")
    x, dy = torch.randn(8, 8, 8, 8, device=where, requires_grad=True), torch.randn(8, 8, 8, 8, device=where)
    conv2d = functools.partial(torch.nn.functional.conv2d, padding=1)
    found = _layer("torch", conv2d, theirs, x, dy)
    return found + _layer("warpsmith", functools.partial(wt.conv2d, padding=1, fallback="default"), ours, x, dy)


def _layer(library: str, conv2d: Callable[..., Any], module: Any, x: Any, dy: Any) -> list[Subject]:
    from torch.autograd import grad

    w, b = module.weight, module.bias
    of_weights, of_all = conv2d(x.detach(), w), conv2d(x, w, b)
    plain = x.detach(), w.detach()
    calls: dict[str, Callable[[], Any]] = {
        "no gradient": lambda: conv2d(*plain),
        "forward": lambda: conv2d(x, w),
        "backward, w": lambda: grad(of_weights, w, dy, retain_graph=True),
        "backward, all": lambda: grad(of_all, (x, w, b), dy, retain_graph=True),
        "step": lambda: grad(conv2d(x, w), (x, w), dy),
        "step, sum": lambda: grad(conv2d(x, w, b).sum(), (x, w, b)),
        "module": lambda: module(x),
        "module, step": lambda: grad(module(x), (x, w, b), dy),
    }
    return [Subject("conv2d 3x3, 8x8x8x8", library, kind, call) for kind, call in calls.items()]


def synchronize(ref: DeviceRef) -> None:
    """Waits for the device."""
    if ref.kind is DeviceKind.CUDA:
        import torch

        torch.cuda.synchronize(ref.ordinal)


def loop_us(call: Callable[[], Any], ref: DeviceRef, calls: int = CALLS) -> float:
    """CPU time of one call, in us, from a loop that does not wait."""
    synchronize(ref)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = time.perf_counter() - start
    synchronize(ref)
    return 1e6 * seconds / calls


def timed(found: list[Subject], ref: DeviceRef, rounds: int, calls: int) -> list[dict[str, Any]]:
    """Median over the rounds for each subject. All subjects take turns."""
    times: list[list[float]] = [[] for _ in found]
    for subject in found:
        loop_us(subject.call, ref, calls)  # warm-up: one-time work happens here
    for _ in range(rounds):
        for subject, own in zip(found, times, strict=True):
            own.append(loop_us(subject.call, ref, calls))
    return [
        {"case": each.case, "library": each.library, "kind": each.kind, "us": median(own), "best_us": min(own)}
        for each, own in zip(found, times, strict=True)
    ]


def hits(ref: DeviceRef, rounds: int) -> list[dict[str, Any]]:
    """Repeated `ws.plan` calls, with the same problem and with an equal one."""
    name, problem = next(iter(CASES.items()))
    equal = dataclasses.replace(problem)  # type: ignore[type-var]
    device = str(ref)
    ws.plan(problem, device)
    rows = []
    for kind, asked in (("same problem", problem), ("equal problem", equal)):
        own = [loop_us(lambda asked=asked: ws.plan(asked, device), ref, HITS) for _ in range(rounds)]  # type: ignore[misc]
        rows.append({"case": name, "library": "ws.plan", "kind": kind, "us": median(own), "best_us": min(own)})
    return rows


def fresh_ms(text: str, argument: str, processes: int) -> list[list[float]]:
    """Numbers that each of `processes` fresh processes prints, after one whose numbers are dropped."""
    command = [sys.executable, "-W", "ignore", "-c", text, argument]
    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(processes + 1)]
    return [[float(word) for word in each.split()] for each in told[1:]]


def processes_rows(ref: DeviceRef, processes: int) -> list[dict[str, Any]]:
    """First plans and imports."""
    plans, imports = fresh_ms(FIRST_PLAN, str(ref), processes), fresh_ms(IMPORT, "", processes)
    columns = {
        "first plan, with its imports": [each[0] for each in plans],
        "first plan, imports done": [each[1] for each in plans],
        "import warpsmith": [each[0] for each in imports],
    }
    return [{"what": what, "ms": median(own), "best_ms": min(own)} for what, own in columns.items()]


def versions(ref: DeviceRef) -> dict[str, str]:
    """Device, Python and library versions of this run."""
    told = {"device": ref.device().name, "python": platform.python_version(), "machine": platform.machine()}
    for name in ("torch", "numpy", "cuda-bindings", "cupy-cuda13x"):
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of one loop")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    ref = DeviceRef.parse(chosen.device)
    found = [each for case, problem in CASES.items() for each in subjects(case, problem, ref)] + layer_subjects(ref)
    report = {
        "versions": versions(ref),
        "calls": timed(found, ref, chosen.rounds, chosen.calls) + hits(ref, chosen.rounds),
        "processes": processes_rows(ref, chosen.processes),
    }
    if chosen.json:
        print(json.dumps(report, indent=2))
        return
    print(", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    print(f"{'case':26}{'library':10}{'kind':16}{'median us':>10}{'best us':>10}")
    for row in report["calls"]:
        print(f"{row['case']:26}{row['library']:10}{row['kind']:16}{row['us']:10.2f}{row['best_us']:10.2f}")
    for row in report["processes"]:
        print(f"{row['what']:52}{row['ms']:10.1f} ms, best {row['best_ms']:.1f} ms")


if __name__ == "__main__":
    main()
