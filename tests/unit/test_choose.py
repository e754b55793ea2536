"""Choice of a winner among trials: who is a finalist, how ties are broken, what happens to failures on fresh data."""

from __future__ import annotations

import dataclasses
import itertools
from concurrent.futures import Future
from typing import Any

import pytest

from builders import binary, measurement, program, timing, trial
from warpsmith.generator.ceilings import Ceilings
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.record import Baseline, Failure, FailureKind, LeftOut, Record, Timing, Trial
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender, Evaluated, InTurns
from warpsmith.tuner.finals.choose import (
    KEPT,
    SPILLED,
    TIE,
    TuningFailed,
    WinnerChoice,
    choose,
    failures_by_kind,
    fastest_first,
    tied,
)
from warpsmith.tuner.finals.finalists import BESIDE, FINALISTS, MOST_FINALISTS, NEAR, SHORT_NS
from warpsmith.tuner.workers.compile_pool import Compiled

PROBLEM = Filter2d(image=(64, 64), filter=(3, 3))
COPY = Baseline("copy", timing(70.0))
WRONG = Failure(FailureKind.WRONG, "off by one")


def tried(name: str, ns: float | None, **changes: Any) -> Trial:
    """A trial of family `name[:-1]` and config `name[-1]`; a time of None stands for a wrong result."""
    outcome = WRONG if ns is None else measurement(ns, registers=32)
    family, config = name[:-1], Config.of({"c": name[-1]})
    text = program_of(family, config).fingerprint
    made = trial(outcome=outcome, family=family, config=config, fingerprint=text, compile_ms=5.0, gpu="cuda:0")
    return dataclasses.replace(made, **changes)


def program_of(family: str, config: Config) -> Program:
    return program(f"// {family} {config}", family=family, config=config)


def name_of(it: Trial | Program) -> str:
    return it.family + it.config.text("c")


class Setting:
    """A workshop and a bench of finals. `side` gives the times measured there; the default is 100 ns."""

    def __init__(self, **side: float | Timing | Failure) -> None:
        self.problem, self.device = PROBLEM, dataclasses.replace(H200, ceilings=Ceilings(barrier_ns=9.0))
        self.gate = Gate(PROBLEM, H200)
        self.families = {"window": None, "plain": None}
        self.side = side
        self.opened = self
        self.environment = {"driver": "580"}
        self.evaluated: list[str] = []
        self.contenders: list[str] = []
        self.beside: InTurns | Failure | None = None
        self.kept: list[Trial] = []
        self.refused: set[str] = set()
        self.fails_with_peers_alone = False
        self.spilling: set[str] = set()
        self.compiler_identity = "nvrtc"
        self.answers: tuple[Program, ...] = ()
        self.rivals: tuple[Program, ...] = ()
        self.each_family = True

    verified = Evaluator.verified  # over what is below
    identity_of = Evaluator.identity_of

    def program(self, family: str, config: Config) -> Program:
        return program_of(family, config)

    def compile(self, program: Program) -> Future[Compiled | Failure]:
        future: Future[Compiled | Failure] = Future()
        refused = name_of(program) in self.refused
        made = Compiled({"": binary(program.source.encode())}, 1.0)
        future.set_result(Failure(FailureKind.COMPILE, "no") if refused else made)
        return future

    def evaluate(self, program: Program, compiled: Compiled, best_ns: float | None = None) -> Evaluated:  # noqa: ARG002
        assert compiled.binaries[""].image == program.source.encode()
        self.evaluated.append(name_of(program))
        measured = self.side.get(name_of(program), 100.0)
        if isinstance(measured, Failure):
            return Evaluated(measured, 1, 1, 0)
        taken = measured if isinstance(measured, Timing) else timing(measured)
        own = dataclasses.replace(taken, samples=5)
        spill_bytes = 8 if name_of(program) in self.spilling else 0
        return Evaluated(measurement(own, registers=40, spill_bytes=spill_bytes), 1, 1, 1)

    def side_by_side(self, contenders: tuple[Contender, ...], *, peers: bool = True) -> InTurns | Failure:
        self.contenders = [name_of(each.program) for each in contenders]
        if self.beside is not None and (peers or not self.fails_with_peers_alone):
            return self.beside
        times: list[Any] = [self.side.get(name, 100.0) for name in self.contenders]
        return InTurns(tuple(each if isinstance(each, Timing) else timing(each, samples=30) for each in times), (COPY,))

    def choose(self, *trials: Trial) -> Record:
        return self.choice(*trials).record

    def choice(self, *trials: Trial) -> WinnerChoice:
        return choose(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            list(trials),
            self.kept.append,
            self.answers,
            self.rivals,
            each_family=self.each_family,
        )


