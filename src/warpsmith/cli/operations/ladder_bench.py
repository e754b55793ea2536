"""`warpsmith bench ladder`: the kernels of "Optimizing a CNN in CUDA", rung by rung, beside our answer and cuDNN."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from warpsmith.cli.operations.conv2d import InputOption, four
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.cli.output import print_facts, print_json, print_table
from warpsmith.cli.verdicts import left_out_facts
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import ROWS
from warpsmith.generator.conv2d.sums.ladder.ladder_family import Conv2dLadder, MaskedLadder
from warpsmith.generator.conv2d.sums.ladder.masked_gradient import MaskedGradient, behind_mask
from warpsmith.generator.conv2d.sums.ladder.rungs import Rung, error_rungs, forward_rungs, gradient_rungs
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.lookup import look_up
from warpsmith.store.conditions import conditions_key
from warpsmith.store.record import Failure, Timing
from warpsmith.tuner.finals.standings import Standing, Standings, standings
from warpsmith.tuner.operations.conv2d.masked_judge import MaskedGradientJudge
from warpsmith.tuner.operations.judge import Judge
from warpsmith.units import format_time

OURS = "our answer"
USUAL_INPUT = "8,32,256,256"
FiltersOption = Annotated[int, typer.Option("--filters", min=1, help="Filters of the layer, the channels of y.")]
TapsOption = Annotated[int, typer.Option("--taps", min=1, help="Rows, and columns, of taps of each filter.")]
RowsOption = Annotated[int, typer.Option("--rows", help="Rows of results per thread where a rung has several.")]


@dataclasses.dataclass(frozen=True, slots=True)
class Ladder:
    """One kernel of the document."""

    name: str
    problem: Problem
    layer: Conv2d
    """Layer whose answer is timed beside the rungs."""
    family: Family
    rungs: tuple[Rung, ...]
    claim: str
    """What the document says of times, in our words."""
    judge: Judge[Any] | None = None

    def answer(self, device: Device, store: str | None) -> Program:
        """Our answer: the stored or default one of the layer, behind a mask if the problem has one."""
        program = look_up(self.layer, device, store).program
        return behind_mask(self.problem, program) if isinstance(self.problem, MaskedGradient) else program


def ladders(shape: tuple[int, int, int, int], filters: int, taps: int, rows: int) -> tuple[Ladder, ...]:
    """The three kernels of the document for a layer whose results have the images' size."""

    def layer(pass_: Pass, *, has_end: bool = False) -> Conv2d:
        weight = filters, shape[1], taps, taps
        return Conv2d(shape, weight, padding="same", pass_=pass_, bias=has_end, relu=has_end)  # type: ignore[arg-type]

    forward, error, gradient = layer(Pass.FPROP, has_end=True), layer(Pass.DGRAD), layer(Pass.WGRAD)
    masked, own = MaskedGradient(error), Conv2dLadder()
    return (
        Ladder("forward", forward, forward, own, forward_rungs(rows), "no time is given"),
        Ladder(
            "error",
            masked,
            error,
            MaskedLadder(),
            error_rungs(rows),
            "0.04 s for the mask's kernel beside 2.6 s for the baseline (RTX 2080 Ti, layer not given)",
            MaskedGradientJudge(),
        ),
        Ladder(
            "gradient of weights",
            gradient,
            gradient,
            own,
            gradient_rungs(rows),
            "formerly about 40 times as fast as the baseline (layer not given)",
        ),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Climbed:
    """A ladder with the times of its rungs."""

    ladder: Ladder
    programs: Mapping[str, Program]
    """Programs that were timed: rungs by their names, and our answer."""
    refused: Mapping[str, str]
    """Rungs that are not legal for this layer, with the reason."""
    standings: Standings

    @classmethod
    def of(cls, ladder: Ladder, ref: DeviceRef, store: str | None, seed: int) -> Climbed:
        """Verifies and times one ladder."""
        device = ref.device()
        gate = Gate(ladder.problem, device)
        reasons = {rung.name: gate.why_not(ladder.family, rung.config) for rung in ladder.rungs}
        refused = {name: why for name, why in reasons.items() if why is not None}
        legal = (rung for rung in ladder.rungs if rung.name not in refused)
        programs = {rung.name: gate.program(ladder.family, rung.config) for rung in legal}
        programs[OURS] = ladder.answer(device, store)
        return cls(ladder, programs, refused, standings(ladder.problem, programs, ref, seed, ladder.judge))

    @property
    def failures(self) -> dict[str, Failure]:
        """Programs that are not right."""
        return {name: each for name, each in self.standings.programs.items() if isinstance(each, Failure)}

    def standing(self, name: str) -> Standing | None:
        found = self.standings.programs.get(name)
        return found if isinstance(found, Standing) else None

    def over(self, name: str | None, timing: Timing) -> float | None:
        """How many times as fast as a rung something is; None if that rung has no time."""
        other = None if name is None else self.standing(name)
        return None if other is None else other.timing.median_ns / timing.median_ns

    def rows(self) -> list[dict[str, Any]]:
        """JSON values of all rungs, of our answer, and of what ran beside them."""
        first = self.ladder.rungs[0].name
        rungs = [self._row(rung.name, first, rung.before, rung.config.values()) for rung in self.ladder.rungs]
        ours = self.programs[OURS]
        own = {**self._row(OURS, first, None, ours.config.values()), "family": ours.family}
        beside = [
            {
                "name": each.name,
                "note": each.note,
                **_times(each.timing),
                "over_baseline": self.over(first, each.timing),
            }
            for each in self.standings.baselines
        ]
        return [*rungs, own, *beside]

    def _row(self, name: str, first: str, before: str | None, config: Mapping[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name, "config": dict(config), "before": before}
        standing, failure = self.standing(name), self.failures.get(name)
        if standing is None:
            return {**row, "failure": self.refused[name] if failure is None else f"{failure.kind}: {failure.message}"}
        measurement = standing.measurement
        return {
            **row,
            **_times(standing.timing),
            "over_baseline": self.over(first, standing.timing),
            "over_before": self.over(before, standing.timing),
            "registers": measurement.registers,
            "spill_bytes": measurement.spill_bytes,
            "max_error": measurement.max_error,
        }

    def document(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "kernel": self.ladder.name,
            "problem_key": self.ladder.problem.key(),
            "rows": self.rows(),
            "document": self.ladder.claim,
            "environment": dict(self.standings.environment),
            "left_out": [dataclasses.asdict(each) for each in self.standings.left_out],
        }

    def show(self) -> None:
        """Prints the table."""
        print(f"\n{self.ladder.name}: {self.ladder.problem.key()}")
        timing = next((each.timing for each in self.standings.programs.values() if isinstance(each, Standing)), None)
        if timing is not None:
            print(f"medians, taken in turns, {conditions_key(timing.policy)}")
        print()
        print_table(HEADER, ([*self._cells(row)] for row in self.rows()))
        print()
        print_facts([("document", self.ladder.claim), *left_out_facts(self.standings.left_out)])

    def _cells(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        name, config = row["name"], self._changes(row)
        if "failure" in row:
            return name, f"{config}: {row['failure']}", *["-"] * (len(HEADER) - 2)
        spread = f"{format_time(row['p20_ns'])} to {format_time(row['p80_ns'])}"
        speed_ups = (_times_as_fast(row.get(key)) for key in ("over_baseline", "over_before"))
        counts = ("-" if row.get(key) is None else str(row[key]) for key in ("registers", "spill_bytes"))
        return name, config, format_time(row["median_ns"]), spread, *speed_ups, *counts

    def _changes(self, row: Mapping[str, Any]) -> str:
        """The whole config of the first rung and what others change in the rung before; the family of our answer; why
        a baseline was timed otherwise.
        """
        if "family" in row:
            return str(row["family"])
        rungs = {rung.name: rung for rung in self.ladder.rungs}
        if row["name"] not in rungs:
            return row["note"] or "-"
        rung = rungs[row["name"]]
        old = rungs[rung.before].config.values() if rung.before else {}
        return ", ".join(f"{name}={value}" for name, value in rung.config.items if old.get(name) != value)


HEADER = ("rung", "config", "median", "20% to 80%", "over baseline", "over rung before", "registers", "spilled bytes")


def _times(timing: Timing) -> dict[str, Any]:
    return {
        "median_ns": timing.median_ns,
        "p20_ns": timing.p20_ns,
        "p80_ns": timing.p80_ns,
        "samples": timing.samples,
        "conditions": conditions_key(timing.policy),
    }


def _times_as_fast(speed_up: float | None) -> str:
    return "-" if speed_up is None else f"{speed_up:.2f}x"


def bench_ladder(
    input_shape: InputOption = USUAL_INPUT,
    filters: FiltersOption = 32,
    taps: TapsOption = 3,
    rows: RowsOption = 4,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> int:
    """Time the kernels of "Optimizing a CNN in CUDA" rung by rung, beside our own answer and cuDNN.

    Each rung is generated, verified against float64 and timed in turns with all others; padding and masking are part of
    its time. Exit code 1 if a rung is wrong.
    """
    if rows not in ROWS:
        raise BadArgument(f"--rows must be one of {', '.join(map(str, ROWS))}; got {rows}")
    images, channels, height, width = four(input_shape, "--input", f"N,C,H,W, such as {USUAL_INPUT}")
    ref = DeviceRef.parse(device)
    made = ladders((images, channels, height, width), filters, taps, rows)
    climbed = [Climbed.of(ladder, ref, store, seed) for ladder in made]
    if json:
        print_json({"device": ref.device().spec(), "kernels": [each.document() for each in climbed]})
    else:
        facts = ", ".join(f"{name} {value}" for name, value in climbed[0].standings.environment.items())
        print(f"{ref.device().name}, {facts}")
        for each in climbed:
            each.show()
    return 1 if any(each.failures for each in climbed) else 0
