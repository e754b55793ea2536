"""Image filters on a GPU: tuning, every family and border, faults, arrays of PyTorch and CuPy, bundles."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.overlap_family import Filter2dOverlapSave
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config, Space
from warpsmith.store.record import COPY, Failure, FailureKind, Measurement
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.timing_policy import Launching
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers.deadlines import Deadlines

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
PROBLEM = Filter2d(image=(480, 640), filter=(5, 5), border=Border.REFLECT)

LARGER = (
    Filter2d(image=(1080, 1921), filter=(3, 3), border=Border.REFLECT, planes=2),
    Filter2d(image=(2160, 3840), filter=(5, 5), dtype=DType.UINT8, channels=3, border=Border.MIRROR),
    Filter2d(image=(1080, 1920), filter=(7, 7), dtype=DType.FLOAT16, border=Border.CONSTANT, cval=0.5, pitch=4096),
    Filter2d(image=(768, 1024), filter=(15, 15), border=Border.NEAREST, convolve=True),
    Filter2d(image=(768, 1030), filter=(15, 15), border=Border.MIRROR, accuracy="normwise"),
    Filter2d(image=(1000, 1003), filter=(5, 5), filters=6, dtype=DType.UINT8, result_dtype=DType.FLOAT32),
    Filter2d(image=(400, 512), filter=(31, 31), border=Border.WRAP, anchor=(0, 30)),
)
"""Typical images: enough blocks to fill a GPU, vectors of every width, rows that are not aligned."""
THIN = (
    Filter2d(image=(1000, 1003), filter=(1, 45), border=Border.MIRROR),
    Filter2d(image=(1000, 1024), filter=(1, 31), dtype=DType.UINT8, channels=3),
    Filter2d(image=(1000, 1001), filter=(63, 3), border=Border.WRAP, dtype=DType.FLOAT16),
    Filter2d(image=(1000, 1024), filter=(31, 2), border=Border.NEAREST),
    Filter2d(image=(700, 1003), filter=(63, 60), border=Border.CONSTANT, cval=0.5),
    Filter2d(image=(700, 1024), filter=(40, 37), dtype=DType.UINT8, convolve=True),
)
"""Filters that are wide, tall, or too large to be written out."""
TRANSFORMED = (
    Filter2d(image=(1000, 1111), filter=(31, 31), accuracy="imagewise"),
    Filter2d(image=(700, 901), filter=(65, 48), border=Border.MIRROR, dtype=DType.FLOAT16, accuracy="imagewise"),
    Filter2d(
        image=(300, 310),
        filter=(13, 14),
        border=Border.REFLECT,
        planes=3,
        filters=2,
        convolve=True,
        accuracy="imagewise",
    ),
    Filter2d(image=(500, 640), filter=(17, 17), border=Border.NEAREST, dtype=DType.UINT8, accuracy="imagewise"),
    Filter2d(image=(1000, 1111), filter=(65, 48), accuracy="imagewise", nonfinite="any"),
    Filter2d(image=(700, 901), filter=(101, 103), border=Border.WRAP, accuracy="imagewise", nonfinite="any"),
    Filter2d(
        image=(400, 410),
        filter=(33, 34),
        border=Border.CONSTANT,
        cval=0.5,
        dtype=DType.FLOAT16,
        planes=3,
        filters=2,
        convolve=True,
        accuracy="imagewise",
        nonfinite="any",
    ),
)
"""Filters for families with transforms. Random configs of other families unroll so many taps that compiling takes
minutes.
"""
LONG = 15_000
"""Most unrolled multiply-adds (`Family.unrolled`) of random configs, which take a compiler 5 s alone. A config of
47,000, five filters of 23x17 in constant memory, takes 15 s alone, and more than 240 s beside 20 tests that compile.
"""
DRAWS = 50
"""Tries to draw a config that is not longer."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a tuned winner for PROBLEM."""
    location = str(tmp_path_factory.mktemp("tuned") / "store.db")
    report = ws.tune(PROBLEM, "cuda:0", trials=24, store=location)
    assert report.tried == 24
    assert report.record is not None
    return location


