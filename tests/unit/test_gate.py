"""No config outside its family's space reaches a program, and no family's fault ends a look-up."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

from builders import winner
from warpsmith.errors import BadArgument
from warpsmith.generator import registry
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.operation import Operation
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.ranking import likely_first
from warpsmith.generator.selection import Selection
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.plans.lookup import find, known_configs, matches
from warpsmith.plans.match import MatchKind
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.tuner.spaces.regions import plan_sweep

ROOT = Path(__file__).parents[2]
GPU = dataclasses.replace(H200, name="Test GPU")
PROBLEM = Filter2d(image=(480, 640), filter=(3, 3))
PLAIN = Filter2dPlain()
ILLEGAL, LEGAL = Config.of({"rows": 3}), Config.of({"rows": 4})


class Fake(Family):
    """A family that is likely to win and has a chosen fault."""

    name = "filter2d_fake"

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def _fail(self, place: str) -> None:
        if self._fault == place:
            raise KeyError(f"{place}\nof the fake")

    def why_not(self, problem: Problem, device: Device) -> str | None:  # noqa: ARG002
        self._fail("why_not")
        return None

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002
        self._fail("space")
        rule = Constraint("rows are even", lambda rows: rows % 2 == 0)
        return Space((Parameter("rows", (2, 3, 4), "of a walk"),), (rule,))

    def is_likely(self, problem: Problem, device: Device) -> bool:  # noqa: ARG002
        self._fail("is_likely")
        return True

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        self._fail("default")
        return ILLEGAL if self._fault == "illegal" else LEGAL

    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:  # noqa: ARG002
        self._fail("starts")
        return (ILLEGAL, LEGAL)

    def carried(self, config: Config, home: Subject, problem: Problem, device: Device) -> Config | None:  # noqa: ARG002
        self._fail("carried")
        return ILLEGAL if self._fault == "carries" else LEGAL

    def program(self, problem: Problem, config: Config) -> Program:
        self._fail("program")
        assert config == LEGAL
        plain = PLAIN.program(problem, PLAIN.default(problem, H200))
        return dataclasses.replace(plain, family=self.name, config=config)


@pytest.fixture
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The fake with the fault of the test's parameter, as the first family of image filters."""
    made = Fake(request.param)
    operation = Operation(Filter2d, {each.name: lambda each=each: each for each in (made, PLAIN)}, PLAIN.name)
    monkeypatch.setattr(registry, "OPERATIONS", {**registry.OPERATIONS, "filter2d": operation})
    return made