def letters(count: int, *, ns: float = 100.0, step: float = 0.0) -> list[Trial]:
    """Trials of one family, `windowa`, `windowb`, ..., each `step` slower than the last."""
    return [tried(f"window{chr(ord('a') + i)}", ns + i * step + i * 1e-6) for i in range(count)]


class TestTied:
    @pytest.mark.parametrize(("other_ns", "is_tied"), [(1000.0, True), (1000 * (1 + TIE), True), (1003.001, False)])
    def test_within_three_in_a_thousand(self, other_ns: float, is_tied: bool) -> None:
        assert tied([timing(1000), timing(other_ns)]) == ([0, 1] if is_tied else [0])
        assert tied([timing(other_ns), timing(1000)]) == ([0, 1] if is_tied else [1])

    def test_within_what_their_spreads_leave_unknown(self) -> None:
        """100 samples from 980 to 1020: the median's standard error is 1.253 * 40 / 1.683 / 10 = 2.978."""
        loose = timing(1000, 980, 1020, samples=100)
        sharp = timing(1000, samples=100)
        for one, other, unknown_ns in ((loose, loose, 2 * 2**0.5 * 2.978), (loose, sharp, 2 * 2.978)):
            for first, second in ((one, other), (other, one)):
                near = dataclasses.replace(second, median_ns=1000 + unknown_ns - 0.01)
                far = dataclasses.replace(second, median_ns=1000 + unknown_ns + 0.01)
                assert tied([first, near]) == tied([first, near, far]) == [0, 1]

    def test_the_spread_of_a_third_is_no_reason(self) -> None:
        wild = timing(5000, 1000, 9000, samples=100)
        assert tied([timing(1000), timing(1004), wild]) == [0]

    def test_a_single_one_ties_with_itself(self) -> None:
        assert tied([timing(7)]) == [0]


class TestRanking:
    def test_fastest_first_and_failures_left_out(self) -> None:
        trials = [tried("plainb", 3), tried("plaina", None), tried("windowa", 2), tried("plaina", 3), tried("aa", 3)]
        assert [name_of(each) for each in fastest_first(trials)] == ["windowa", "aa", "plaina", "plainb"]

    def test_failures_are_counted_by_kind(self) -> None:
        crash = tried("windowa", None, outcome=Failure(FailureKind.CRASH, ""))
        trials = [tried("plaina", None), tried("plainb", 3), crash, tried("plainc", None)]
        assert failures_by_kind(trials) == {FailureKind.WRONG: 2, FailureKind.CRASH: 1}


class TestFinalists:
    def test_the_fastest_few_however_far_apart(self) -> None:
        setting = Setting()
        setting.choose(*reversed(letters(9, step=50)))
        assert setting.evaluated == setting.contenders == ["windowa", "windowb", "windowc"]
        assert FINALISTS == 3

    def test_more_where_they_are_near(self) -> None:
        setting = Setting()
        near = [tried("windowd", 100 * NEAR), tried("windowe", 100 * NEAR + 0.01)]
        setting.choose(*letters(3), *near)
        assert setting.evaluated == ["windowa", "windowb", "windowc", "windowd"]

    def test_never_more_than_a_few(self) -> None:
        setting = Setting()
        setting.choose(*letters(20))
        assert len(setting.evaluated) == len(setting.contenders) == MOST_FINALISTS == 8

    def test_twins_count_once(self) -> None:
        """Equal outcomes come from one run: the machine code is the same."""
        setting = Setting()
        first, *others = letters(4, step=50)
        twins = [tried(f"window{letter}", 1, outcome=first.outcome) for letter in "wxyz"]
        setting.choose(*twins, first, *others)
        assert setting.evaluated == ["windowa", "windowb", "windowc"]

    def test_those_of_another_version_of_the_package_are_passed_over(self) -> None:
        setting = Setting(windowb=99.0)
        record = setting.choose(tried("windowa", 50.0, fingerprint="another text"), tried("windowb", 99.0))
        assert record.trial.config == Config.of({"c": "b"})
        assert setting.evaluated == ["windowb"]

    def test_one_is_enough(self) -> None:
        setting = Setting()
        assert name_of(setting.choose(tried("windowa", 100), tried("plaina", None)).trial) == "windowa"