def correlate(problem: Filter2d, image: Any, weights: Any) -> Any:
    ndimage = pytest.importorskip("scipy.ndimage")
    return ndimage.correlate(image.astype(np.float64), weights.astype(np.float64), mode=problem.border.value)


def inputs(problem: Filter2d, seed: int = 3) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    image = generator.standard_normal(problem.image, dtype=np.float32)
    return image, generator.standard_normal(problem.filter, dtype=np.float32)


def check(problem: Filter2d, result: Any, image: Any, weights: Any) -> None:
    scale = correlate(problem, np.abs(image), np.abs(weights))
    assert np.all(np.abs(result - correlate(problem, image, weights)) <= 1e-6 * scale)


def test_the_winner_is_verified_and_stands_beside_the_peers(store: str) -> None:
    match = ws.query(PROBLEM, "cuda:0", store=store)
    assert match.kind == "exact"
    assert match.record is not None
    outcome = match.record.trial.outcome
    assert isinstance(outcome, Measurement)
    assert outcome.max_error <= 1e-6
    assert outcome.registers is not None
    names = {baseline.name.split()[0] for baseline in match.record.baselines}
    assert COPY in names
    for library in ("cupy", "torch"):
        if pytest.importorskip(library):
            assert {"cupy": "cupy", "torch": "cudnn"}[library] in names or PROBLEM.border is Border.REFLECT


def some_configs(family: Family, problem: Filter2d, device: Device, count: int) -> list[Config]:
    """The default config and up to `count` random ones of at most LONG multiply-adds, the same in every run. The ways
    to read the image take turns.
    """
    space, rng = family.space(problem, device), random.Random(problem.key())
    path = next(each for each in space.parameters if each.name == "path")
    first = rng.randrange(len(path.values))
    chosen = [family.default(problem, device)]
    for turn in range(count):
        wanted = dataclasses.replace(path, values=(path.values[(first + turn) % len(path.values)],))
        narrowed = Space(tuple(wanted if each is path else each for each in space.parameters), space.constraints)
        drawn = filter(None, (narrowed.drawn(rng) for _ in range(DRAWS)))
        chosen.append(next((each for each in drawn if family.unrolled(problem, each) <= LONG), chosen[0]))
    return list(dict.fromkeys(chosen))


CheckConfigs = Callable[..., None]


SOBEL = (1.0, 0.0, -1.0, 2.0, 0.0, -2.0, 1.0, 0.0, -1.0)


def some(count: int) -> Callable[[Family, Filter2d, Device], list[Config]]:
    return functools.partial(some_configs, count=count)


@pytest.mark.parametrize("border", Border)
def test_every_family_on_whatever_a_problem_can_be(
    border: Border, spread: tuple[Filter2d, ...], check_configs: CheckConfigs
) -> None:
    check_configs([each for each in spread if each.border is border], some(1))


@pytest.mark.parametrize("problem", LARGER, ids=lambda problem: problem.key().replace(" ", ","))
def test_random_configs_of_every_family(problem: Filter2d, check_configs: CheckConfigs) -> None:
    check_configs([problem], some(20))


@pytest.mark.parametrize("problem", THIN, ids=lambda problem: problem.key().replace(" ", ","))
def test_configs_of_thin_and_large_filters(problem: Filter2d, check_configs: CheckConfigs) -> None:
    check_configs([problem], some(4))


@pytest.mark.parametrize("problem", TRANSFORMED, ids=lambda problem: problem.key().replace(" ", ","))
def test_random_configs_of_filters_by_transforms(problem: Filter2d, check_configs: CheckConfigs) -> None:
    def configs(family: Family, problem: Filter2d, device: Device) -> list[Config]:
        by_transforms = isinstance(family, Filter2dOverlapSave)
        return some_configs(family, problem, device, 20) if by_transforms else []

    check_configs([problem], configs)


