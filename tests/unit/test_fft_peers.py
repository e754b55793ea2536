"""Other libraries' Fourier transforms: each computes the problem, and is called for no more than that."""

from __future__ import annotations

import dataclasses
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft, Kind, Layout, Norm, Order, Product, Tiling
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.fft.judge import FftJudge
from warpsmith.tuner.operations.peer import Peer, PeerMaker
from warpsmith.tuner.operations.registry import peers, random_operands, reference, warm_up

scipy = pytest.importorskip("scipy")

DIRECTIONS: dict[str, dict[str, Any]] = {
    "r2c": {"kind": Kind.R2C},
    "c2r": {"kind": Kind.C2R},
    "c2c": {"kind": Kind.C2C},
    "inverse": {"kind": Kind.C2C, "inverse": True},
}
SHAPES: list[dict[str, Any]] = [
    {"size": (12,)},
    {"size": (9,), "valid": (5,)},
    {"size": (8,), "layout": Layout.FREQUENCY, "valid": (7,)},
    {"size": (6, 8)},
    {"size": (6, 9), "valid": (6, 4)},
    {"size": (4, 10), "layout": Layout.TRANSPOSED},
    {"size": (5, 8), "layout": Layout.TRANSPOSED, "valid": (3, 7)},
    {"size": (6, 8), "layout": Layout.FREQUENCY},
    {"size": (7, 4), "layout": Layout.FREQUENCY, "valid": (2, 4)},
]
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def assert_right(problem: Fft, kind: DeviceKind) -> Peer:
    """Asserts that the only peer computes the problem, reuses its memory and does not change its input."""
    operands, again = random_operands(problem, 0), random_operands(problem, 0)
    (peer,) = peers(problem, operands, kind)
    peer.run()
    first = peer.result()
    assert (first.shape, str(first.dtype)) == (problem.output.shape, problem.output.dtype.value)
    verdict = verify(first.copy(), reference(problem, operands), problem.output.dtype)
    assert verdict.right, f"{problem.key()}: {verdict.message}"
    kept = first.copy()
    peer.renew()
    peer.run()
    assert np.array_equal(peer.result(), kept)
    assert all(np.array_equal(operands[name], again[name]) for name in again)
    return peer


class TestScipy:
    @every_direction
    @every_shape
    @pytest.mark.parametrize("norm", Norm)
    def test_computes_the_problem(self, direction: str, shape: dict[str, Any], norm: Norm) -> None:
        peer = assert_right(Fft(batch=5, norm=norm, **shape, **DIRECTIONS[direction]), DeviceKind.HOST)
        function = {"r2c": "rfftn", "c2r": "irfftn", "c2c": "fftn", "inverse": "ifftn"}[direction]
        assert peer.name == f"scipy {scipy.__version__} fft.{function}"

    @every_direction
    def test_has_no_reversed_order(self, direction: str) -> None:
        problem = Fft((8,), 3, order=Order.REVERSED, **DIRECTIONS[direction])
        assert peers(problem, random_operands(problem, 0), DeviceKind.HOST) == ()

    def test_is_warmed_up_on_a_batch_of_two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ran: list[tuple[str, int]] = []

        def makers(_: Any, problem: Fft, *__: Any) -> tuple[PeerMaker, ...]:
            def maker(name: str, why_not: str | None = None) -> PeerMaker:
                peer = Peer(name, lambda *_: ran.append((name, problem.batch)), lambda: np.zeros(1))
                return PeerMaker(name, ("numpy",), lambda: peer, why_not)

            # What takes too long for the problem is not run on the small one either, though it would be quick.
            return (maker("quick"), maker("slow", "takes a minute" if problem.batch > 2 else None))

        monkeypatch.setattr(FftJudge, "peers", makers)
        problem = Fft((8, 8), 100)
        warm_up(problem, random_operands(problem, 0), DeviceKind.HOST)
        assert ran == [("quick", 2)]


@dataclasses.dataclass
class Plan:
    """Plans like cuFFT's that note their arguments; they transform on the host, by the given strides."""

    size: tuple[int, ...]
    source: tuple[tuple[int, ...], int, int]
    """Extents of the array in memory, and strides in elements between numbers and between transforms."""
    target: tuple[tuple[int, ...], int, int]
    kind: str
    batch: int
    directions: list[int] = dataclasses.field(default_factory=list)

    def view(self, array: NDArray[Any], layout: tuple[tuple[int, ...], int, int]) -> NDArray[Any]:
        """The transforms in an array, batch first."""
        extents, stride, distance = layout
        steps = [stride * int(np.prod(extents[axis + 1 :])) for axis in range(len(extents))]
        assert array.flags.c_contiguous
        nbytes = [array.itemsize * step for step in (distance, *steps)]
        return np.lib.stride_tricks.as_strided(array, (self.batch, *extents), nbytes)

    def fft(self, source: NDArray[Any], target: NDArray[Any], direction: int) -> None:
        """Transforms are unscaled, as in cuFFT."""
        assert not np.shares_memory(source, target)
        self.directions.append(direction)
        given, axes = self.view(source, self.source), tuple(range(1, len(self.size) + 1))
        name, norm = {
            ("R2C", -1): ("rfftn", "backward"),
            ("C2R", 1): ("irfftn", "forward"),
            ("C2C", -1): ("fftn", "backward"),
            ("C2C", 1): ("ifftn", "forward"),
        }[self.kind, direction]
        self.view(target, self.target)[...] = getattr(np.fft, name)(given, self.size, axes, norm)
        if self.kind == "C2R":
            source[...] = np.nan  # scratch memory, to cuFFT


