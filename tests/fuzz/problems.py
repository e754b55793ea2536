"""Random problems of every operation and random devices for the loops of this folder.

Sizes are log-uniform with a preference for awkward ones (1, primes, one beside a power of two), since faults sit at
borders. A draw that the problem's own checks refuse is drawn again.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.layer.problem import ACCURACIES
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.device import Device
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.problem import Kind, Layout, Norm, Order
from warpsmith.generator.filter1d import Activation, Filter1d, Mode, SignalLayout, SignalState
from warpsmith.generator.filter1d.lags import lags_of
from warpsmith.generator.filter1d.problem import SIGNALS
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.precision import Precision
from warpsmith.generator.presets import HOST, PRESETS
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Problem

DEVICES: tuple[Device, ...] = (HOST, *PRESETS.values())
AWKWARD = (
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    255,
    256,
    257,
    511,
    512,
    513,
    1920,
    2161,
)
PICTURE_SIDES = (224, 240, 480, 640, 720, 1080, 1280, 1920, 2048, 2160, 2400, 3000, 3840, 4096, 9216)
LAYER_SIDES = (7, 8, 13, 14, 16, 27, 28, 32, 48, 55, 56, 64, 112, 128, 224, 256, 512)
LAYER_CHANNELS = (1, 2, 3, 3, 4, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
REDRAWS = 10_000
"""Most draws that may be refused in a row; one in three is refused."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """Limits of the problems that are drawn."""

    side: int
    """Most rows or columns of an image, or points of a transform."""
    batch: int
    channels: int
    flops: float
    bytes: int


WHOLE = Scale(side=10_000, batch=100_000, channels=2048, flops=1e13, bytes=2**34)
"""Problems of all sizes that a GPU may get."""
SMALL = Scale(side=48, batch=5, channels=12, flops=2e6, bytes=2**21)
"""Problems that the host device computes in a fraction of a second."""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A problem on a device. `Question.parse` makes it again from its text."""

    problem: Problem
    device: Device

    def __str__(self) -> str:
        spec = {name: value for name, value in self.problem.spec().items() if value is not None}
        return json.dumps([self.device.name, self.problem.operation, spec])

    @classmethod
    def parse(cls, text: str) -> Question:
        name, operation, spec = json.loads(text)
        device = next((each for each in DEVICES if each.name == name), HOST)  # a real device may be no preset
        return cls(Problem.from_spec(operation, spec), device)


def random_problem(rng: random.Random, scale: Scale = WHOLE, operation: str | None = None) -> Problem:
    """A problem of `operation`, or of one at random, within `scale`."""
    make = _MAKERS[operation or rng.choice(tuple(_MAKERS))]
    for _ in range(REDRAWS):
        try:
            problem = make(rng, scale)
        except BadArgument:
            continue
        if problem.flops <= scale.flops and problem.bytes <= scale.bytes:
            return problem
    raise RuntimeError(f"{REDRAWS} draws of {operation} in a row were refused")


def random_size(rng: random.Random, most: int) -> int:
    """A number from 1 to `most`."""
    if rng.random() < 0.4:
        return rng.choice([each for each in AWKWARD if each <= most])
    return max(1, min(most, round(most ** rng.random())))


def usual_or_random(rng: random.Random, usual: Sequence[int], most: int) -> int:
    """One of the `usual` numbers up to `most`, or, in two of five draws, any number up to it."""
    fitting = [each for each in usual if each <= most]
    return rng.choice(fitting) if fitting and rng.random() < 0.6 else random_size(rng, most)


