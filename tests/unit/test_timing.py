"""The timing policy, on a simulated clock."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from unittest.mock import create_autospec

import numpy as np
import pytest

from warpsmith.devices.module import Graph
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.presets import H200
from warpsmith.tuner.evaluate.timing import (
    ENDLESS_S,
    LEAST_SAMPLES,
    MAX_DROPPED,
    Entrant,
    measure,
    measure_in_turns,
    measured,
)
from warpsmith.tuner.evaluate.timing_policy import MAX_SETS, Launching, Rotation, TimingPolicy

BARE = TimingPolicy(
    min_samples=3,
    max_samples=50,
    budget_ns=1e12,
    sample_ns=1.0,
    spread=0.1,
    give_up_factor=2.0,
    final_factor=1,
    cold=False,
)
"""A policy of one run per sample that ends by the spread alone before 50 samples."""

SMALLEST_SET = math.ceil(2 * H200.l2_bytes / (MAX_SETS - 1))
"""Bytes of the smallest buffer set with which the most rotated sets flush L2 twice."""

WARM = Rotation(1, cold=False)

WARM_UP = (100.0, 100.0)
"""Nanoseconds of the warm-up runs: one loads the code, one calibrates."""


class ScriptedDevice:
    """A device in virtual time: a run takes as long as its script says, and the clock reads that and nothing else."""

    def __init__(self) -> None:
        self.now_ns = 0.0
        self.runs: list[tuple[str, int]] = []
        """Contender and buffer set of every run, in order."""
        self.runtime = create_autospec(Runtime, instance=True)
        self.runtime.queues_work = False
        self.runtime.throttled.return_value = False
        self.runtime.elapsed_ns.side_effect = self._elapsed_ns

    def _elapsed_ns(self, work: Callable[[], None]) -> float:
        start_ns = self.now_ns
        work()
        return self.now_ns - start_ns

    def work(self, durations_ns: Iterable[float], name: str = "ours") -> Callable[[int], None]:
        """A contender whose runs take these times, in order."""
        script = iter(durations_ns)

        def run(index: int) -> None:
            self.runs.append((name, index))
            self.now_ns += next(script)

        return run


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice()


def exactly(samples: int) -> TimingPolicy:
    return dataclasses.replace(BARE, min_samples=samples, max_samples=samples)


class TestStatistic:
    def test_is_the_median_with_the_quantiles_beside_it(self, device: ScriptedDevice) -> None:
        shuffled = [60.0, 110, 20, 10, 90, 50, 30, 100, 70, 40, 80]
        timing = measure(device.runtime, device.work([*WARM_UP, *shuffled]), WARM, exactly(11))
        assert (timing.p20_ns, timing.median_ns, timing.p80_ns, timing.samples) == (30, 60, 90, 11)

    @pytest.mark.parametrize("samples", [2, 3, 4, 10, 37])
    def test_quantiles_interpolate_as_numpy_does(self, device: ScriptedDevice, samples: int) -> None:
        script = np.random.default_rng(samples).uniform(100, 200, samples)
        timing = measure(device.runtime, device.work([*WARM_UP, *script]), WARM, exactly(samples))
        found = (timing.p20_ns, timing.median_ns, timing.p80_ns)
        assert found == pytest.approx(tuple(np.percentile(script, [20, 50, 80])))

    def test_of_one_sample_is_that_sample(self, device: ScriptedDevice) -> None:
        timing = measure(device.runtime, device.work([*WARM_UP, 42.0]), WARM, exactly(1))
        assert (timing.p20_ns, timing.median_ns, timing.p80_ns, timing.samples) == (42, 42, 42, 1)

    def test_has_no_share_in_the_warm_up(self, device: ScriptedDevice) -> None:
        timing = measure(device.runtime, device.work([1e9, 5e8, *[100.0] * 50]), WARM, BARE)
        assert (timing.p20_ns, timing.median_ns, timing.p80_ns) == (100, 100, 100)


class TestRepeats:
    @pytest.mark.parametrize(("once_ns", "repeats"), [(30.0, 34), (1000.0, 1), (999.0, 2), (5000.0, 1), (0.4, 1000)])
    def test_make_a_sample_long_enough(self, device: ScriptedDevice, once_ns: float, repeats: int) -> None:
        policy = dataclasses.replace(BARE, sample_ns=1000.0)
        timing = measure(device.runtime, device.work(itertools.repeat(once_ns)), WARM, policy)
        assert timing.policy == f"median, {repeats} runs a sample, eager, warm caches"
        assert len(device.runs) == 2 + repeats * timing.samples
        assert timing.median_ns == pytest.approx(once_ns)

    def test_are_calibrated_after_the_first_run_which_loads_code(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(BARE, sample_ns=1000.0)
        timing = measure(device.runtime, device.work([1e9, *[10.0] * 1000]), WARM, policy)
        assert timing.policy.startswith("median, 100 runs a sample")

    def test_a_sample_is_the_mean_of_its_runs(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(exactly(1), sample_ns=400.0)
        timing = measure(device.runtime, device.work([*WARM_UP, 10.0, 20.0, 30.0, 60.0]), WARM, policy)
        assert timing.median_ns == 30

    def test_a_clock_too_coarse_to_see_the_work_ends_too(self, device: ScriptedDevice) -> None:
        timing = measure(device.runtime, device.work(itertools.repeat(0.0)), WARM, BARE)
        assert (timing.median_ns, timing.samples) == (0, BARE.max_samples)


class TestEnd:
    NOISE = (100.0, 200.0)

    def noise(self) -> Iterable[float]:
        return itertools.chain(WARM_UP, itertools.cycle(self.NOISE))

    def test_comes_at_once_where_the_spread_is_small(self, device: ScriptedDevice) -> None:
        timing = measure(device.runtime, device.work(itertools.cycle((100.0, 101.0))), WARM, BARE)
        assert timing.samples == BARE.min_samples

    def test_comes_as_soon_as_the_spread_is_small(self, device: ScriptedDevice) -> None:
        """The samples have one outlier in n, so p80 interpolates to 160, 140 and 120, and to 100 at six samples."""
        timing = measure(device.runtime, device.work([*WARM_UP, 100.0, 200.0, *[100.0] * 48]), WARM, BARE)
        assert (timing.samples, timing.median_ns) == (6, 100)

    def test_comes_at_the_most_samples_where_the_spread_stays(self, device: ScriptedDevice) -> None:
        assert measure(device.runtime, device.work(self.noise()), WARM, BARE).samples == BARE.max_samples

    def test_comes_when_the_budget_is_spent(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(BARE, budget_ns=1000.0)
        timing = measure(device.runtime, device.work(self.noise()), WARM, policy)
        assert timing.samples == 7 + 1  # seven take 1000 ns, and that is not more than the budget

    def test_the_budget_counts_every_run_of_a_sample(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(BARE, sample_ns=500.0, spread=0.0, budget_ns=2600.0)
        timing = measure(device.runtime, device.work(itertools.repeat(100.0)), WARM, policy)
        assert timing.samples == 6

    def test_a_budget_spent_too_early_leaves_the_fewest_samples(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(BARE, budget_ns=1.0)
        assert measure(device.runtime, device.work(self.noise()), WARM, policy).samples == BARE.min_samples

    @pytest.mark.parametrize(
        ("best_ns", "samples"),
        [
            (None, BARE.max_samples),
            (1000.0, BARE.max_samples),
            (50.0, BARE.max_samples),  # the fastest sample exactly twice as slow as the best: it may still win
            (49.9, LEAST_SAMPLES),
            (1.0, LEAST_SAMPLES),
        ],
    )
    def test_a_candidate_out_of_reach_gets_the_fewest_samples(
        self, device: ScriptedDevice, best_ns: float | None, samples: int
    ) -> None:
        policy = dataclasses.replace(BARE, min_samples=10)
        assert measure(device.runtime, device.work(self.noise()), WARM, policy, best_ns).samples == samples

    def test_one_slow_sample_does_not_put_it_out_of_reach(self, device: ScriptedDevice) -> None:
        script = itertools.chain(WARM_UP, [900.0, 900.0], itertools.repeat(100.0))
        assert measure(device.runtime, device.work(script), WARM, exactly(20), best_ns=100.0).samples == 20


class TestThrottling:
    def test_drops_the_samples_under_it(self, device: ScriptedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.evaluate.timing.COOLING_S", 0)
        device.runtime.throttled.side_effect = [True, False, True, True, False, False]
        script = [*WARM_UP, 900.0, 100.0, 900.0, 900.0, 110.0, 120.0]
        timing = measure(device.runtime, device.work(script), WARM, exactly(3))
        assert (timing.samples, timing.median_ns, timing.p80_ns) == (3, 110, 116)
        assert timing.conditions == "eager, warm caches"

    def test_that_does_not_end_is_told(self, device: ScriptedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.tuner.evaluate.timing.COOLING_S", 0)
        device.runtime.throttled.return_value = True
        timing = measure(device.runtime, device.work(itertools.repeat(100.0)), WARM, exactly(3))
        assert (timing.samples, len(device.runs)) == (3, 2 + 3 + MAX_DROPPED * 3)
        assert timing.conditions == "eager, warm caches, throttled"

    def test_by_kernels_that_take_long_is_found_endless_once(
        self, device: ScriptedDevice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("warpsmith.tuner.evaluate.timing.COOLING_S", 0)
        device.runtime.throttled.return_value = True
        policy = dataclasses.replace(exactly(100), patience_ns=1e12)
        timing = measure(device.runtime, device.work(itertools.repeat(7e6)), WARM, policy)
        assert timing.samples == 100
        assert len(device.runs) == 2 + 100 + math.ceil(ENDLESS_S / 7e-3)


class TestGraph:
    GRAPH = dataclasses.replace(exactly(4), sample_ns=300.0, launching=Launching.GRAPH)

    @pytest.fixture(autouse=True)
    def graphs(self, device: ScriptedDevice) -> None:
        """A graph that replays what was captured, and takes 10 ns itself."""

        class Captured(Graph):
            def __init__(self, work: Callable[[int], None], *, rehearse: bool = False) -> None:
                if rehearse:
                    work(7)
                before = len(device.runs), device.now_ns
                work(7)
                self.runs, self.ns = device.runs[before[0] :], device.now_ns - before[1]
                device.now_ns = before[1]

            def launch(self) -> None:
                device.now_ns += self.ns + 10

            def close(self) -> None:
                device.runs.append(("closed", 0))

        device.runtime.captured.side_effect = Captured

    @staticmethod
    def streamed(run: Callable[[int], None]) -> Callable[..., None]:
        def work(index: int, stream: int | None = None) -> None:
            assert stream in (None, 7)
            run(index)

        return work

    def test_a_sample_is_one_launch_of_several_runs(self, device: ScriptedDevice) -> None:
        work = self.streamed(device.work(itertools.repeat(100.0)))
        timing = measure(device.runtime, work, Rotation(2, cold=True), self.GRAPH)
        assert timing.policy == "median, 3 runs a sample, CUDA graph, cold L2"
        assert timing.median_ns == pytest.approx((300 + 10) / 3)
        assert [index for _, index in device.runs] == [0, 1, 0, 1, 0, 0]  # two to calibrate, three captured, closed

    @pytest.mark.parametrize(
        ("sets", "used", "replayed"),
        [(1, (0,), (0,)), (2, (0, 1), (0, 1)), (4, (0, 1, 2, 3), (0, 2, 3)), (9, (0, 1, 2, 3, 4), (2, 3, 4))],
    )
    def test_a_graph_uses_the_same_sets_again(
        self, device: ScriptedDevice, sets: int, used: tuple[int, ...], replayed: tuple[int, ...]
    ) -> None:
        """The graph calibrates with two runs and captures three."""
        work = self.streamed(device.work(itertools.repeat(100.0)))
        with measured(device.runtime, work, Rotation(sets, cold=True), self.GRAPH) as found:
            assert (found.sets, found.replayed) == (used, replayed)
            assert found.runs == 2 + 3 * found.timing.samples
            assert found.replay is not None
            now = device.now_ns
            found.replay()
            assert device.now_ns == now + 310
            assert ("closed", 0) not in device.runs
        assert ("closed", 0) in device.runs

    def test_another_library_is_captured_after_a_rehearsal_on_that_stream(self, device: ScriptedDevice) -> None:
        ours, peer = (device.work(itertools.repeat(100.0), name) for name in ("ours", "peer"))
        told: list[str] = []
        contenders = {
            "ours": Entrant(self.streamed(ours), Rotation(2, cold=True), takes_stream=True),
            "peer": Entrant(self.streamed(peer), Rotation(2, cold=True), takes_stream=True, uncaptured=told.append),
        }
        timings = measure_in_turns(device.runtime, contenders, self.GRAPH)
        assert {each.conditions for each in timings.values()} == {"CUDA graph, in turns, cold L2"}
        assert told == []
        assert [index for name, index in device.runs if name == "ours"] == [0, 1, 0, 1, 0]
        assert [index for name, index in device.runs if name == "peer"] == [0, 1, 0, 1, 0, 1, 0, 1]

    @pytest.mark.parametrize("fault", [DeviceError("cannot capture a graph: not allowed"), ValueError("no\nstream")])
    def test_another_library_that_cannot_be_captured_is_launched_eagerly(
        self, device: ScriptedDevice, fault: Exception
    ) -> None:
        def refuses(index: int, stream: int | None = None) -> None:
            if stream is not None:
                raise fault
            peer(index)

        peer, told = device.work(itertools.repeat(100.0), "peer"), list[str]()
        contenders = {"peer": Entrant(refuses, Rotation(1, cold=True), takes_stream=True, uncaptured=told.append)}
        timings = measure_in_turns(device.runtime, contenders, self.GRAPH)
        assert timings["peer"].conditions == "eager, in turns, cold L2"
        (line,) = told
        assert line.startswith("it could not be captured in a graph: ")
        assert "\n" not in line

    def test_our_own_must_be_captured(self, device: ScriptedDevice) -> None:
        device.runtime.captured.side_effect = DeviceError("no graphs")
        work = self.streamed(device.work(itertools.repeat(100.0)))
        with pytest.raises(DeviceError, match="no graphs"):
            measure_in_turns(device.runtime, {"ours": Entrant(work, takes_stream=True)}, self.GRAPH)

    def test_those_that_no_graph_can_hold_stay_eager(self, device: ScriptedDevice) -> None:
        ours, peer = (device.work(itertools.repeat(100.0), name) for name in ("ours", "peer"))
        contenders = {"ours": Entrant(self.streamed(ours), takes_stream=True), "peer": Entrant(peer)}
        timings = measure_in_turns(device.runtime, contenders, self.GRAPH)
        assert timings["ours"].conditions == "CUDA graph, in turns, same buffers"
        assert timings["peer"].conditions == "eager, in turns, same buffers"


class TestBufferSets:
    @pytest.mark.parametrize(("sets", "once_ns"), [(1, 100.0), (3, 100.0), (4, 30.0), (7, 1000.0), (5, 2000.0)])
    def test_take_turns_through_all_samples(self, device: ScriptedDevice, sets: int, once_ns: float) -> None:
        policy = dataclasses.replace(exactly(9), sample_ns=1000.0)
        measure(device.runtime, device.work(itertools.repeat(once_ns)), Rotation(sets, cold=False), policy)
        used = [index for _, index in device.runs]
        assert used == [turn % sets for turn in range(len(used))]
        assert set(used) == set(range(sets))

    @pytest.mark.parametrize(("sets", "used"), [(3, 3), (11, 11), (12, 11)])
    def test_that_no_run_came_to_are_not_among_those_used(self, device: ScriptedDevice, sets: int, used: int) -> None:
        with measured(
            device.runtime, device.work(itertools.repeat(5e7)), Rotation(sets, cold=True), exactly(9)
        ) as found:
            assert found.sets == tuple(range(used))
            assert (found.runs, found.replay) == (11, None)

    @pytest.mark.parametrize(("once_ns", "samples"), [(5e7, 9), (6.25e7, 8), (1e9, 3), (1e10, 3)])
    def test_what_takes_long_is_sampled_less_often(self, device: ScriptedDevice, once_ns: float, samples: int) -> None:
        timing = measure(device.runtime, device.work(itertools.repeat(once_ns)), Rotation(1, cold=True), exactly(9))
        assert timing.samples == samples

    def test_are_named_in_the_policy(self, device: ScriptedDevice) -> None:
        timing = measure(device.runtime, device.work(itertools.repeat(100.0)), Rotation(2, cold=True), BARE)
        assert timing.policy == "median, 1 runs a sample, eager, cold L2"


def entrants(runs: Mapping[str, Callable[[int], None]]) -> dict[str, Entrant]:
    """Contenders, each with one set of buffers."""
    return {name: Entrant(run) for name, run in runs.items()}


class TestInTurns:
    def test_those_with_several_sets_rotate_through_them(self, device: ScriptedDevice) -> None:
        runs = {name: device.work(itertools.repeat(100.0), name) for name in ("ours", "peer")}
        contenders = {"ours": Entrant(runs["ours"], Rotation(3, cold=True)), "peer": Entrant(runs["peer"])}
        timings = measure_in_turns(device.runtime, contenders, BARE)
        assert [index for name, index in device.runs if name == "ours"] == [0, 1, 2, 0, 1]
        assert {index for name, index in device.runs if name == "peer"} == {0}
        assert {name: timing.policy.rsplit(", ", 1)[1] for name, timing in timings.items()} == {
            "ours": "cold L2",
            "peer": "same buffers",
        }

    def test_samples_alternate_after_the_warm_up(self, device: ScriptedDevice) -> None:
        contenders = {name: device.work(itertools.repeat(100.0), name) for name in ("ours", "copy", "scipy")}
        timings = measure_in_turns(device.runtime, entrants(contenders), BARE)
        names = [name for name, _ in device.runs]
        assert names[:6] == ["ours", "ours", "copy", "copy", "scipy", "scipy"]
        assert names[6:] == ["ours", "copy", "scipy"] * BARE.min_samples
        assert list(timings) == ["ours", "copy", "scipy"]

    def test_inputs_are_renewed_before_each_sample_and_that_takes_no_time(self, device: ScriptedDevice) -> None:
        renew = device.work(itertools.repeat(5000.0), "renew")
        peer = Entrant(device.work(itertools.repeat(100.0), "peer"), renew=lambda: renew(0))
        timings = measure_in_turns(device.runtime, {"peer": peer}, BARE)
        assert [name for name, _ in device.runs] == ["renew", "peer"] * (len(WARM_UP) + BARE.min_samples)
        assert timings["peer"].median_ns == 100

    def test_each_contender_has_its_own_time_and_repeats(self, device: ScriptedDevice) -> None:
        policy = dataclasses.replace(BARE, sample_ns=1000.0)
        contenders = {
            "fast": device.work(itertools.repeat(10.0), "fast"),
            "slow": device.work(itertools.repeat(500.0), "slow"),
        }
        timings = measure_in_turns(device.runtime, entrants(contenders), policy)
        assert {name: (each.median_ns, each.samples, each.policy) for name, each in timings.items()} == {
            "fast": (10, 3, "median, 100 runs a sample, eager, in turns, same buffers"),
            "slow": (500, 3, "median, 2 runs a sample, eager, in turns, same buffers"),
        }
        assert Counter(device.runs) == {("fast", 0): 2 + 300, ("slow", 0): 2 + 6}

    def test_all_get_the_same_samples_whatever_their_spread(self, device: ScriptedDevice) -> None:
        contenders = {
            "steady": device.work(itertools.repeat(100.0)),
            "noisy": device.work(itertools.cycle((100.0, 900.0, 400.0))),
        }
        timings = measure_in_turns(device.runtime, entrants(contenders), dataclasses.replace(BARE, budget_ns=1.0))
        assert [timing.samples for timing in timings.values()] == [BARE.min_samples] * 2

    @pytest.mark.parametrize(
        ("once_ns", "turns"),
        [
            (300.0, 40),  # not far
            (301.0, 33),  # as many as fit the budget
            (4000.0, 3),  # the budget has two; an outlier may be among them
            (5001.0, 1),  # hopeless
            (20.0, 40),  # faster than ours
        ],
    )
    def test_what_is_far_behind_ours_takes_fewer_turns(
        self, device: ScriptedDevice, once_ns: float, turns: int
    ) -> None:
        policy = dataclasses.replace(BARE, min_samples=40, far_budget_ns=1e4)
        contenders = {
            "ours": Entrant(device.work(itertools.repeat(100.0), "ours"), sets_pace=True),
            "slow": Entrant(device.work(itertools.repeat(once_ns), "slow")),
        }
        timings = measure_in_turns(device.runtime, contenders, policy)
        assert (timings["ours"].samples, timings["slow"].samples) == (40, turns)
        assert (timings["ours"].median_ns, timings["slow"].median_ns) == (100, once_ns)
        between = [
            len(list(group)) for name, group in itertools.groupby(name for name, _ in device.runs[4:]) if name == "ours"
        ]
        assert max(between) <= -(-40 // turns)  # its turns are spread among the others

    def test_the_pace_is_that_of_the_fastest_of_ours(self, device: ScriptedDevice) -> None:
        """A faster library makes none of ours hopeless, but a slow one of ours is far behind another of ours."""
        policy = dataclasses.replace(BARE, min_samples=40, far_budget_ns=0.0)
        contenders = {
            name: Entrant(device.work(itertools.repeat(ns)), sets_pace=name != "library")
            for name, ns in (("library", 1.0), ("ours", 100.0), ("near", 200.0), ("other", 6000.0))
        }
        timings = measure_in_turns(device.runtime, contenders, policy)
        assert [timing.samples for timing in timings.values()] == [40, 40, 40, 1]

    def test_a_drift_meets_all_contenders(self, device: ScriptedDevice) -> None:
        """The device slows down by half over the run; two equal contenders stay equal within one turn's drift."""
        policy = dataclasses.replace(BARE, min_samples=40)

        def drifting() -> Iterable[float]:
            while True:
                yield 100.0 + device.now_ns / 200

        timings = measure_in_turns(device.runtime, entrants({name: device.work(drifting()) for name in "ab"}), policy)
        first, second = timings["a"], timings["b"]
        assert first.p80_ns > 1.15 * first.p20_ns
        assert second.median_ns == pytest.approx(first.median_ns, rel=0.006)


