"""Times whole networks, PyTorch's own and patched, in turns: inference and training steps."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch_step import Batch as TrainingBatch
from torch_step import in_turns, stepper, wait

import warpsmith.torch as wt
from conv2d_bench.lines import Row
from conv2d_bench.network_layers import precision_of
from conv2d_bench.network_models import network
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.precision import Precision
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device

CASTS = {"ieee": None, "tf32": None, "tf32_last": None, "bf16": torch.bfloat16}
"""Type of PyTorch's autocast by the name of the numerics."""
CLASSES = 1000
PROFILED = 2
"""Steps whose kernels' times are added up."""


@dataclasses.dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of a measurement of whole networks."""

    device: str
    batch: int
    side: int
    rounds: int
    compiled: bool = False
    """Whether both models are compiled by `torch.compile`."""


def measured(name: str, numeric: str, settings: StepSettings) -> Row:
    """Times of a network's inference and training step, in ms, PyTorch's and warpsmith's; `kernels_ms` is that of the
    GPU's kernels alone, since the host's part of a step may be longer.

    `first_s` is the time from `patch` to the end of the first step of each kind: look-ups, and compilation of all that
    the cache of binaries lacks.
    """
    device = torch.device("cpu" if settings.device == "host" else settings.device)
    is_last = CASTS[numeric] is not None
    torch.manual_seed(0)
    memory_format = torch.channels_last if is_last else torch.contiguous_format
    theirs = network(name).to(device, memory_format=memory_format)
    ours = copy.deepcopy(theirs)
    images = torch.rand(settings.batch, 3, settings.side, settings.side, device=device)
    batch = TrainingBatch(
        images.to(memory_format=memory_format),
        _labels(theirs, images),
        CASTS[numeric],
    )
    start = time.monotonic()
    with batch.casting:
        report = wt.patch(ours, batch.images, precision=precision_of(numeric), fallback="default")
    patched = time.monotonic()
    models = [torch.compile(each) if settings.compiled else each for each in (theirs, ours)]
    begun = time.monotonic()
    _inference(models[1], batch)()
    stepper(models[1], batch)()
    wait(device)
    first_s = time.monotonic() - begun + patched - start
    with (
        shared_device(DeviceRef.parse(settings.device)) as lock_file,
        DeviceLock(lock_file),
        torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=precision_of(numeric) is Precision.TF32),
    ):
        steps = {
            "inference": [_inference(each, batch) for each in models],
            "training": [_training(each, batch) for each in models],
        }
        times: Row = {}
        for kind, both in steps.items():
            times |= _row(kind, in_turns(both, device, settings.rounds))
            if device.type == "cuda":
                times |= _row(f"{kind}_kernels", map(kernels_ms, both))
    return {
        "network": name,
        "numeric": numeric,
        "batch": settings.batch,
        "compiled": settings.compiled,
        "replaced": len(report.replaced),
        "left": len(report.left),
        "patch_s": round(patched - start, 2),
        "first_s": round(first_s, 2),
        **times,
    }


def kernels_ms(step: Callable[[], None]) -> float:
    """Milliseconds of all kernels of a step, by PyTorch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(PROFILED):
            step()
        torch.cuda.synchronize()
    return sum(each.self_device_time_total for each in profile.key_averages()) / PROFILED / 1e3


def _row(kind: str, times_ms: Iterable[float]) -> Row:
    torch_ms, ours_ms = times_ms
    return {f"{kind}_ms": {"torch": torch_ms, "warpsmith": ours_ms}, f"{kind}_ratio": round(torch_ms / ours_ms, 4)}


def _labels(model: nn.Module, images: Tensor) -> Tensor:
    """Random classes in the shape of the model's result, of an image or of each pixel."""
    with torch.no_grad():
        shape = model.eval()(images[:2]).shape
    classes = min(shape[1], CLASSES)
    return torch.randint(classes, (images.shape[0], *shape[2:]), device=images.device)


def _inference(model: nn.Module, batch: TrainingBatch) -> Callable[[], None]:
    def run() -> None:
        model.eval()
        with torch.no_grad(), batch.casting:
            model(batch.images)

    return run


def _training(model: nn.Module, batch: TrainingBatch) -> Callable[[], None]:
    step = stepper(model, batch)

    def run() -> None:
        model.train()
        step()

    return run