def test_nvcc_compiles_the_same_text(check_configs: CheckConfigs) -> None:
    plain = Filter2d(image=(333, 416), filter=(3, 3), border=Border.WRAP)
    half = Filter2d(image=(333, 416), filter=(3, 3), dtype=DType.FLOAT16, result_dtype=DType.UINT8, channels=4)
    check_configs([plain, half], some(3), CompilerChoice.NVCC)


def test_known_weights_as_literals(check_configs: CheckConfigs) -> None:
    def literals(family: Family, problem: Filter2d, device: Device) -> list[Config]:
        found = [each for each in some_configs(family, problem, device, 60) if each.text("weights") == "literal"]
        assert found
        return found[:3]

    known = Filter2d(image=(333, 444), filter=(3, 3), border=Border.MIRROR, weights=SOBEL)
    check_configs([known], literals)


def test_a_plan_of_known_weights() -> None:
    cupy = pytest.importorskip("cupy")
    problem = Filter2d(image=(333, 444), filter=(3, 3), border=Border.MIRROR, weights=SOBEL)
    image, _ = inputs(problem)
    plan = ws.plan(problem, "cuda:0")
    result = cupy.asnumpy(plan(cupy.asarray(image)))
    check(problem, result, image, np.array(SOBEL, np.float32).reshape(3, 3))


class TestPlantedFaults:
    PROBLEM = Filter2d(image=(48, 64), filter=(3, 3))
    FAULTS = ("none", "out-of-bounds", "never-ends", "wrong", "does-not-compile", "crashes")
    DEADLINES = Deadlines(compile_s=60, first_run_s=20, least_run_s=5, run_factor=5)

    def outcomes(self, store: Store, families: tuple[Family, ...], **options: Any) -> dict[str, Any]:
        """Outcomes of the planted family's trials after a run, by fault."""
        tune(
            self.PROBLEM,
            (CUDA,),
            store,
            TuneOptions(deadlines=self.DEADLINES, **options),
            SilentProgress(),
            families,
        )
        trials = store.trials(self.PROBLEM, CUDA.device())
        return {trial.config.text("fault"): trial.outcome for trial in trials if trial.family == "planted"}

    def test_each_is_recorded_as_what_it_is_and_the_search_goes_on(self, tmp_path: Path, planted: Any) -> None:
        with Store.open(str(tmp_path / "store.db"), write=True) as store:
            outcomes = self.outcomes(store, (planted(*self.FAULTS),), trials=len(self.FAULTS))
            assert {fault: each.kind for fault, each in outcomes.items() if isinstance(each, Failure)} == {
                "out-of-bounds": FailureKind.OUT_OF_BOUNDS,
                "never-ends": FailureKind.TIMEOUT,
                "wrong": FailureKind.WRONG,
                "does-not-compile": FailureKind.COMPILE,
                "crashes": FailureKind.CRASH,
            }
            assert isinstance(outcomes["none"], Measurement)
            assert store.winner(self.PROBLEM.key(), CUDA.device().key()) is not None
            self.outcomes(store, (planted(*self.FAULTS), Filter2dPlain()), trials=22)
            trials = store.trials(self.PROBLEM, CUDA.device())
            assert sum(isinstance(trial.outcome, Measurement) for trial in trials) == 22 - len(self.FAULTS) + 1

    def test_those_that_harm_are_not_run_again(self, tmp_path: Path, planted: Any) -> None:
        """They do not run under another compiler either, although no trial counts as tried there."""
        faults = ("none", "crashes", "out-of-bounds", "wrong")
        with Store.open(str(tmp_path / "store.db"), write=True) as store:
            self.outcomes(store, (planted(*faults),), trials=4)
            assert len(store.poisoned(CUDA.device())) == 2
            outcomes = self.outcomes(store, (planted(*faults),), trials=4, seed=5, compiler=CompilerChoice.NVCC)
            assert {
                fault: each.message.startswith("not run again: ") for fault, each in outcomes.items() if fault != "none"
            } == {
                "crashes": True,
                "out-of-bounds": True,
                "wrong": False,
            }