class TestPolicy:
    def test_a_gpu_is_measured_cold_and_the_host_warm(self) -> None:
        assert TimingPolicy.for_kind(DeviceKind.CUDA).cold
        assert not TimingPolicy.for_kind(DeviceKind.HOST).cold

    @pytest.mark.parametrize("kind", DeviceKind)
    def test_finalists_get_many_times_as_much_and_the_same_rules(self, kind: DeviceKind) -> None:
        search = TimingPolicy.for_kind(kind)
        final = search.for_finalists()
        factor = {DeviceKind.CUDA: 12, DeviceKind.HOST: 6}[kind]
        assert final.min_samples == factor * search.min_samples
        assert final.max_samples == factor * search.max_samples
        assert final.budget_ns == factor * search.budget_ns
        assert (final.sample_ns, final.spread, final.cold) == (search.sample_ns, search.spread, search.cold)

    @pytest.mark.parametrize("kind", DeviceKind)
    def test_the_fewest_samples_fit_the_budget(self, kind: DeviceKind) -> None:
        """Otherwise the budget, and not the spread, would decide for every candidate."""
        policy = TimingPolicy.for_kind(kind)
        assert policy.min_samples <= policy.max_samples
        assert policy.min_samples * policy.sample_ns < policy.budget_ns

    @pytest.mark.parametrize("set_bytes", [SMALLEST_SET, 10**6, H200.l2_bytes, 2 * H200.l2_bytes - 1])
    def test_other_sets_flush_l2_twice_before_a_set_is_used_again(self, set_bytes: int) -> None:
        cold = dataclasses.replace(BARE, cold=True)
        rotation = cold.rotation(set_bytes, H200.l2_bytes)
        assert rotation.cold
        sets = rotation.sets
        assert (sets - 1) * set_bytes >= 2 * H200.l2_bytes
        assert (sets - 2) * set_bytes < 2 * H200.l2_bytes  # and no more memory than that takes

    @pytest.mark.parametrize("set_bytes", [1, 4096, SMALLEST_SET - 1])
    def test_data_too_small_to_rotate_is_measured_warm_and_says_so(self, set_bytes: int) -> None:
        cold = dataclasses.replace(BARE, cold=True)
        assert cold.rotation(set_bytes, H200.l2_bytes) == Rotation(1, cold=False)

    @pytest.mark.parametrize("set_bytes", [2 * H200.l2_bytes, 10**12])
    def test_a_set_that_flushes_l2_by_itself_is_enough(self, set_bytes: int) -> None:
        cold = dataclasses.replace(BARE, cold=True)
        assert cold.rotation(set_bytes, H200.l2_bytes) == Rotation(1, cold=True)

    @pytest.mark.parametrize("set_bytes", [1, 10**6, H200.l2_bytes, 10**12])
    def test_warm_needs_one_set(self, set_bytes: int) -> None:
        assert BARE.rotation(set_bytes, H200.l2_bytes) == WARM
