"""The Python API at its edges: arguments and results of a plan, and errors in one clear line."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

import exhaustive
import warpsmith as ws
from builders import winner
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, BundleError, DeviceError, NothingStored, StoreError, WarpsmithError
from warpsmith.plans.match import MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store import location
from warpsmith.store.store import Store

pytestmark = pytest.mark.usefixtures("compile_unoptimised")

PROBLEM = ws.Filter2d(image=(37, 53), filter=(3, 5))
HOST = DeviceRef.parse("host").device()
without_gpu = pytest.mark.skipif(cuda_device_count() > 0, reason="a GPU is here")
Floats = NDArray[np.float32]


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).random(shape, dtype=np.float32) - np.float32(0.5)


def expected(problem: ws.Filter2d, image: Floats, weights: Floats) -> NDArray[np.float64]:
    """Result of SciPy in float64, plane by plane."""
    rows, columns = problem.image
    r, s = problem.filter
    planes = []
    for plane in image.reshape(-1, rows, columns).astype(float):
        mode = "constant" if problem.border is ws.Border.VALID else problem.border.value
        full = ndimage.correlate(plane, weights.astype(float), mode=mode, cval=problem.cval)
        valid = full[r // 2 : r // 2 + rows - r + 1, s // 2 : s // 2 + columns - s + 1]
        planes.append(valid if problem.border is ws.Border.VALID else full)
    return np.stack(planes).reshape(problem.output.shape)


@pytest.fixture
def store(tmp_path: Path, made_file: Path) -> str:
    """A store of one winner."""
    path = str(shutil.copy(made_file, tmp_path / "one.db"))
    with Store.open(path, write=True) as opened:
        opened.put_winner(winner(PROBLEM, device=HOST))
    return path


@pytest.fixture
def plan(store: str) -> Plan:
    return ws.plan(PROBLEM, "host", store=store)


class TestPlan:
    @exhaustive.one_in(2)
    @pytest.mark.parametrize("border", ws.Border)
    @pytest.mark.parametrize(("planes", "filter_size"), [(1, (3, 5)), (2, (4, 2))])
    def test_computes_what_scipy_does(self, border: ws.Border, planes: int, filter_size: tuple[int, int]) -> None:
        problem = ws.Filter2d(image=(37, 53), filter=filter_size, planes=planes, border=border, cval=0.25)
        plan = ws.plan(problem, "host")
        assert plan.match.kind is MatchKind.DEFAULT
        image, weights = random(*problem.inputs[0].shape), random(*filter_size, seed=1)
        result = plan(image, weights)
        reference = expected(problem, image, weights)
        assert result.dtype == np.float32
        assert result.shape == reference.shape
        assert np.abs(result - reference).max() <= 1e-6

    def test_says_how_it_was_found(self, plan: Plan, store: str) -> None:
        assert plan.match.kind is MatchKind.EXACT
        assert plan.match.record == winner(PROBLEM, device=HOST)
        near = ws.plan(dataclasses.replace(PROBLEM, image=(40, 53)), "host", store=store)
        assert near.match.kind is MatchKind.NEAR
        image, weights = random(40, 53), random(3, 5, seed=1)
        assert np.abs(near(image, weights) - expected(near.problem, image, weights)).max() <= 1e-6  # type: ignore[arg-type]

    def test_takes_known_weights_from_the_problem(self) -> None:
        weights = random(3, 5, seed=1)
        problem = dataclasses.replace(PROBLEM, weights=tuple(map(float, weights.ravel())))
        plan, image = ws.plan(problem, "host"), random(37, 53)
        assert np.abs(plan(image) - expected(problem, image, weights)).max() <= 1e-6
        with pytest.raises(BadArgument, match="call it with the image alone"):
            plan(image, weights)
        with pytest.raises(BadArgument, match="call it with the image alone"):
            plan()

    def test_writes_to_out_and_returns_it(self, plan: Plan) -> None:
        image, weights = random(37, 53), random(3, 5, seed=1)
        out = np.full((35, 49), np.nan, dtype=np.float32)
        assert plan(image, weights, out=out) is out
        assert np.array_equal(out, plan(image, weights))

    def test_makes_a_new_array_each_time(self, plan: Plan) -> None:
        weights = random(3, 5, seed=1)
        first = plan(random(37, 53), weights)
        kept = first.copy()
        second = plan(random(37, 53, seed=2), weights)
        assert np.array_equal(first, kept)
        assert not np.array_equal(first, second)

    def test_leaves_its_inputs_alone(self, plan: Plan) -> None:
        image, weights = random(37, 53), random(3, 5, seed=1)
        image.flags.writeable = weights.flags.writeable = False
        before = image.copy(), weights.copy()
        plan(image, weights)
        assert np.array_equal(image, before[0])
        assert np.array_equal(weights, before[1])

    def test_takes_weights_as_lists(self, plan: Plan) -> None:
        image, weights = random(37, 53), random(3, 5, seed=1)
        for same in (weights.tolist(), weights.ravel(), weights.astype(np.float64), np.asfortranarray(weights)):
            assert np.array_equal(plan(image, same), plan(image, weights))

    def test_passes_on_what_is_not_a_number(self, plan: Plan) -> None:
        image = random(37, 53)
        image[10, 10] = np.nan
        result = plan(image, np.ones((3, 5), np.float32))
        assert np.isnan(result[8:11, 6:11]).all()
        assert np.isnan(result).sum() == 15


GOOD_IMAGE, GOOD_WEIGHTS = random(37, 53), random(3, 5, seed=1)


class TestPlanRefuses:
    @pytest.mark.parametrize(
        ("image", "why"),
        [
            (random(53, 37), "image: expected float32 of shape (37, 53); got float32 of shape (53, 37)"),
            (random(1, 37, 53), "got float32 of shape (1, 37, 53)"),
            (random(0), "got float32 of shape (0,)"),
            (GOOD_IMAGE.astype(np.float64), "got float64 of shape (37, 53)"),
            (GOOD_IMAGE.astype(np.uint8), "got uint8"),
            (GOOD_IMAGE.astype(">f4"), "image: expected float32"),
            (np.asfortranarray(GOOD_IMAGE), "image: must be C-contiguous; copy it first"),
            (random(37, 106)[:, ::2], "image: must be C-contiguous"),
            (random(37, 54)[:, :53], "image: must be C-contiguous"),
            (random(37 * 53 + 1)[1:].reshape(37, 53), "image: must start at a multiple of 16 bytes"),
            (GOOD_IMAGE.tolist(), "image: expected a NumPy array; got list"),
            (None, "image: expected a NumPy array; got NoneType"),
            ("photo.png", "image: expected a NumPy array; got str"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_image(self, plan: Plan, image: Any, why: str) -> None:
        with pytest.raises(BadArgument) as caught:
            plan(image, GOOD_WEIGHTS)
        assert why in str(caught.value)
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize(
        ("weights", "why"),
        [
            (random(5, 3), "weights: expected shape (3, 5); got (5, 3)"),
            (random(14), "weights: expected shape (3, 5); got (14,)"),
            (1.0, "weights: expected shape (3, 5); got ()"),
            (np.ones((3, 5), complex), "weights: expected real numbers; got complex128"),
            ([["a"] * 5] * 3, "weights: expected real numbers"),
            ([[1, 2], [3]], "weights: cannot be read as an array of numbers"),
            (None, "weights: expected real numbers; got object"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_weights(self, plan: Plan, weights: Any, why: str) -> None:
        with pytest.raises(BadArgument) as caught:
            plan(GOOD_IMAGE, weights)
        assert why in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_another_number_of_arrays(self, plan: Plan) -> None:
        for arrays in ((), (GOOD_IMAGE,), (GOOD_IMAGE, GOOD_WEIGHTS, GOOD_WEIGHTS)):
            with pytest.raises(BadArgument, match=f"takes image, weights; got {len(arrays)} arrays"):
                plan(*arrays)

    def test_out_that_is_read_only(self, plan: Plan) -> None:
        out = np.zeros((35, 49), np.float32)
        out.flags.writeable = False
        with pytest.raises(BadArgument, match="result: is read-only"):
            plan(GOOD_IMAGE, GOOD_WEIGHTS, out=out)
        assert not out.any()

    @pytest.mark.parametrize(
        ("out", "why"),
        [
            (
                np.zeros((37, 53), np.float32),
                "result: expected float32 of shape (35, 49); got float32 of shape (37, 53)",
            ),
            (np.zeros((35, 49)), "got float64"),
            (np.zeros((49, 35), np.float32).T, "result: must be C-contiguous"),
            ([], "result: expected a NumPy array"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_out(self, plan: Plan, out: Any, why: str) -> None:
        before = np.array(out)
        with pytest.raises(BadArgument) as caught:
            plan(GOOD_IMAGE, GOOD_WEIGHTS, out=out)
        assert why in str(caught.value)
        assert np.array_equal(out, before)

    def test_out_that_shares_memory_with_the_image(self) -> None:
        plan = ws.plan(ws.Filter2d(image=(37, 52), filter=(3, 5), border="reflect"), "host")  # type: ignore[arg-type]
        image, weights = random(37, 52), random(3, 5, seed=1)
        both = np.empty((38, 52), np.float32)
        for same, out in ((image, image), (both[:37], both[1:]), (both[1:], both[:37])):
            with pytest.raises(BadArgument, match="out: shares memory with image"):
                plan(same, weights, out=out)
        apart = np.empty((74, 52), np.float32)
        assert plan(apart[:37], weights, out=apart[37:]) is not None

    def test_works_on_after_a_refusal(self, plan: Plan) -> None:
        with pytest.raises(BadArgument):
            plan(GOOD_IMAGE)
        result = plan(GOOD_IMAGE, GOOD_WEIGHTS)
        assert np.abs(result - expected(PROBLEM, GOOD_IMAGE, GOOD_WEIGHTS)).max() <= 1e-6


class TestProblem:
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"image": (0, 5)}, "image must be"),
            ({"image": (5,)}, "image must be"),
            ({"image": (-5, 5)}, "image must be"),
            ({"filter": (3, 0)}, "filter must be"),
            ({"filter": (3, 54)}, r"the filter \(3x54\) is larger than the image \(37x53\)"),
            ({"border": "torus"}, "unknown border 'torus'"),
            ({"dtype": "float8"}, "unknown dtype 'float8'"),
            ({"planes": 0}, "planes must be 1 or more"),
            ({"weights": (1.0, 2.0)}, "weights hold 2 values; a filter of 3x5 needs 15"),
            ({"weights": (float("nan"),) * 15}, "weights must be finite"),
            ({"weights": ((1.0,) * 3,) * 5}, "weights must be flat, or 3 rows of 5 values"),
            ({"border": "constant", "cval": 1e300}, "cval must be finite"),
        ],
    )
    def test_that_cannot_be(self, fields: dict[str, Any], why: str) -> None:
        with pytest.raises(BadArgument, match=why):
            ws.Filter2d(**{"image": (37, 53), "filter": (3, 5), **fields})

    def test_may_be_given_by_words(self) -> None:
        assert ws.Filter2d(image=(9, 9), filter=(3, 3), border="wrap", dtype="float32") == ws.Filter2d(  # type: ignore[arg-type]
            image=(9, 9), filter=(3, 3), border=ws.Border.WRAP, dtype=ws.DType.FLOAT32
        )


class TestStores:
    def test_query_answers_without_compiling(self, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/none")
        assert ws.query(PROBLEM, "host", store=store).record == winner(PROBLEM, device=HOST)
        assert ws.query(PROBLEM, "host").kind is MatchKind.DEFAULT

    @pytest.mark.parametrize("call", [ws.query, ws.plan])
    def test_that_cannot_be_read(self, tmp_path: Path, call: Any) -> None:
        with pytest.raises(StoreError, match="there is no store at"):
            call(PROBLEM, "host", store=str(tmp_path / "typo.db"))

    @without_gpu
    @pytest.mark.parametrize("call", [ws.query, ws.plan, ws.tune])
    def test_devices_that_are_not_there(self, call: Any) -> None:
        with pytest.raises(BadArgument, match="unknown device 'tpu'"):
            call(PROBLEM, "tpu")
        with pytest.raises(DeviceError, match="the device host"):
            call(PROBLEM, "cuda:0")

    def test_tune_plan_export_and_load(self, tmp_path: Path) -> None:
        report = ws.tune(PROBLEM, "host", trials=2, store=str(tmp_path / "a.db"))
        assert report.record is not None
        assert (report.tried, report.reused) == (2, 0)
        tuned = ws.plan(PROBLEM, "host", store=str(tmp_path / "a.db"))
        assert tuned.match.record == report.record
        exported = ws.export([PROBLEM], tmp_path / "b", store=str(tmp_path / "a.db"))
        assert (exported.kernels, exported.skipped) == (1, ())
        loaded = ws.load_bundle(tmp_path / "b").plan(PROBLEM, "host")
        assert np.array_equal(loaded(GOOD_IMAGE, GOOD_WEIGHTS), tuned(GOOD_IMAGE, GOOD_WEIGHTS))


class TestTuneRefuses:
    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"trials": 0}, "trials must be 1 or more"),
            ({"time_limit": 0.0}, "a time limit must be above 0 seconds"),
            ({"time_limit": float("nan")}, "a time limit must be above 0 seconds"),
            ({"seed": -1}, "a seed must be 0 to"),
            ({"seed": 2**32}, "a seed must be 0 to"),
        ],
    )
    def test_options_out_of_range(self, tmp_path: Path, options: dict[str, Any], why: str) -> None:
        store = tmp_path / "store.db"
        with pytest.raises(BadArgument, match=why):
            ws.tune(ws.Filter2d(image=(37, 53), filter=(3, 5)), "host", store=str(store), **options)
        assert not store.exists()

    @without_gpu
    def test_a_missing_gpu_before_it_makes_a_store(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        with pytest.raises(DeviceError):
            ws.tune(ws.Filter2d(image=(37, 53), filter=(3, 5)), "cuda:0", store=str(store))
        assert not store.exists()


class TestExport:
    def test_of_a_problem_that_is_not_stored(self, store: str, tmp_path: Path) -> None:
        other = dataclasses.replace(PROBLEM, border=ws.Border.WRAP)
        with pytest.raises(NothingStored, match="border=wrap; run `warpsmith tune` first") as caught:
            ws.export([PROBLEM, other], tmp_path / "b", store=store)
        assert caught.value.exit_code == 3
        assert not (tmp_path / "b").exists()

    def test_of_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(NothingStored, match="run `warpsmith tune` first"):
            ws.export(None, tmp_path / "b")
        with pytest.raises(NothingStored, match="nothing to export"):
            ws.export([], tmp_path / "b")
        assert not (tmp_path / "b").exists()

    def test_into_other_files(self, store: str) -> None:
        with pytest.raises(BundleError, match="holds other files"):
            ws.export(None, Path(store).parent, store=store)
        assert [each.name for each in Path(store).parent.iterdir()] == ["one.db"]


def test_every_error_is_a_warpsmith_error_with_an_exit_code() -> None:
    assert issubclass(BadArgument, ValueError)
    assert issubclass(NothingStored, LookupError)
    codes = {kind: kind.exit_code for kind in (WarpsmithError, BadArgument, NothingStored, StoreError, BundleError)}
    assert codes == {WarpsmithError: 1, BadArgument: 2, NothingStored: 3, StoreError: 1, BundleError: 1}


def test_names_that_users_import() -> None:
    assert all(hasattr(ws, name) for name in ws.__all__)
    assert {"Filter2d", "tune", "plan", "query", "export", "load_bundle"} <= set(ws.__all__)