class TestWinner:
    def test_is_the_fastest_in_turns_whatever_the_search_said(self) -> None:
        record = Setting(windowa=100.0, windowb=95.0, windowc=99.0).choose(*letters(3, step=10))
        assert name_of(record.trial) == "windowb"

    def test_of_ties_is_the_same_whatever_the_order_of_trials(self) -> None:
        trials = [tried("plaina", 98), tried("windowb", 98.5), tried("windowa", 99), tried("plainb", 97)]
        side = {"plaina": 100.0, "windowb": 100.06, "windowa": 100.09, "plainb": 100.03}
        for order in itertools.permutations(trials):
            for times in itertools.permutations(side.values()):
                record = Setting(**dict(zip(side, times, strict=True))).choose(*order)
                assert name_of(record.trial) == "windowa"

    def test_is_none_of_a_family_that_may_not_win_however_fast_it_is(self) -> None:
        """Its bits may differ from run to run. It is kept beside the winner, and wins only over nothing."""
        choice = Setting(filter1d_scattera=50.0).choice(tried("filter1d_scattera", 50), tried("windowa", 100))
        assert name_of(choice.record.trial) == "windowa"
        assert beside(choice) == {"filter1d_scattera": 50.0}
        assert name_of(Setting().choose(tried("filter1d_scattera", 50)).trial) == "filter1d_scattera"

    def test_of_ties_prefers_by_the_order_of_families_not_by_their_names(self) -> None:
        setting = Setting()
        setting.families = {"plain": None, "window": None}
        assert name_of(setting.choose(tried("windowa", 98), tried("plainz", 99)).trial) == "plainz"

    def test_just_outside_the_band_wins_nothing(self) -> None:
        record = Setting(windowa=100.11, windowb=100.0).choose(*letters(2))
        assert name_of(record.trial) == "windowb"

    def test_finalists_are_told_of_with_their_times_in_turns_and_the_winner_first(self) -> None:
        setting = Setting(windowa=100.05, windowb=100.0, windowc=102.0, windowd=101.0)
        choice = setting.choice(*letters(4))
        assert [name_of(each) for each in choice.finalists] == ["windowa", "windowb", "windowd", "windowc"]
        assert [each.median_ns for each in choice.finalists] == [100.05, 100.0, 101.0, 102.0]
        assert choice.finalists[0] == choice.record.trial

    def test_is_recorded_as_it_was_measured_in_the_finals(self) -> None:
        record = Setting(windowa=90.0).choose(tried("windowa", 100))
        assert (record.problem, record.device) == (PROBLEM, H200)
        assert record.trial == tried(
            "windowa", 1, outcome=measurement(timing(90.0, samples=30), registers=40, spill_bytes=0)
        )
        assert record.baselines == (COPY,)
        assert record.provenance.environment == {"driver": "580"}

    @pytest.fixture
    def simplest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes config b of the family `plain` the simplest one of the operation."""

        class Plain:
            name, problem_type = "plain", type(PROBLEM)

            def why_not(self, *_: object) -> None:
                return None

            def space(self, *_: object) -> Space:
                return Space((Parameter("c", ("a", "b"), "of a trial"),), ())

            def default(self, *_: object) -> Config:
                return tried("plainb", 1).config

        monkeypatch.setattr("warpsmith.tuner.finals.choose.simplest_family", {PROBLEM.operation: Plain()}.get)

    @pytest.mark.usefixtures("simplest")
    def test_has_the_simplest_kernel_as_a_baseline_and_not_a_faster_one_of_its_family(self) -> None:
        plains = [tried("plaina", 200), tried("plainb", 300)]
        record = Setting(windowa=90.0).choose(*letters(3, step=10), *plains)
        assert record.baselines == (COPY, Baseline("plain (simplest kernel)", timing(300)))

    @pytest.mark.usefixtures("simplest")
    def test_has_no_such_baseline_where_it_was_not_right_or_won(self) -> None:
        assert Setting().choose(*letters(1), tried("plaina", 200)).baselines == (COPY,)
        assert Setting(plainb=WRONG).choose(tried("plainb", 90), *letters(1)).baselines == (COPY,)
        assert Setting(plainb=50.0).choose(*letters(1), tried("plainb", 99)).baselines == (COPY,)

    def test_a_family_that_comes_last_is_no_baseline(self) -> None:
        assert Setting().choose(*letters(1), tried("plaina", 200)).baselines == (COPY,)

    def test_tells_what_was_left_out(self) -> None:
        setting = Setting()
        left_out = (LeftOut("npp", "it has no border mirror"),)
        setting.beside = InTurns((timing(90.0),), (COPY,), left_out)
        assert setting.choose(*letters(1)).left_out == left_out

    def test_without_turns_is_the_fastest_of_the_finals_and_it_is_said(self) -> None:
        setting = Setting(windowa=100.0, windowb=95.0)
        setting.beside = Failure(FailureKind.CRASH, "a library crashed")
        with pytest.warns(UserWarning, match="the other libraries could not be timed: a library crashed"):
            record = setting.choose(*letters(2, step=1))
        assert name_of(record.trial) == "windowb"
        assert record.trial.outcome.timing == timing(95.0, samples=5)  # type: ignore[union-attr]
        assert record.baselines == ()

    @pytest.mark.filterwarnings("ignore:the other libraries could not be timed")
    def test_where_the_libraries_fail_it_takes_turns_without_them(self) -> None:
        setting = Setting(windowa=100.0, windowb=95.0)
        setting.beside, setting.fails_with_peers_alone = Failure(FailureKind.CRASH, "a library crashed"), True
        record = setting.choose(*letters(2, step=1))
        assert record.trial.outcome.timing == timing(95.0, samples=30)  # type: ignore[union-attr]
        assert record.baselines == (COPY,)

    def test_the_best_of_another_family_that_takes_most_of_a_second_is_not_run_again(self) -> None:
        windows = [tried(f"window{letter}", 1e8 + place) for place, letter in enumerate("abc")]
        setting = Setting()
        choice = setting.choice(*windows, tried("plaina", 6e8))
        assert setting.evaluated == ["windowa", "windowb", "windowc"]
        assert [each.trial.family for each in choice.runners_up] == ["plain"]
        setting = Setting()
        setting.choice(*windows, tried("plaina", 4e8))
        assert setting.evaluated == ["windowa", "windowb", "windowc", "plaina"]

    def test_what_takes_many_times_as_long_is_no_finalist_however_few_there_are(self) -> None:
        """The plain kernel of a layer of 5 TFLOP takes seconds a run."""
        setting = Setting()
        setting.choice(tried("windowa", 7e6), tried("plaina", 3e9), tried("directa", 5e8))
        assert setting.evaluated == ["windowa"]
        setting = Setting()
        setting.choice(tried("windowa", 6e8), tried("windowb", 7e8))
        assert setting.evaluated == ["windowa", "windowb"]

    def test_where_the_fastest_fails_on_fresh_data_a_slow_one_is_a_finalist(self) -> None:
        setting = Setting(windowa=Failure(FailureKind.WRONG, "wrong"))
        choice = setting.choice(tried("windowa", 7e6), tried("plaina", 3e9))
        assert setting.evaluated == ["windowa", "plaina"]
        assert name_of(choice.record.trial) == "plaina"


class TestAnswers:
    """Programs that a look-up already returns before the search."""

    def setting(self, *answers: str, **side: float | Timing | Failure) -> Setting:
        setting = Setting(**side)
        setting.answers = tuple(program_of(name[:-1], Config.of({"c": name[-1]})) for name in answers)
        return setting

    def test_meets_the_finalists_however_slow_the_search_found_it(self) -> None:
        setting = self.setting("plainz", windowa=80.0, plainz=70.0)
        choice = setting.choice(*letters(9, step=50), tried("plainz", 9000))
        assert name_of(choice.record.trial) == "plainz"
        assert setting.contenders == ["windowa", "windowb", "windowc", "plainz"]
        assert choice.before == choice.record.trial

    def test_loses_to_what_is_faster_and_is_told_of(self) -> None:
        choice = self.setting("plainz", windowa=80.0, plainz=90.0).choice(*letters(1), tried("plainz", 90))
        assert name_of(choice.record.trial) == "windowa"
        assert choice.before is not None
        assert (name_of(choice.before), choice.before.median_ns) == ("plainz", 90.0)

    @pytest.mark.parametrize(("slower", "winner"), [(0.0, "plainz"), (KEPT - 1e-4, "plainz"), (KEPT + 1e-4, "windowa")])
    def test_stays_where_nothing_is_clearly_faster(self, slower: float, winner: str) -> None:
        choice = self.setting("plainz", windowa=100.0, plainz=100 * (1 + slower)).choice(
            *letters(1), tried("plainz", 90)
        )
        assert name_of(choice.record.trial) == winner

    def test_never_loses_to_what_is_slower_within_the_band_of_ties(self) -> None:
        """The answer is outside the spread; a slower finalist of an earlier place is inside by its own spread."""
        wide = timing(100.9, 95.0, 106.0)
        choice = self.setting("plainz", windowa=wide, windowb=100.0, plainz=100.7).choice(
            *letters(2), tried("plainz", 90)
        )
        assert name_of(choice.record.trial) == "windowb"

    @pytest.mark.parametrize(("faster", "winner"), [(SPILLED - 0.01, "plainz"), (SPILLED + 0.01, "windowa")])
    def test_loses_to_what_spills_registers_only_where_that_is_much_faster(self, faster: float, winner: str) -> None:
        """A spilling kernel's speed depends on where its local memory lies, which differs from process to process."""
        setting = self.setting("plainz", windowa=100.0, plainz=100.0 * faster)
        setting.spilling = {"windowa"}
        assert name_of(setting.choose(*letters(1), tried("plainz", 90)).trial) == winner

    def test_that_spills_itself_is_still_what_nothing_slower_replaces(self) -> None:
        setting = self.setting("plainz", windowa=100.1, plainz=100.0)
        setting.spilling = {"plainz"}
        assert name_of(setting.choose(*letters(1), tried("plainz", 90)).trial) == "plainz"

    def test_that_was_not_tried_is_tried_now(self) -> None:
        setting = self.setting("plainz", windowa=100.0, plainz=50.0)
        choice = setting.choice(*letters(1))
        assert name_of(choice.record.trial) == "plainz"
        assert [name_of(each) for each in setting.kept] == ["plainz"]

    def test_that_the_search_dropped_is_tried_now(self) -> None:
        dropped = tried("plainz", None, outcome=Failure(FailureKind.DROPPED, "its work takes 9 us at the least"))
        choice = self.setting("plainz", windowa=100.0, plainz=900.0).choice(*letters(1), dropped)
        assert name_of(choice.record.trial) == "windowa"
        assert choice.before is not None
        assert (name_of(choice.before), choice.before.median_ns) == ("plainz", 900.0)

    def test_is_enough_where_the_search_found_nothing(self) -> None:
        assert name_of(self.setting("plainz").choose(tried("windowa", None)).trial) == "plainz"

    def test_that_was_wrong_is_not_tried_again(self) -> None:
        setting = self.setting("plainz")
        choice = setting.choice(*letters(1), tried("plainz", None))
        assert (name_of(choice.record.trial), choice.before, setting.contenders) == ("windowa", None, ["windowa"])

    def test_that_is_wrong_on_fresh_data_never_wins(self) -> None:
        setting = self.setting("plainz", "windowb", plainz=WRONG, windowb=WRONG)
        choice = setting.choice(*letters(1), tried("plainz", 50))
        assert (name_of(choice.record.trial), choice.before) == ("windowa", None)
        assert [(name_of(each), each.outcome) for each in setting.kept] == [("plainz", WRONG), ("windowb", WRONG)]

    def test_of_two_the_faster_counts(self) -> None:
        """One answer existed before the search; another tuner stored the other meanwhile."""
        setting = self.setting("plainz", "plainy", windowa=95.0, plainz=100.0, plainy=90.0)
        choice = setting.choice(*letters(1), tried("plainz", 90))
        assert name_of(choice.record.trial) == "plainy"

    def test_with_the_machine_code_of_the_fastest_goes_by_its_own_name(self) -> None:
        first = letters(1)[0]
        choice = self.setting("windowz").choice(first, tried("windowz", 1, outcome=first.outcome))
        assert name_of(choice.record.trial) == "windowz"