class TestTimingConditions:
    def conditions(self, store: Store, **options: Any) -> str:
        """Timing conditions of the winner of a run."""
        report = tune(PROBLEM, (CUDA,), store, TuneOptions(trials=12, **options), SilentProgress())
        assert report.record is not None
        assert isinstance(report.record.trial.outcome, Measurement)
        self.reused = report.reused
        return report.record.trial.outcome.timing.conditions

    def failures(self, store: Store) -> int:
        """Number of failures, which count under all conditions; on a busy machine candidates may exceed deadlines."""
        return sum(isinstance(trial.outcome, Failure) for trial in store.trials(PROBLEM, CUDA.device()))

    def test_are_chosen_stored_and_never_mixed(self, tmp_path: Path) -> None:
        with Store.open(str(tmp_path / "store.db"), write=True) as store:
            assert self.conditions(store) == "queued first, in turns, cold L2"
            failed = self.failures(store)
            assert self.conditions(store, cold=False) == "queued first, in turns, warm caches"
            assert self.reused == failed < 6
            failed = self.failures(store)
            assert self.conditions(store, cold=False, launching=Launching.GRAPH) == "CUDA graph, in turns, warm caches"
            assert self.reused == failed < 6
            assert self.conditions(store, cold=False, launching=Launching.GRAPH) == "CUDA graph, in turns, warm caches"
            assert self.reused == 12


def test_all_devices_search_together_and_say_which(tmp_path: Path) -> None:
    devices = DeviceRef.parse_all("all")
    with Store.open(str(tmp_path / "store.db"), write=True) as store:
        report = tune(PROBLEM, devices, store, TuneOptions(trials=30), SilentProgress())
        trials = store.trials(PROBLEM, CUDA.device())
    assert report.costs.devices == len(devices)
    ran_on = {trial.gpu for trial in trials if isinstance(trial.outcome, Measurement)}
    assert ran_on == {str(each) for each in devices}


def test_arrays_of_cupy_keep_their_kind_and_stream(store: str) -> None:
    cupy = pytest.importorskip("cupy")
    image, weights = inputs(PROBLEM)
    plan = ws.plan(PROBLEM, "cuda:0", store=store)
    with cupy.cuda.Stream(non_blocking=True):
        result = plan(cupy.asarray(image), weights)
        assert isinstance(result, cupy.ndarray)
        check(PROBLEM, cupy.asnumpy(result), image, weights)


def test_tensors_of_torch_out_and_a_captured_graph(store: str) -> None:
    torch = pytest.importorskip("torch")
    image, weights = inputs(PROBLEM)
    plan = ws.plan(PROBLEM, "cuda:0", store=store)
    source, target = torch.from_numpy(image).cuda(), torch.empty(PROBLEM.image, device="cuda")
    assert plan(source, torch.from_numpy(weights).cuda(), out=target) is target
    check(PROBLEM, target.cpu().numpy(), image, weights)
    assert isinstance(plan(source, weights), torch.Tensor)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(source, weights, out=target)
    fresh, _ = inputs(PROBLEM, seed=4)
    source.copy_(torch.from_numpy(fresh))
    graph.replay()
    check(PROBLEM, target.cpu().numpy(), fresh, weights)


def test_a_bundle_runs_its_cubin(store: str, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    report = ws.export([PROBLEM], tmp_path / "bundle", store=store)
    assert (report.kernels, report.cubins, report.skipped) == (1, 1, ())
    plan = ws.load_bundle(tmp_path / "bundle").plan(PROBLEM, "cuda:0")
    assert plan.match.kind == "exact"
    image, weights = inputs(PROBLEM)
    check(PROBLEM, cupy.asnumpy(plan(cupy.asarray(image), weights)), image, weights)
