"""Pinned parameters: what they allow, what is said where they allow nothing, and which stored kernel answers them."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsmith as ws
from builders import SMALL, timing, winner
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pins import NO_PINS, Pins
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES, able_families, families_for
from warpsmith.generator.selection import Selection
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.plans.lookup import find
from warpsmith.plans.make import forget_plans
from warpsmith.plans.match import MatchKind
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import merge_stores
from warpsmith.store.prune import Unwanted, prune_store
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import StoreReader

GPU = dataclasses.replace(H200, name="Test GPU")
PROBLEM = Filter2d(image=(480, 640), filter=(3, 3))
BY_NAME = {family.name: family for family in FAMILIES}
PLAIN, WINDOW = BY_NAME["filter2d_plain"], BY_NAME["filter2d_window"]
QUEUED = "median, 5 runs a sample, queued first, in turns, cold L2"
TEXTURE = Pins.of({"path": "texture"})
ODD = "rows of shared memory are even"
SPACE = Space(
    (
        Parameter("path", ("global", "shared"), "where pixels come from"),
        Parameter("rows", (1, 2, 3, 4), "rows of a thread"),
        Parameter("columns", (1, 2), "columns of a thread"),
    ),
    (Constraint(ODD, lambda path, rows: path == "global" or rows % 2 == 0),),
)


def best(family: Family, ns: float, problem: Problem = PROBLEM, **choices: int | str) -> Record:
    return winner(problem, timing(ns, policy=QUEUED), GPU, family=family, choices=choices)


class TestPins:
    def test_equal_however_they_are_given(self) -> None:
        given = Pins.of({"rows": [4, 2, 4], "path": "shared"})
        assert given == Pins.parse(["path=shared", " rows = 2, 4 "]) == Pins.parse(["rows=4,2", "path=shared"])
        assert given.key() == "path=shared rows=2,4"
        assert Pins.of(None) == Pins.parse([]) == NO_PINS
        assert not NO_PINS

    @pytest.mark.parametrize("text", ["rows", "rows=", "=4", "rows=4,,2", ""])
    def test_text_of_another_form_is_refused(self, text: str) -> None:
        with pytest.raises(BadArgument, match="--set takes NAME=VALUE"):
            Pins.parse([text])

    def test_a_name_set_twice_is_refused_unless_to_the_same(self) -> None:
        assert Pins.parse(["rows=4", "rows=4"]).key() == "rows=4"
        with pytest.raises(BadArgument, match="rows is set twice, to 4 and to 8"):
            Pins.parse(["rows=4", "rows=8"])

    @pytest.mark.parametrize(
        "given", [["rows"], "rows=4", {"rows": 1.5}, {"rows": True}, {"rows": []}, {4: 4}, {"": 1}]
    )
    def test_other_types_are_refused(self, given: Any) -> None:
        with pytest.raises(BadArgument):
            Pins.of(given)

    def test_the_narrowed_space_has_exactly_the_configs_inside(self) -> None:
        pins = Pins.of({"path": "shared", "rows": (2, 3)})
        assert set(pins.narrowed(SPACE).configs()) == {each for each in SPACE.configs() if pins.allow(each)}
        assert pins.narrowed(SPACE).drawn(random.Random(1)) is not None
        assert NO_PINS.narrowed(SPACE) is SPACE
        assert not pins.allow(Config.of({"path": "shared"}))

    @pytest.mark.parametrize(
        ("pins", "why"),
        [
            ({"path": "shared", "rows": 4}, None),
            ({"path": "texture"}, "path=texture is none of global, shared"),
            ({"path": ("texture", "shared")}, None),
            ({"tail": 1, "rows": 2}, "it has no parameter tail"),
            ({"path": "shared", "rows": (1, 3)}, f"they contradict each other: {ODD}"),
        ],
    )
    def test_why_none_is_inside(self, pins: Any, why: str | None) -> None:
        assert Pins.of(pins).why_not(SPACE) == why


class TestBranches:
    """The basis of a layer by transforms decides which values the other parameters have."""

    LAYER = ws.Conv2d((4, 8, 27, 27), (8, 8, 3, 3))
    FAMILY = BY_NAME["conv2d_fft"]

    def test_a_pinned_basis_is_the_only_one(self) -> None:
        gate = Gate(self.LAYER, GPU, Pins.of({"basis": "32x32"}))
        assert gate.why_unable(self.FAMILY) is None
        assert gate.default(self.FAMILY).text("basis") == "32x32"
        drawn = gate.space(self.FAMILY).drawn(random.Random(1))
        assert drawn is not None
        assert drawn.text("basis") == "32x32"

    def test_a_pinned_value_of_another_parameter_is_kept_on_every_basis(self) -> None:
        pins = Pins.of({"first.twiddles": "computed"})
        space = Gate(self.LAYER, GPU, pins).space(self.FAMILY)
        rng = random.Random(1)
        drawn = [config for _ in range(8) if (config := space.drawn(rng)) is not None]
        assert len({config.text("basis") for config in drawn}) > 1
        assert all(map(pins.allow, drawn))

    @pytest.mark.parametrize(
        ("pins", "why"),
        [
            ({"basis": "33x33"}, "basis=33x33 is none of 27x27, 27x28"),
            ({"basis": "32x32", "first.x_radices": "27"}, "with basis=32x32: first.x_radices=27 is none of 16, 4x4"),
            ({"rows": 4}, "it has no parameter rows"),
        ],
    )
    def test_why_no_branch_has_one(self, pins: Any, why: str) -> None:
        found = Pins.of(pins).why_not(self.FAMILY.space(self.LAYER, GPU))
        assert found is not None
        assert found.startswith(why)


class TestGate:
    def test_everything_that_passes_is_inside(self) -> None:
        pins = Pins.of({"path": "shared", "rows": (2, 4)})
        gate = Gate(PROBLEM, GPU, pins)
        assert pins.allow(gate.default(WINDOW))
        assert all(map(pins.allow, gate.starts(WINDOW)))
        assert not pins.allow(WINDOW.default(PROBLEM, GPU))
        with pytest.raises(IllegalConfig):
            gate.program(WINDOW, WINDOW.default(PROBLEM, GPU))
        assert gate.program(WINDOW, gate.default(WINDOW)).config == gate.default(WINDOW)

    def test_families_without_the_parameter_are_left_out(self) -> None:
        names = {family.name for family in able_families(Gate(PROBLEM, GPU, Pins.of({"block_strips": 2})))}
        assert names < {family.name for family in families_for(PROBLEM, GPU)}
        assert PLAIN.name not in names

    @pytest.mark.parametrize(
        ("pins", "said"),
        [
            ({"pth": "texture"}, "no family has a parameter pth; did you mean path?"),
            ({"speed": 1}, "no family has a parameter speed; there are ahead, "),
            ({"path": "texture", "rows": 7}, "rows=7 is none of 1, 2, 3, 4, 6, 8"),
            (
                {"path": "texture", "load_vector": 4},
                "contradict each other: a texture object gives one element a fetch",
            ),
        ],
    )
    def test_one_line_says_why_none_is_left(self, pins: Any, said: str) -> None:
        with pytest.raises(BadArgument) as caught:
            find(PROBLEM, GPU, StoreChain(()), Selection(pins=Pins.of(pins)))
        (line,) = str(caught.value).splitlines()
        assert said in line
        assert line.startswith(f"{Pins.of(pins)} for {PROBLEM.key()}: ")


@pytest.fixture
def chain(store: Store) -> Iterator[StoreChain[Store]]:
    """The window won with pixels of global memory in 100 ns; with a texture it took 300 in a pinned search."""
    store.put_winner(best(WINDOW, 100.0, path="global"))
    store.put_pinned_winner(best(WINDOW, 300.0, path="texture", load_vector=1), TEXTURE)
    return StoreChain((store,))


class TestLookUps:
    def test_the_winner_of_a_pinned_search_answers_its_pins_alone(self, chain: StoreChain[Store]) -> None:
        match = find(PROBLEM, GPU, chain, Selection(pins=TEXTURE))
        assert (match.kind, match.record) == (MatchKind.EXACT, best(WINDOW, 300.0, path="texture", load_vector=1))
        for selection in (Selection(), Selection(WINDOW.name), Selection(pins=Pins.of({"path": "global"}))):
            match = find(PROBLEM, GPU, chain, selection)
            assert match.record is not None
            assert match.record.timing.median_ns == 100.0

    def test_it_is_no_runner_up(self, store: Store, chain: StoreChain[Store]) -> None:
        subject = PROBLEM.key(), GPU.key()
        reader = StoreReader.open(Path(store.location)) if Path(store.location).exists() else store
        for each in (store, reader):
            assert each.runners_up(*subject) == each.beaten(WINDOW.name) == each.family_times("filter2d") == ()
            assert [record.timing.median_ns for record in each.pinned_winners(*subject)] == [300.0]
        assert find(PROBLEM, GPU, chain, Selection(PLAIN.name)).kind is MatchKind.DEFAULT

    def test_the_fastest_stored_kernel_inside_answers(self, store: Store, chain: StoreChain[Store]) -> None:
        faster = best(WINDOW, 200.0, path="texture", load_vector=1, rows=16)
        store.put_pinned_winner(faster, Pins.of({"path": "texture", "rows": 16}))
        assert find(PROBLEM, GPU, chain, Selection(pins=TEXTURE)).record == faster
        store.put_winner(best(WINDOW, 50.0, path="texture", load_vector=1, rows=8))
        found = find(PROBLEM, GPU, chain, Selection(pins=TEXTURE)).record
        assert found is not None
        assert found.timing.median_ns == 50.0

    def test_another_size_is_near_and_stays_inside(self, chain: StoreChain[Store]) -> None:
        pins = Pins.of({"path": "global", "rows": 2})
        match = find(dataclasses.replace(PROBLEM, image=(500, 640)), GPU, chain, Selection(pins=pins))
        assert pins.allow(match.program.config)

    def test_nothing_stored_is_a_default_inside(self) -> None:
        match = find(PROBLEM, GPU, StoreChain(()), Selection(pins=TEXTURE))
        assert (match.kind, match.program.config.values()["path"]) == (MatchKind.DEFAULT, "texture")

    def test_plans_of_other_pins_are_others(self, tmp_path: Path, made_file: Path) -> None:
        path = str(shutil.copy(made_file, tmp_path / "store.db"))
        problem = Filter2d(image=(24, 32), filter=(3, 3))
        forget_plans()
        plans = [
            ws.plan(problem, "host", store=path, parameters=pins)
            for pins in (None, {"rows": 2}, {"rows": (2,)}, {"rows": 4}, {})
        ]
        assert plans[1] is plans[2]
        assert plans[1].match.program.config.values()["rows"] == 2
        assert plans[3].match.program.config.values()["rows"] == 4
        assert plans[4].match.program == plans[0].match.program


class TestStores:
    def test_pinned_winners_survive_merges_lines_and_checks(self, store: Store, chain: StoreChain[Store]) -> None:
        subject = PROBLEM.key(), GPU.key()
        kept = chain.stores[0].pinned_winners(*subject)
        assert len(kept) == 1
        lines = list(export_lines(store))
        with Store.open(":memory:", write=True) as other, Store.open(":memory:", write=True) as third:
            import_lines(other, lines)
            merge_stores(third, store)
            assert other.pinned_winners(*subject) == third.pinned_winners(*subject) == kept
            assert [row["pins"] for row in contents_of(third).runners_up] == [TEXTURE.key()]
            merge_stores(third, store)
            assert third.pinned_winners(*subject) == kept
            assert check_store(third) == ()
            prune_store(third, Unwanted(everything=True))
            assert third.pinned_winners(*subject) == ()

    def test_a_slower_one_of_another_store_does_not_replace_it(self, store: Store, chain: StoreChain[Store]) -> None:
        with Store.open(":memory:", write=True) as other:
            other.put_pinned_winner(best(WINDOW, 400.0, path="texture", load_vector=1, rows=2), TEXTURE)
            merge_stores(store, other)
        assert [each.timing.median_ns for each in chain.pinned_winners(PROBLEM.key(), GPU.key())] == [300.0]


class TestCommands:
    ASKED = ("filter2d", "--image", "64x64", "--filter", "3x3", "--device", "host")

    def test_space_lists_parameters_rules_and_size(
        self, document: Callable[..., Any], printed: Callable[..., str]
    ) -> None:
        listed = {each["family"]: each for each in document("space", *self.ASKED)["families"]}
        space = Gate(SMALL, DeviceRef.parse("host").device()).space(PLAIN)
        plain = listed[PLAIN.name]
        assert plain["size"] == len(list(space.configs()))
        assert [each["name"] for each in plain["parameters"]] == [each.name for each in space.parameters]
        assert [each["why"] for each in plain["rules"]] == [each.why for each in space.constraints]
        assert listed[WINDOW.name]["size"] is None
        text = printed("space", *self.ASKED)
        for each in (*space.parameters, *WINDOW.space(SMALL, H200).parameters):
            assert f"| {each.name} | " in text
        assert "a texture object gives one element a fetch" in text

    def test_space_of_pinned_parameters(self, document: Callable[..., Any]) -> None:
        pinned = ("--set", "path=texture", "--set", "rows=2,4")
        (family,) = document("space", *self.ASKED, *pinned, "--method", WINDOW.name)["families"]
        values = {each["name"]: each["values"] for each in family["parameters"]}
        assert (values["path"], values["rows"]) == (["texture"], [2, 4])

    @pytest.mark.parametrize("command", ["space", "tune", "query"])
    def test_refusals_end_with_two(self, command: str, refusal: Callable[..., str]) -> None:
        assert "did you mean path?" in refusal(2, command, *self.ASKED, "--set", "pth=texture")
        assert refusal(2, command, *self.ASKED, "--set", "path").startswith("--set takes NAME=VALUE")

    def test_query_says_that_nothing_is_stored(self, refusal: Callable[..., str]) -> None:
        said = refusal(3, "query", *self.ASKED, "--set", "rows=4")
        assert said.startswith("nothing is stored for filter2d image=64x64 filter=3x3")
        assert "with rows=4" in said