def beside(choice: WinnerChoice) -> dict[str, float | None]:
    """The runners-up and their times."""
    return {name_of(each.trial): each.trial.median_ns for each in choice.runners_up}


class TestFamilies:
    def test_the_fastest_of_each_is_timed_in_the_same_turns(self) -> None:
        setting = Setting(windowa=90.0, plaina=410.0)
        choice = setting.choice(*letters(4, step=1), tried("plaina", 400), tried("plainb", 500))
        assert setting.contenders == ["windowa", "windowb", "windowc", "plaina"]
        assert beside(choice) == {"plaina": 410.0}
        (plain,) = choice.runners_up
        assert plain.provenance == choice.record.provenance
        assert (plain.baselines, plain.left_out) == ((), ())
        assert choice.overall is None

    def test_the_winners_family_is_not_beside_it(self) -> None:
        choice = Setting(windowa=90.0, plaina=80.0).choice(*letters(3, step=1), tried("plaina", 400))
        assert name_of(choice.record.trial) == "plaina"
        assert beside(choice) == {"windowa": 90.0}

    def test_of_several_finalists_of_a_family_the_fastest_in_turns_is_beside_it(self) -> None:
        setting = Setting(windowa=90.0, plaina=110.0, plainb=101.0, plainc=100.0)
        setting.spilling = {"plainc"}  # counts as SPILLED times slower
        choice = setting.choice(*letters(1), tried("plaina", 101), tried("plainb", 102), tried("plainc", 103))
        assert beside(choice) == {"plainb": 101.0}

    def test_one_that_is_wrong_on_fresh_data_leaves_it_to_the_next(self) -> None:
        setting = Setting(plaina=WRONG)
        choice = setting.choice(*letters(3), tried("plaina", 400), tried("plainb", 500))
        assert beside(choice) == {"plainb": 100.0}
        assert [name_of(each) for each in setting.kept] == ["plaina"]

    @pytest.mark.parametrize(
        ("fast_ns", "slow_ns", "is_timed"),
        [
            (100.0, SHORT_NS, True),
            (100.0, SHORT_NS + 1, False),
            (SHORT_NS, BESIDE * SHORT_NS, True),
            (SHORT_NS, BESIDE * SHORT_NS + 10, False),
        ],
    )
    def test_one_that_is_far_slower_keeps_the_time_of_the_search(
        self, fast_ns: float, slow_ns: float, is_timed: bool
    ) -> None:
        setting = Setting()
        choice = setting.choice(*letters(3, ns=fast_ns), tried("plaina", slow_ns))
        assert ("plaina" in setting.contenders) == is_timed
        (beaten,) = choice.runners_up
        assert (beaten.trial == tried("plaina", slow_ns)) == (not is_timed)

    def test_without_time_all_do_but_the_finalists(self) -> None:
        setting = Setting()
        setting.each_family = False
        choice = setting.choice(*letters(3), tried("plaina", 400), tried("plainb", 399))
        assert setting.contenders == ["windowa", "windowb", "windowc"]
        assert [each.trial for each in choice.runners_up] == [tried("plainb", 399)]

    def test_one_that_only_failed_is_nowhere(self) -> None:
        assert Setting().choice(*letters(3), tried("plaina", None)).runners_up == ()