def with_faults(*faults: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fake", faults, indirect=True)


@with_faults("none")
def test_the_fake_answers_where_it_has_no_fault(fake: Fake) -> None:
    assert find(PROBLEM, GPU, StoreChain(())).program.family == fake.name


@with_faults("illegal", "default", "program", "why_not", "space")
class TestFaults:
    """The plain family answers if another family's default is illegal or raises."""

    def test_the_next_family_answers(self, fake: Fake) -> None:
        match = find(PROBLEM, GPU, StoreChain(()))
        assert match.kind is MatchKind.DEFAULT
        assert match.program.family == PLAIN.name
        assert [fake.name in reason for reason in match.reasons].count(True) == (fake._fault != "why_not")
        assert all("\n" not in reason for reason in match.reasons)

    def test_a_caller_who_names_the_family_is_told_why_not(self, fake: Fake) -> None:
        with pytest.raises(BadArgument, match=fake.name) as caught:
            find(PROBLEM, GPU, StoreChain(()), Selection(fake.name))
        assert "\n" not in str(caught.value)

    def test_a_search_begins_with_what_is_legal(self, fake: Fake) -> None:
        known = known_configs(PROBLEM, GPU, StoreChain(()), 8)
        assert (fake.name, ILLEGAL) not in known
        if fake._fault != "program":
            assert known[0][0] == PLAIN.name


@with_faults("is_likely")
def test_a_model_that_fails_leaves_the_family_among_the_others(fake: Fake) -> None:
    assert [each.name for each in likely_first((PLAIN, fake), PROBLEM, GPU)] == [PLAIN.name, fake.name]


@with_faults("carried", "carries")
def test_a_winner_that_cannot_be_carried_over_is_passed_over(fake: Fake, tmp_path: Path) -> None:
    record = winner(dataclasses.replace(PROBLEM, image=(500, 640)), device=GPU, family=fake)
    with Store.open(str(tmp_path / "store.db"), write=True) as store:
        store.put_winner(record)
        match = find(PROBLEM, GPU, StoreChain((store,)))
    assert (match.kind, match.program.config) == (MatchKind.DEFAULT, LEGAL)


@with_faults("none")
def test_answers_go_on_to_the_plain_family(fake: Fake) -> None:
    found = [match.program.family for match in matches(PROBLEM, GPU, StoreChain(()))]
    assert found == [fake.name, PLAIN.name]


@with_faults("illegal", "starts")
def test_only_legal_starts_come_through(fake: Fake) -> None:
    starts = Gate(PROBLEM, GPU).starts(fake)
    assert starts == (LEGAL,)


@with_faults("none")
def test_no_program_is_made_of_an_illegal_config(fake: Fake) -> None:
    gate = Gate(PROBLEM, GPU)
    with pytest.raises(IllegalConfig, match="rows are even"):
        gate.program(fake, ILLEGAL)
    assert gate.program_if_legal(fake, ILLEGAL) is None
    assert gate.program(fake, LEGAL).family == fake.name


@pytest.mark.parametrize("family", registry.FAMILIES, ids=lambda family: family.name)
def test_a_family_is_refused_for_a_problem_of_another_operation(family: Family) -> None:
    operation = family.name.split("_")[0]
    other = PROBLEM if operation != "filter2d" else Fft(8)
    assert Gate(other, H200).why_unable(family) == f"solves {operation} only"


@with_faults("why_not", "space", "starts")
def test_the_gate_remembers_what_a_family_raised(fake: Fake) -> None:
    gate = Gate(PROBLEM, GPU)
    gate.starts(fake)
    assert isinstance(gate.failures[fake.name], KeyError)
    assert (gate.space_if_able(fake) is None) == (fake._fault != "starts")


@with_faults("illegal", "default", "why_not", "space")
def test_a_sweep_leaves_out_a_family_without_a_legal_default(fake: Fake) -> None:
    assert {plan.region.family for plan in plan_sweep(PROBLEM, GPU, 2, 0)} == {PLAIN.name}
    with pytest.raises(BadArgument, match=fake.name):
        plan_sweep(PROBLEM, GPU, 2, 0, (fake,))


METHODS = {"program": 2, "default": 2, "starts": 2, "space": 2, "why_not": 2, "is_legal": 3, "carried": 4}
"""Arguments of family methods that state legality, or that make a config or a program."""
ASKING_FILES = (
    *(path for path in (ROOT / "src").rglob("*.py") if path.name != "program_server.py"),
    *(ROOT / "tuner").rglob("*.py"),
    ROOT / "generator" / "registry.py",
    ROOT / "generator" / "ranking.py",
    ROOT / "generator" / "conv2d" / "fourier" / "sharing.py",
)
"""Files that ask families: all but the families, their parts, the gate, and the server of an earlier generator, whose
fingerprint proves what it generates.
"""


def asked_around_the_gate(text: str) -> list[int]:
    """Lines that call a family's own method, or pass it on, in place of the gate's."""
    lines = set[int]()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS and node.attr != "space":  # a search has one too
            owner = ast.unparse(node.value).rpartition(".")[2].lstrip("_")
            if owner.endswith("family") or "family_named" in owner or "simplest" in owner:
                lines.add(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            owner = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
            all_given = len(node.args) == METHODS[node.func.attr]
            if (all_given or any(isinstance(each, ast.Starred) for each in node.args)) and owner not in OWNERS:
                lines.add(node.lineno)
    return sorted(lines)


OWNERS = ("gate", "evaluator")
"""Names of objects that may be asked for the program of a config; the evaluator asks its gate."""


def test_nothing_outside_of_the_families_asks_one_around_the_gate() -> None:
    """A family's own `default`, `starts`, `carried` and `program` check nothing, and their errors end the caller."""
    found = {path: asked_around_the_gate(path.read_text()) for path in ASKING_FILES}
    assert {str(path.relative_to(ROOT)): lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "family.default(problem, device)",
        "simplest_family(operation).starts(*here)",
        "self._families[name].program(problem, config)",
        "asked(family.carried)",
        "stage.family.space(problem, device)",
    ],
)
def test_a_family_that_is_asked_around_the_gate_is_seen(text: str) -> None:
    assert asked_around_the_gate(text) == [1]


@pytest.mark.parametrize("text", ["gate.default(family)", "evaluator.program(name, config)", "space.why_not(config)"])
def test_the_gate_is_not_mistaken_for_a_family(text: str) -> None:
    assert asked_around_the_gate(text) == []