@dataclasses.dataclass
class Asked:
    """Calls that the library received."""

    plans: list[Plan] = dataclasses.field(default_factory=list)
    scales: list[float] = dataclasses.field(default_factory=list)
    flat: int = 0
    """One-dimensional plans."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """NumPy under CuPy's names; notes the calls to CuPy and cuFFT."""
    asked = Asked()

    def plan_nd(size: tuple[int, ...], *others: Any) -> Plan:
        *layouts, kind, batch, order, last_axis, last_size = others
        assert (order, last_axis, last_size) == ("C", len(size) - 1, size[-1])
        asked.plans.append(Plan(size, tuple(layouts[:3]), tuple(layouts[3:]), kind, batch))
        return asked.plans[-1]

    def plan_1d(n: int, kind: str, batch: int) -> Plan:
        asked.flat += 1
        half = (n // 2 + 1,)
        source, target = {"R2C": ((n,), half), "C2R": (half, (n,)), "C2C": ((n,), (n,))}[kind]
        asked.plans.append(Plan((n,), (source, 1, source[0]), (target, 1, target[0]), kind, batch))
        return asked.plans[-1]

    def multiply(values: NDArray[Any], scale: np.float32, out: NDArray[Any]) -> None:
        assert values is out
        asked.scales.append(float(scale))
        np.multiply(values, scale, out=out)

    cupy, cufft = types.ModuleType("cupy"), types.ModuleType("cupy.cuda.cufft")
    cupy.__dict__.update(
        __version__="0.1",
        **{name: getattr(np, name) for name in ("zeros", "empty", "swapaxes", "copyto")},
        asarray=np.array,
        asnumpy=np.asarray,
        multiply=multiply,
    )
    cufft.__dict__.update(CUFFT_FORWARD=-1, CUFFT_INVERSE=1, CUFFT_R2C="R2C", CUFFT_C2R="C2R", CUFFT_C2C="C2C")
    cufft.__dict__.update(Plan1d=plan_1d, PlanNd=plan_nd, getVersion=lambda: 12345)
    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", {"cupy": ModuleSpec("cupy", None)}.get)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda.cufft", cufft)
    return asked


class TestCufft:
    @every_direction
    @every_shape
    @pytest.mark.parametrize("norm", Norm)
    def test_is_asked_for_the_problem(self, direction: str, shape: dict[str, Any], norm: Norm, asked: Asked) -> None:
        problem = Fft(batch=5, norm=norm, **shape, **DIRECTIONS[direction])
        peer = assert_right(problem, DeviceKind.CUDA)
        assert peer.name.startswith("cufft 12345 through cupy 0.1")
        (plan,) = asked.plans
        assert plan.directions == [1 if problem.inverse else -1] * 2

    @every_direction
    def test_a_plan_of_one_dimension_has_no_strides(self, direction: str, asked: Asked) -> None:
        assert_right(Fft((12,), 5, **DIRECTIONS[direction]), DeviceKind.CUDA)
        assert asked.flat == 1

    @pytest.mark.parametrize("norm", Norm)
    @every_direction
    def test_scales_only_where_there_is_a_scale(self, direction: str, norm: Norm, asked: Asked) -> None:
        problem = Fft((4, 8), 3, norm=norm, **DIRECTIONS[direction])
        assert_right(problem, DeviceKind.CUDA)
        assert asked.scales == ([] if problem.scale == 1 else [pytest.approx(problem.scale)] * 2)

    @pytest.mark.parametrize("size", [(8,), (6, 8)])
    @every_direction
    def test_frequencies_lie_a_batch_apart(self, direction: str, size: tuple[int, ...], asked: Asked) -> None:
        """cuFFT writes and reads that layout by strides, so nothing else moves data."""
        problem = Fft(size, 7, layout=Layout.FREQUENCY, **DIRECTIONS[direction])
        assert_right(problem, DeviceKind.CUDA)
        (plan,) = asked.plans
        spectrum, signal = (plan.source, plan.target) if problem.inverse else (plan.target, plan.source)
        assert spectrum == (problem.spectrum_size, 7, 1)
        assert signal == (problem.size, 1, problem.points)

    @every_direction
    def test_pads_with_zeros_again_after_a_run(self, direction: str, asked: Asked) -> None:
        """The library may leave anything in its buffers."""
        problem = Fft((6, 8), 3, valid=(4, 5), **DIRECTIONS[direction])
        assert_right(problem, DeviceKind.CUDA)
        assert asked.plans[0].batch == 3

    @every_direction
    def test_has_no_reversed_order(self, direction: str, asked: Asked) -> None:
        problem = Fft((8,), 3, order=Order.REVERSED, **DIRECTIONS[direction])
        assert peers(problem, random_operands(problem, 0), DeviceKind.CUDA) == ()
        assert asked.plans == []


@pytest.mark.parametrize("kind", DeviceKind)
@pytest.mark.parametrize(
    "problem",
    [
        Fft((8, 8), 24, tiling=Tiling((3, 2), (6, 5), (-1, 0), (17, 11), 4)),
        Fft((8, 8), 24, Kind.C2R, layout=Layout.FREQUENCY, product=Product(4, 6, 2)),
    ],
    ids=["tiles", "product"],
)
def test_none_takes_tiles_of_planes_or_products(problem: Fft, kind: DeviceKind) -> None:
    """Warming up for them, on one plane, does not fail either."""
    assert not peers(problem, random_operands(problem, 0), kind)
    warm_up(problem, random_operands(problem, 0), kind)


def test_without_either_library_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def find_none(name: str) -> None:
        names.append(name)

    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", find_none)
    problem = Fft((8,), 3)
    for kind, package in ((DeviceKind.HOST, "scipy"), (DeviceKind.CUDA, "cupy")):
        assert peers(problem, random_operands(problem, 0), kind) == ()
        assert names.pop() == package
    assert names == []