class TestRivals:
    """Programs of families outside the search. One stays the overall winner unless another is faster by KEPT."""

    def choice(self, windowa_ns: float, **side: float | Failure) -> tuple[Setting, WinnerChoice]:
        setting = Setting(windowa=windowa_ns, **side)  # type: ignore[arg-type]
        setting.rivals = (program_of("fft", Config.of({"c": "z"})),)
        return setting, setting.choice(*letters(1), tried("plaina", 300))

    def test_stays_where_nothing_is_clearly_faster(self) -> None:
        _, choice = self.choice(100.0, fftz=100.0 * (1 + KEPT) - 0.01, plaina=200.0)
        assert name_of(choice.record.trial) == "windowa"
        assert choice.overall is not None
        assert name_of(choice.overall.trial) == "fftz"
        assert choice.overall.baselines == choice.record.baselines == (COPY,)
        assert choice.runners_up[-1] == choice.record
        assert beside(choice) == {"plaina": 200.0, "windowa": 100.0}

    def test_is_beside_what_beats_it(self) -> None:
        setting, choice = self.choice(100.0, fftz=150.0, plaina=200.0)
        assert choice.overall is None
        assert beside(choice) == {"fftz": 150.0, "plaina": 200.0}
        assert [name_of(each) for each in setting.kept] == ["fftz"]
        assert choice.before is None  # it is no answer of the families that were searched

    def test_that_is_wrong_has_no_place(self) -> None:
        setting, choice = self.choice(100.0, fftz=WRONG)
        assert choice.overall is None
        assert beside(choice) == {"plaina": 100.0}
        assert [name_of(each) for each in setting.kept] == ["fftz"]

    def test_is_no_winner_where_the_search_found_nothing(self) -> None:
        setting = Setting()
        setting.rivals = (program_of("fft", Config.of({"c": "z"})),)
        with pytest.raises(TuningFailed):
            setting.choice(tried("windowa", None))


