"""Plans without a device: what is rebound, a texture's memory requirements, stale times."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from builders import binary, launch, program, winner
from warpsmith.devices.compiler import Binary, BinaryKind
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import BoundLaunch, Module
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Argument, ByValue, Constant, Launch, Pointer, Texture
from warpsmith.generator.registry import families_for
from warpsmith.plans import lookup, make
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

pytestmark = pytest.mark.usefixtures("compile_unoptimised")

PROBLEM = Filter2d(image=(4, 8), filter=(1, 1), pitch=64, result_pitch=64)
BINARIES = {"": binary(kind=BinaryKind.LIBRARY)}


class Recorder(Module):
    """A launcher that notes what was bound and launched."""

    def __init__(self) -> None:
        self.bound: list[tuple[Mapping[str, int], Mapping[str, bytes]]] = []
        self.launched: list[int] = []

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:  # noqa: ARG002
        number = len(self.bound)
        self.bound.append((addresses, values))
        return lambda _stream: self.launched.append(number)

    def close(self) -> None:
        pass


class OnPaper(HostRuntime):
    """A GPU that runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.device = H200
        self.module = Recorder()

    def load(self, binary: Binary) -> Any:  # noqa: ARG002
        return self.module


class OnGpu:
    """An array of 4 rows of 8 floats, 64 bytes apart; its address is made up and never read."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4, 8),
            "typestr": "<f4",
            "data": (address, False),
            "strides": (64, 4),
            "version": 3,
        }


def plan_of(*arguments: Argument, constants: tuple[Constant, ...] = ()) -> tuple[Plan, Recorder]:
    made = program("", launch(*arguments, Pointer("result"), constants=constants))
    runtime = OnPaper()
    return Plan.load(PROBLEM, Match(MatchKind.DEFAULT, made, None, ()), BINARIES, runtime), runtime.module


def one(weight: float = 1.0) -> np.ndarray[Any, Any]:
    return np.full((1, 1), weight, np.float32)


@pytest.mark.parametrize("constants", [(), (Constant("weights", "weights"),)], ids=["by value", "constant"])
def test_a_call_like_an_earlier_one_binds_nothing_anew(constants: tuple[Constant, ...]) -> None:
    by_value: tuple[Argument, ...] = () if constants else (ByValue("weights"),)
    plan, module = plan_of(Pointer("image"), *by_value, constants=constants)
    image, other, out = OnGpu(0x10000), OnGpu(0x20000), OnGpu(0x30000)
    for array, weight in ((image, 1), (image, 1), (other, 1), (image, 2), (image, 1), (other, 1)):
        assert plan(array, one(weight), out=out) is out
    assert module.launched == [0, 0, 1, 2, 0, 1]
    assert module.bound[1] == ({"image": 0x20000, "result": 0x30000}, {"weights": one(1).tobytes()})
    assert module.bound[2][1] == {"weights": one(2).tobytes()}


def test_only_the_latest_calls_are_remembered() -> None:
    plan, module = plan_of(Pointer("image"))
    images, out = [OnGpu(0x10000 * (i + 2)) for i in range(17)], OnGpu(0x10000)
    for image in images[:16]:
        plan(image, one(), out=out)
    plan(images[0], one(), out=out)  # used again, so the second is now the oldest
    plan(images[16], one(), out=out)
    assert len(module.bound) == 17
    plan(images[0], one(), out=out)
    assert len(module.bound) == 17
    plan(images[1], one(), out=out)
    assert len(module.bound) == 18


def test_what_is_read_through_a_texture_starts_at_a_multiple_of_512_bytes() -> None:
    texture = Texture("image", DType.FLOAT32, 8, 4, 64)
    plan, module = plan_of(texture)
    out = OnGpu(0x10010)  # a pointer alone leads to it
    plan(OnGpu(0x20200), one(), out=out)
    with pytest.raises(BadArgument) as caught:
        plan(OnGpu(0x20100), one(), out=out)
    assert str(caught.value) == (
        "image: this plan reads it through a texture: it must start at a multiple of 512 bytes; copy it first"
    )
    assert len(module.bound) == 1
    pointed, _ = plan_of(Pointer("image"))
    pointed(OnGpu(0x20100), one(), out=out)


def test_the_gaps_of_an_array_count_where_memory_is_shared() -> None:
    plan, _ = plan_of(Pointer("image"))
    span = 3 * 64 + 32
    with pytest.raises(BadArgument, match="out: shares memory with image"):
        plan(OnGpu(0x10000), one(), out=OnGpu(0x10000 + span - 16))
    with pytest.raises(BadArgument, match="out: shares memory with image"):
        plan(OnGpu(0x10000 + span - 16), one(), out=OnGpu(0x10000))
    plan(OnGpu(0x10000), one(), out=OnGpu(0x10000 + span))
    plan(OnGpu(0x10000 + span), one(), out=OnGpu(0x10000))


def test_a_stale_time_is_told_where_the_plan_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, device = Filter2d(image=(9, 9), filter=(3, 3)), DeviceRef.parse("host").device()
    family = families_for(problem, device)[0]
    config = family.default(problem, device)
    made = family.program(problem, config)
    stored = winner(problem, 5.0, device, family=family, environment={"compiler": "g++ 1.0"})
    match = Match(MatchKind.EXACT, made, stored, ())
    monkeypatch.setattr(lookup, "look_up_wholly", lambda *_: (match, True))
    monkeypatch.setattr(make, "SOFT_FACTS", ("compiler",))
    with pytest.warns(make.StaleTiming, match=r"taken with compiler g\+\+ 1\.0, here is") as caught:
        ws.plan(problem, "host")
    assert caught[0].filename == __file__
    make.forget_plans()
    now = dataclasses.replace(stored.provenance, environment={"compiler": HostCompiler().name})
    match = Match(MatchKind.EXACT, made, dataclasses.replace(stored, provenance=now), ())
    with warnings.catch_warnings():
        warnings.simplefilter("error", make.StaleTiming)
        assert ws.plan(problem, "host").match is match
