"""Fourier transforms on a GPU: every family and kind, large batches, arrays of PyTorch and CuPy, cuFFT beside them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import warpsmith as ws
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft, Layout, Product, Tiling
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan, open_runtime
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.registry import peers, random_operands, reference

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
ACCURACY = 5e-7
"""Largest relative L2 error."""

DIRECTIONS: dict[str, dict[str, Any]] = {
    "r2c": {"kind": "r2c"},
    "c2r": {"kind": "c2r"},
    "c2c": {"kind": "c2c"},
    "inverse": {"kind": "c2c", "inverse": True},
}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
Values = NDArray[Any]


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments."""
    return Fft(size, batch, **fields)


POWERS = (8, 16, 32, 64, 128, 256, 512)
SQUARES = ((8, 8), (16, 16), (32, 32), (64, 64), (128, 128))

SPREAD = (
    fft(9, 4097),
    fft(60, 999, valid=57, norm="ortho"),
    fft(105, 513, kind="c2r", layout="frequency"),
    fft(243, 301, kind="c2c", norm="forward"),
    fft(31, 77, kind="c2c", inverse=True),
    fft(128, 1001, order="reversed", kind="c2c"),
    fft(64, 1, kind="c2r", order="reversed"),
    fft((12, 13), 655, valid=(9, 7)),
    fft((32, 32), 1023, valid=(27, 27), layout="frequency"),
    fft((16, 32), 333, kind="c2r", layout="transposed", order="reversed"),
    fft((64, 64), 67, kind="c2r", valid=(57, 57)),
    fft((5, 64), 129, layout="transposed"),
    fft((64, 64), 2200, valid=(9, 9), layout="frequency"),  # so many that tiles prefetch each other's data
    fft((64, 64), 2200, kind="c2r", valid=(56, 56), layout="frequency"),
    fft((32, 32), 5000, layout="frequency", start=(31, 31), valid=(3, 3)),
    fft((36, 40), 255, valid=(27, 30), border="reflect:3+2x4", layout="frequency"),
    fft((112, 112), 33, valid=(90, 91), border="circular:10+11x9+12", layout="frequency"),
    fft((128, 32), 33, kind="c2c", inverse=True, valid=(118, 32)),
    fft((32, 36), 420, layout="frequency", tiling=Tiling((4, 3), (26, 30), (-3, -2), (103, 90), 7)),
    fft((27, 15), 55, valid=(20, 9), layout="frequency", tiling=Tiling((5, 1), (20, 9), (2, -1), (99, 7))),
    fft(
        (16, 20),
        480,
        kind="c2r",
        valid=(12, 14),
        layout="frequency",
        tiling=Tiling((6, 4), (12, 14), (0, 0), (70, 56), 5),
    ),
    fft((32, 40), 4000, kind="c2r", valid=(27, 30), layout="frequency", product=Product(40, 100, 1, offset=True)),
    fft(
        (16, 20),
        576,
        kind="c2r",
        valid=(12, 14),
        layout="frequency",
        tiling=Tiling((6, 4), (12, 14), (0, 0), (70, 56), 6),
        product=Product(96, 6, 3),
    ),
)


def some_configs(family: Family, problem: Fft, device: Device, count: int) -> list[Config]:
    """The default config, up to `count` random ones, the same in every run, and one with bulk copies."""
    space, rng = family.space(problem, device), random.Random(problem.key())
    default = family.default(problem, device)
    in_bulk = {each.name: ["bulk"] for each in space.parameters if "bulk" in each.values}
    spaces = [space] * count + [space.narrowed(in_bulk)] * bool(in_bulk)
    return list(dict.fromkeys([default, *(each.drawn(rng) or default for each in spaces)]))


CheckConfigs = Callable[[Iterable[Fft], Callable[[Family, Fft, Device], Iterable[Config]]], None]


def some(count: int) -> Callable[[Family, Fft, Device], list[Config]]:
    return functools.partial(some_configs, count=count)