class TestFreshData:
    """Finalists that fail on fresh data."""

    @pytest.mark.parametrize("kind", [FailureKind.WRONG, FailureKind.CRASH, FailureKind.TIMEOUT])
    def test_a_failure_is_kept_and_never_wins(self, kind: FailureKind) -> None:
        failure = Failure(kind, "on fresh data")
        setting = Setting(windowa=failure, windowb=failure)
        record = setting.choose(*letters(9, step=50))
        assert name_of(record.trial) == "windowc"
        assert setting.kept == [
            dataclasses.replace(each, outcome=failure) for each in letters(2, step=50)
        ]  # replaces the trials of the search
        assert setting.contenders == ["windowc", "windowd", "windowe"]

    def test_near_is_near_to_the_fastest_that_is_right(self) -> None:
        setting = Setting(windowa=WRONG)
        far = [tried(f"window{letter}", 150 + i * 1e-6) for i, letter in enumerate("bcdef")]
        setting.choose(tried("windowa", 100), *far)
        assert setting.contenders == ["windowb", "windowc", "windowd", "windowe", "windowf"]

    def test_what_does_not_compile_any_more_is_kept_so(self) -> None:
        setting = Setting()
        setting.refused = {"windowa"}
        assert name_of(setting.choose(*letters(2, step=50)).trial) == "windowb"
        assert [each.outcome for each in setting.kept] == [Failure(FailureKind.COMPILE, "no")]
        assert setting.evaluated == ["windowb"]

    def test_nothing_right_is_a_failure(self) -> None:
        setting = Setting(windowa=WRONG, windowb=WRONG)
        with pytest.raises(
            TuningFailed,
            match=rf"^no candidate of {PROBLEM.key()} passed the second verification, on fresh data: "
            r"window: 2 wrong; the first: off by one$",
        ):
            setting.choose(*letters(2))
        assert len(setting.kept) == 2
        assert setting.contenders == []


@pytest.mark.parametrize(
    ("trials", "told"),
    [
        ([], f"no candidate of {PROBLEM.key()} was tried; give it more trials or time"),
        (
            [tried("plaina", None), tried("plainb", None, outcome=Failure(FailureKind.COMPILE, "no"))],
            f"none of 2 candidates of {PROBLEM.key()} is correct: plain: 1 wrong, 1 compile; the first: off by one",
        ),
    ],
)
def test_without_a_right_trial_it_says_why(trials: list[Trial], told: str) -> None:
    setting = Setting()
    with pytest.raises(TuningFailed) as caught:
        setting.choose(*trials)
    assert str(caught.value) == told
    assert setting.evaluated == []