def _filter2d(rng: random.Random, scale: Scale) -> Problem:
    image = usual_or_random(rng, PICTURE_SIDES, scale.side), usual_or_random(rng, PICTURE_SIDES, scale.side)
    taps = usual_or_random(rng, range(1, 16), 40), usual_or_random(rng, range(1, 16), 40)
    filters = rng.choice((1, 1, 1, 1, 2, 5, 19))
    is_known = rng.random() < 0.2 and filters * taps[0] * taps[1] <= 600
    weights = tuple(rng.randint(-4, 4) for _ in range(filters * taps[0] * taps[1])) if is_known else None
    free = Filter2d(
        image=image,
        filter=taps,
        planes=rng.choice((1, 1, 1, 2, 3, random_size(rng, min(256, 16 * scale.batch)))),
        dtype=rng.choice((DType.FLOAT32, DType.FLOAT16, DType.UINT8)),
        border=rng.choice(tuple(Border)),
        cval=rng.choice((0.0, -1.5, 7.0)),
        weights=weights,
        channels=rng.choice((1, 1, 2, 3, 4)),
        filters=filters,
        result_dtype=rng.choice((None, None, DType.FLOAT32, DType.FLOAT16, DType.UINT8)),
        convolve=rng.random() < 0.2,
        accuracy=rng.choice(tuple(Accuracy)),
        nonfinite=rng.choice(tuple(NonFinite)),
    )
    changes: dict[str, Any] = {}
    if free.border is not Border.VALID and rng.random() < 0.3:
        changes["anchor"] = rng.randrange(taps[0]), rng.randrange(taps[1])
    for name, operand in (("pitch", free.operands[0]), ("result_pitch", free.output)):
        if rng.random() < 0.2:
            row = operand.strides[-3 if free.channels > 1 else -2]
            changes[name] = rng.choice((row + operand.dtype.itemsize * rng.randint(1, 9), -(-row // 32) * 32))
    return dataclasses.replace(free, **changes) if changes else free


def _fft(rng: random.Random, scale: Scale) -> Problem:
    axes = rng.choice((1, 2))
    size = tuple(max(2, random_size(rng, scale.side if axes == 1 else min(256, scale.side))) for _ in range(axes))
    kind = rng.choice(tuple(Kind))
    fields: dict[str, Any] = {
        "size": size,
        "batch": random_size(rng, scale.batch),
        "kind": kind,
        "inverse": rng.random() < 0.5 if kind is Kind.C2C else None,
        "norm": rng.choice(tuple(Norm)),
        "layout": rng.choice(tuple(Layout)),
        "order": rng.choice((Order.NATURAL, Order.NATURAL, Order.NATURAL, *Order)),
    }
    if rng.random() < 0.3:
        fields["valid"] = tuple(rng.randint(1, points) for points in size)
    if rng.random() < 0.15:
        fields["start"] = tuple(rng.randrange(points) for points in size)
    return Fft(**fields)


def _conv2d(rng: random.Random, scale: Scale) -> Problem:
    return (_layer_of_network if rng.random() < 0.25 else _any_layer)(rng, scale)


def _layer_of_network(rng: random.Random, scale: Scale) -> Problem:
    """A layer that families of one kind solve: filters as large as the image, small groups, or one tap; mostly of 16
    bits with channels last.
    """
    pass_, kind = rng.choice(tuple(Pass)), rng.choice(("whole image", "groups", "one tap"))
    side = (
        rng.choice((1, 2, 4, 7)) if kind == "whole image" else usual_or_random(rng, LAYER_SIDES, min(scale.side, 128))
    )
    channels, filters = (usual_or_random(rng, LAYER_CHANNELS, scale.channels) for _ in range(2))
    taps, groups = {"whole image": side, "groups": rng.choice((1, 3)), "one tap": 1}[kind], 1
    if kind == "groups":
        groups = random_size(rng, min(64, scale.channels))
        channels = min(rng.choice((1, 2, 4, 8, 16, 24, 32)), max(1, scale.channels // groups))
        filters = rng.choice((1, 1, 2)) * channels
    precision, dtype = rng.choice((*_ARITHMETIC, *_ARITHMETIC[-2:] * 7))
    has_ends = pass_ is not Pass.WGRAD
    return Conv2d(
        input=(random_size(rng, min(64, scale.batch)), channels * groups, side, side),
        weight=(filters * groups, channels, taps, taps),
        stride=rng.choice((1, 2)) if kind == "groups" else 1,
        padding=taps // 2 if kind == "groups" else 0,
        groups=groups,
        pass_=pass_,
        precision=precision,
        layout=ImageLayout.NHWC if dtype is not DType.FLOAT32 else rng.choice(tuple(ImageLayout)),
        bias=has_ends and rng.random() < 0.3,
        relu=has_ends and rng.random() < 0.2,
        workspace=rng.choice((2**30, 2**30, 0, 2**20)),
        dtype=dtype,
    )


def _any_layer(rng: random.Random, scale: Scale) -> Problem:
    is_usual = rng.random() < 0.4  # what transforms solve: unit strides, one group, float32
    groups = 1 if is_usual else rng.choice((1, 1, 2, random_size(rng, scale.channels)))
    side = min(scale.side, 1024)
    rows = usual_or_random(rng, LAYER_SIDES, side)
    columns = rows if rng.random() < 0.5 else usual_or_random(rng, LAYER_SIDES, side)
    channels = max(1, usual_or_random(rng, LAYER_CHANNELS, scale.channels) // groups)
    filters = max(1, usual_or_random(rng, LAYER_CHANNELS, scale.channels) // groups)
    if rng.random() < 0.2 and groups > 1:
        channels = filters = 1
    taps = rng.choice(((1, 1), (3, 3), (3, 3), (5, 5), (7, 7), (random_size(rng, 13), random_size(rng, 13))))
    pads = rng.choice((0, 1, (taps[0] // 2, taps[1] // 2), "same", ((0, 1), (2, 0))))
    precision, dtype = _ARITHMETIC[0] if is_usual else rng.choice(_ARITHMETIC)
    pass_ = rng.choice(tuple(Pass))
    return Conv2d(
        input=(random_size(rng, min(256, scale.batch)), channels * groups, rows, columns),
        weight=(filters * groups, channels, *taps),
        stride=1 if is_usual else rng.choice((1, 1, 2, (2, 1), 3)),
        padding=pads,
        dilation=1 if is_usual else rng.choice((1, 1, 2, (1, 3))),
        groups=groups,
        pass_=pass_,
        precision=precision,
        layout=ImageLayout.NCHW if is_usual else rng.choice(tuple(ImageLayout)),
        bias=pass_ is not Pass.WGRAD and rng.random() < 0.3,
        relu=pass_ is not Pass.WGRAD and rng.random() < 0.2,
        accuracy=Accuracy.NORMWISE if is_usual else rng.choice(ACCURACIES),
        workspace=rng.choice((2**30, 2**30, 2**30, 2**33, 0, 2**20, 2**26)),
        padding_mode=rng.choice((PaddingMode.ZEROS, PaddingMode.ZEROS, *PaddingMode)),
        dtype=dtype,
    )


_ARITHMETIC = (
    (Precision.IEEE, DType.FLOAT32),
    (Precision.IEEE, DType.FLOAT32),
    (Precision.TF32, DType.FLOAT32),
    (Precision.F16, DType.FLOAT32),
    (Precision.BF16, DType.FLOAT32),
    (Precision.F16, DType.FLOAT16),
    (Precision.BF16, DType.BFLOAT16),
)


def _cgemm(rng: random.Random, scale: Scale) -> Problem:
    m, n, k = (random_size(rng, scale.channels) for _ in range(3))
    batch = random_size(rng, min(scale.batch, 20_000))
    accuracy = rng.choice((Accuracy.ELEMENTWISE, Accuracy.NORMWISE))
    return Cgemm(batch, m, n, k, rng.choice(tuple(Op)), rng.choice(tuple(Op)), accuracy)


def _filter1d(rng: random.Random, scale: Scale) -> Problem:
    signal = random_size(rng, scale.side * rng.choice((1, 1, 20)))
    taps = rng.choice((random_size(rng, 9), random_size(rng, 40), random_size(rng, min(scale.side, 8192))))
    channels = rng.choice((1, 1, 2, 3, random_size(rng, scale.channels)))
    filters = rng.choice((1, channels, rng.choice([n for n in range(1, channels + 1) if channels % n == 0])))
    dtype = rng.choice(SIGNALS)
    is_known = rng.random() < 0.2 and filters * taps <= 600
    own = dtype if dtype in (DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64) else DType.FLOAT32
    reals = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
    fields: dict[str, Any] = {"mode": rng.choice((None, *Mode))}
    if fields["mode"] is None and rng.random() < 0.6:
        first, last = lags_of(Mode.FULL, signal, taps)
        fields["lags"] = sorted(rng.randint(first, last) for _ in range(2))
    if rng.random() < 0.25:
        fields = {"mode": Mode.CAUSAL, **_states(rng, taps)}
    free = Filter1d(
        signal=signal,
        taps=taps,
        batch=rng.choice((1, 1, 2, 3, random_size(rng, scale.batch))),
        channels=channels,
        filters=filters,
        layout=rng.choice(tuple(SignalLayout)),
        dtype=dtype,
        down=rng.choice((1, 1, 1, 2, 3, random_size(rng, 16))),
        convolve=rng.random() < 0.3,
        taps_dtype=None if is_known else rng.choice((None, own)),
        result_dtype=None if dtype is DType.COMPLEX64 else rng.choice((None, None, *reals)),
        weights=tuple(rng.randint(-4, 4) for _ in range(filters * taps)) if is_known else None,
        bias=dtype is not DType.COMPLEX64 and rng.random() < 0.3,
        activation=Activation.SILU if dtype is not DType.COMPLEX64 and rng.random() < 0.2 else None,
        precision=Precision.F16 if own.itemsize == 2 and rng.random() < 0.4 else Precision.IEEE,
        **fields,
    )
    changes = {
        name: row + operand.dtype.itemsize * rng.choice((rng.randint(1, 9), -row // operand.dtype.itemsize % 32))
        for name, operand in (("pitch", free.operands[0]), ("result_pitch", free.output))
        if len(operand.shape) > 1 and rng.random() < 0.2
        for row in (operand.strides[-2],)
    }
    return dataclasses.replace(free, **changes) if changes else free


def _states(rng: random.Random, taps: int) -> dict[str, Any]:
    """Fields of a state or of packed sequences; some are refused together with others."""
    state = rng.choice((None, *SignalState))
    fields: dict[str, Any] = {"state": state}
    if state is None or rng.random() < 0.3:
        fields["packed"] = random_size(rng, 40)
    if state is SignalState.CARRIED and rng.random() < 0.5:
        fields["state_width"] = max(1, taps - 1) + rng.choice((0, 1, random_size(rng, 40)))
        fields["state_rows"] = rng.choice((None, random_size(rng, 40)))
        fields["circular"] = rng.random() < 0.5
    return fields


_MAKERS: dict[str, Callable[[random.Random, Scale], Problem]] = {
    "filter2d": _filter2d,
    "filter1d": _filter1d,
    "fft": _fft,
    "conv2d": _conv2d,
    "cgemm": _cgemm,
}