class TestConfigs:
    @every_direction
    def test_of_every_power_of_two(self, check_configs: CheckConfigs, direction: str) -> None:
        check_configs([fft(n, (1 << 16) // n + 1, **DIRECTIONS[direction]) for n in POWERS], some(3))

    @every_direction
    def test_of_every_square(self, check_configs: CheckConfigs, direction: str) -> None:
        check_configs([fft(size, (1 << 17) // size[0] ** 2 + 1, **DIRECTIONS[direction]) for size in SQUARES], some(3))

    def test_of_every_part_layout_order_and_norm(self, check_configs: CheckConfigs) -> None:
        check_configs(SPREAD, some(6))

    @pytest.mark.parametrize("batch", [1, 2, 3, 7])
    def test_of_every_batch(self, check_configs: CheckConfigs, batch: int) -> None:
        sizes = (8, 15, 64, (8, 8), (9, 5))
        check_configs([fft(size, batch, kind=kind) for size in sizes for kind in ("r2c", "c2r")], some(1))

    @pytest.mark.parametrize(
        "problem", [fft(256, 1025), fft((32, 32), 515, kind="c2r", valid=(27, 27)), fft((32, 16), 130, kind="c2c")]
    )
    def test_random_ones(self, check_configs: CheckConfigs, problem: Fft) -> None:
        check_configs([problem], some(25))


def plans(problem: Fft) -> list[Plan]:
    """The default config of each family."""
    made = []
    for family in families_for(problem, CUDA.device()):
        program = family.program(problem, family.default(problem, CUDA.device()))
        match = Match(MatchKind.DEFAULT, program, None, ())
        made.append(Plan.load(problem, match, CUDA.compiler().compile_program(program), open_runtime(CUDA)))
    return made


def given(problem: Fft, seed: int = 3) -> Values:
    """The input of a problem."""
    return random_operands(problem, seed)[problem.inputs[0].name]


def check(problem: Fft, result: Values, source: Values) -> None:
    of = reference(problem, {problem.inputs[0].name: source})
    assert result.shape == problem.output.shape
    verdict = verify(result, of, problem.output.dtype)
    assert verdict.right, verdict.message
    error = np.linalg.norm(result.view(np.float32).ravel() - of.expected.ravel())
    assert error <= ACCURACY * np.linalg.norm(of.expected)


class TestAccuracy:
    @every_direction
    def test_of_the_defaults(self, direction: str) -> None:
        cupy = pytest.importorskip("cupy")
        for size in (*POWERS, 12, 27, 60, 105, 210, 243, *SQUARES, (12, 13)):
            problem = fft(size, 101, **DIRECTIONS[direction])
            source = given(problem)
            for plan in plans(problem):
                check(problem, cupy.asnumpy(plan(cupy.asarray(source))), source)

    def test_of_any_complex_input_c2r_is_what_irfftn_computes(self) -> None:
        cupy = pytest.importorskip("cupy")
        for problem in (fft(64, 33, kind="c2r"), fft(15, 33, kind="c2r"), fft((16, 32), 33, kind="c2r")):
            shape, generator = problem.inputs[0].components.shape, np.random.default_rng(1)
            source = generator.standard_normal(shape, np.float32).view(np.complex64)[..., 0]
            for plan in plans(problem):
                check(problem, cupy.asnumpy(plan(cupy.asarray(source))), source)


class TestLargeBatches:
    @pytest.mark.parametrize("n", [8, 16])
    @pytest.mark.parametrize("kind", ["r2c", "c2r"])
    @pytest.mark.parametrize("layout", ["batch", "frequency"])
    def test_of_more_than_four_million(self, n: int, kind: str, layout: str) -> None:
        """The batch is odd. Outputs are filled with NaN first, so that unwritten elements show."""
        cupy = pytest.importorskip("cupy")
        batch = (1 << 22) + 5
        problem = fft(n, batch, kind=kind, layout=layout)
        is_last = [layout == "frequency" and operand.name == "spectrum" for operand in problem.operands]
        source = cupy.random.default_rng(0).standard_normal(problem.inputs[0].components.shape, dtype="float32")
        if kind == "c2r":
            source = source.view("complex64")[..., 0]
        samples = cupy.asarray(np.r_[0:100, batch // 2 - 50 : batch // 2 + 50, batch - 100 : batch])
        # Batch first, whatever the layout.
        some = cupy.asnumpy((source.T if is_last[0] else source)[samples]).astype(complex if kind == "c2r" else float)
        expected = np.fft.rfft(some) if kind == "r2c" else np.fft.irfft(some, n)
        for plan in plans(problem):
            result = cupy.full(problem.output.shape, cupy.nan, problem.output.dtype.value)
            plan(source, out=result)
            assert bool(cupy.isfinite(result).all())
            got = cupy.asnumpy((result.T if is_last[1] else result)[samples])
            assert np.linalg.norm(got - expected) <= ACCURACY * np.linalg.norm(expected)


class TestPlan:
    @pytest.mark.parametrize(
        "problem", [fft(64, 33), fft((32, 32), 17, kind="c2r", layout="frequency"), fft(60, 9, kind="c2c")]
    )
    def test_arrays_of_cupy_keep_their_kind_and_stream(self, problem: Fft) -> None:
        cupy = pytest.importorskip("cupy")
        source, plan = given(problem), ws.plan(problem, "cuda:0")
        with cupy.cuda.Stream(non_blocking=True):
            result = plan(cupy.asarray(source))
            assert isinstance(result, cupy.ndarray)
            assert str(result.dtype) == problem.output.dtype.value
            check(problem, cupy.asnumpy(result), source)
        stream, out = cupy.cuda.Stream(non_blocking=True), cupy.full_like(result, cupy.nan)
        for requested in (stream, stream.ptr):
            assert plan(cupy.asarray(source), out=out, stream=requested) is out
            stream.synchronize()
            check(problem, cupy.asnumpy(out), source)

    @pytest.mark.parametrize(
        "problem", [fft(64, 33), fft((32, 32), 17, kind="c2r", valid=(27, 27)), fft(60, 9, kind="c2c", inverse=True)]
    )
    def test_tensors_of_torch_out_stream_and_a_captured_graph(self, problem: Fft) -> None:
        torch = pytest.importorskip("torch")
        first, plan = given(problem), ws.plan(problem, "cuda:0")
        source = torch.from_numpy(first).cuda()
        target = torch.empty(problem.output.shape, dtype=getattr(torch, problem.output.dtype.value), device="cuda")
        assert plan(source, out=target) is target
        check(problem, target.cpu().numpy(), first)
        made = plan(source)
        assert isinstance(made, torch.Tensor)
        assert made.dtype == target.dtype

        stream = torch.cuda.Stream()
        target.zero_()
        plan(source, out=target, stream=stream)
        stream.synchronize()
        check(problem, target.cpu().numpy(), first)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plan(source, out=target)
        fresh = given(problem, seed=4)
        source.copy_(torch.from_numpy(fresh))
        graph.replay()
        check(problem, target.cpu().numpy(), fresh)

    def test_tuned_it_stands_beside_cufft(self, tmp_path: Path) -> None:
        pytest.importorskip("cupy")
        problem, store = fft((32, 32), 1024, valid=(27, 27)), str(tmp_path / "store.db")
        report = ws.tune(problem, "cuda:0", trials=12, store=store)
        assert report.record is not None
        assert any(baseline.name.startswith("cufft ") for baseline in report.record.baselines)
        assert ws.query(problem, "cuda:0", store=store).kind == "exact"


class TestCufft:
    @every_direction
    def test_computes_the_problem_again_and_again(self, direction: str) -> None:
        """cuFFT may use an input of spectra with custom strides as scratch memory."""
        pytest.importorskip("cupy")
        shapes: list[dict[str, Any]] = [
            {"size": 64},
            {"size": 60, "valid": 57},
            {"size": 64, "layout": Layout.FREQUENCY},
            {"size": (32, 32), "valid": (27, 27)},
            {"size": (12, 16), "layout": Layout.TRANSPOSED},
            {"size": (16, 15), "layout": Layout.FREQUENCY, "norm": "ortho"},
        ]
        for shape in shapes:
            problem = fft(batch=129, **shape, **DIRECTIONS[direction])
            operands = random_operands(problem, 0)
            (peer,) = peers(problem, operands, DeviceKind.CUDA)
            for _ in range(3):
                peer.renew()
                peer.run()
            verdict = verify(peer.result(), reference(problem, operands), problem.output.dtype)
            assert verdict.right, f"{problem.key()}: {verdict.message}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    small = [fft(n, 9, **direction) for n in (8, 27, 64, 256) for direction in DIRECTIONS.values()]
    small += [fft(size, 5, **direction) for size in ((8, 8), (32, 32), (12, 13)) for direction in DIRECTIONS.values()]
    cases = [
        (problem, family.program(problem, config))
        for problem in (*small, *SPREAD)
        for family in families_for(problem, device)
        for config in some_configs(family, problem, device, 1)
    ]
    check_under_sanitizer(tool, device, cases)
