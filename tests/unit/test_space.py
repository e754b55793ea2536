"""Search spaces: contents, refusals with reasons, and equality."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WIDTH = Parameter("width", (1, 2, 4, 8), "outputs a thread")
VECTOR = Parameter("vector", (1, 2, 4), "pixels in one load")
STORE = Parameter("store", ("plain", "streaming"), "how results are stored")
PARAMETERS = (WIDTH, VECTOR, STORE)

DIVIDES = Constraint("the vector divides the width", lambda width, vector: width % vector == 0)
STREAMS = Constraint("streaming needs whole vectors", lambda store, vector: store == "plain" or vector == 4)
FITS = Constraint("eight outputs need too many registers", lambda width: width < 8)
NOTHING_FITS = Constraint("nothing fits this device", lambda: False)

SPACES = {
    "free": Space(PARAMETERS, ()),
    "one rule": Space(PARAMETERS, (DIVIDES,)),
    "rules that read later parameters first": Space(PARAMETERS, (STREAMS, FITS, DIVIDES)),
    "parameters in another order": Space((STORE, VECTOR, WIDTH), (DIVIDES, STREAMS)),
    "a rule that reads nothing": Space(PARAMETERS, (DIVIDES, NOTHING_FITS)),
    "one parameter": Space((WIDTH,), (FITS,)),
    "one parameter and a rule that reads nothing": Space((WIDTH,), (NOTHING_FITS,)),
    "no parameters": Space((), ()),
}


def every_combination(space: Space) -> list[Config]:
    names = [parameter.name for parameter in space.parameters]
    values = (parameter.values for parameter in space.parameters)
    return [Config.of(dict(zip(names, chosen, strict=True))) for chosen in itertools.product(*values)]


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


class TestPoints:
    def test_configs_are_the_combinations_that_break_no_rule(self, space: Space) -> None:
        legal = [config for config in every_combination(space) if space.why_not(config) is None]
        assert list(space.configs()) == legal

    def test_contains_and_why_not_agree(self, space: Space) -> None:
        for config in every_combination(space):
            assert space.contains(config) is (space.why_not(config) is None)

    def test_configs_start_anew_each_time(self, space: Space) -> None:
        half_read = space.configs()
        next(half_read, None)
        assert list(space.configs()) == list(space.configs())

    def test_every_config_is_drawn_sooner_or_later_and_no_other(self, space: Space) -> None:
        rng = random.Random(0)
        assert {space.drawn(rng) for _ in range(1000)} == (set(space.configs()) or {None})

    def test_a_space_is_empty_where_a_part_of_it_is(self, space: Space) -> None:
        assert (space.why_empty is None) is (next(space.configs(), None) is not None)

    def test_by_hand(self) -> None:
        found = {(c.integer("width"), c.integer("vector"), c.text("store")) for c in SPACES["one rule"].configs()}
        pairs = {(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (8, 4)}
        assert found == {(*pair, store) for pair in pairs for store in ("plain", "streaming")}


class TestWhyNot:
    SPACE = Space(PARAMETERS, (DIVIDES, STREAMS))

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            ({"width": 4, "vector": 2, "store": "plain"}, None),
            ({"width": 2, "vector": 4, "store": "plain"}, "the vector divides the width"),
            ({"width": 4, "vector": 2, "store": "streaming"}, "streaming needs whole vectors"),
            ({"width": 3, "vector": 1, "store": "plain"}, "width=3 is not one of [1, 2, 4, 8]"),
            ({"width": 4, "vector": 2, "store": "lazy"}, "store=lazy is not one of ['plain', 'streaming']"),
            ({"width": 4, "vector": 2}, "parameters ['store'] are missing or unknown"),
            (
                {"width": 4, "vector": 2, "store": "plain", "unroll": 1},
                "parameters ['unroll'] are missing or unknown",
            ),
            ({}, "parameters ['store', 'vector', 'width'] are missing or unknown"),
        ],
    )
    def test_says_what_is_wrong(self, values: dict[str, Value], why: str | None) -> None:
        assert self.SPACE.why_not(Config.of(values)) == why


@pytest.mark.parametrize("rule", [lambda widht: widht < 8, lambda width, tile: width < tile])
def test_a_rule_over_an_unknown_parameter_is_refused_at_once(rule: Callable[..., bool]) -> None:
    with pytest.raises(ValueError, match=r"constraint 'fits' reads unknown parameters \['(widht|tile)'\]"):
        Space(PARAMETERS, (Constraint("fits", rule),))


def random_space(rng: random.Random) -> Space:
    """A space of five parameters of three values, with random rules that forbid pairs and triples."""
    parameters = tuple(Parameter(name, (0, 1, 2), name) for name in "abcde")
    rules = []
    for number in range(rng.randint(1, 6)):
        reads = tuple(rng.sample("abcde", rng.randint(1, 3)))
        legal = {values for values in itertools.product((0, 1, 2), repeat=len(reads)) if rng.random() < 0.5}
        rules.append(Constraint(f"rule {number}", lambda *values, legal=legal: values in legal, reads))
    return Space(parameters, tuple(rules))


def test_walks_that_jump_back_skip_no_config() -> None:
    rng = random.Random(3)
    for _ in range(150):
        space = random_space(rng)
        legal = [config for config in every_combination(space) if space.contains(config)]
        assert list(space.configs()) == legal
        wanted = {parameter.name: rng.randrange(3) for parameter in space.parameters}
        near = [sorted((0, 1, 2), key=lambda value, here=here: abs(value - here)) for here in wanted.values()]
        order = (Config.of(dict(zip(wanted, values, strict=True))) for values in itertools.product(*near))
        assert space.like(wanted) == next(filter(space.contains, order), None)


class TestNarrowed:
    SPACE = Space(PARAMETERS, (DIVIDES, STREAMS))

    def test_has_the_points_that_have_the_chosen_values(self) -> None:
        narrowed = self.SPACE.narrowed({"width": (4, 8), "store": ["streaming"]})
        wanted = [c for c in self.SPACE.configs() if c.integer("width") >= 4 and c.text("store") == "streaming"]
        assert list(narrowed.configs()) == wanted != []

    def test_keeps_the_order_of_the_space_and_what_is_not_named(self) -> None:
        narrowed = self.SPACE.narrowed({"width": (8, 1, 8)})
        assert [parameter.values for parameter in narrowed.parameters] == [(1, 8), VECTOR.values, STORE.values]
        assert [parameter.meaning for parameter in narrowed.parameters] == [each.meaning for each in PARAMETERS]
        assert narrowed.constraints == self.SPACE.constraints
        assert self.SPACE.narrowed({}).fingerprint == self.SPACE.fingerprint != narrowed.fingerprint

    @pytest.mark.parametrize(
        ("choices", "why"),
        [
            ({"height": (1,)}, r"unknown parameters \['height'\]; the space has \['width', 'vector', 'store'\]"),
            ({"width": (4, 3)}, r"width has no value 3; choose from \[1, 2, 4, 8\]"),
            ({"width": ("4",)}, r"width has no value 4; choose from \[1, 2, 4, 8\]"),
            ({"store": ()}, r"store needs a value; choose from \['plain', 'streaming'\]"),
        ],
    )
    def test_refuses_what_the_space_does_not_have(self, choices: dict[str, tuple[Value, ...]], why: str) -> None:
        with pytest.raises(ValueError, match=why):
            self.SPACE.narrowed(choices)


class TestMoves:
    def test_neighbours_differ_in_one_parameter_and_are_legal(self, space: Space) -> None:
        legal = set(space.configs())
        for config in legal:
            neighbours = list(space.neighbours(config))
            near = {other for other in legal if len(set(other.items) - set(config.items)) == 1}
            assert set(neighbours) == near
            assert len(neighbours) == len(near)

    def test_what_is_allowed_after_a_change_is_what_is_legal(self, space: Space) -> None:
        for before, after in itertools.product(space.configs(), every_combination(space)):
            changed = [name for name, value in after.items if before.values()[name] != value]
            assert space.allows(after.values(), changed) is space.contains(after)

    def test_like_keeps_a_legal_config_as_it_is(self, space: Space) -> None:
        for config in space.configs():
            assert space.like(config.values()) == config

    def test_like_finds_a_legal_config_wherever_there_is_one(self, space: Space) -> None:
        legal = set(space.configs())
        for config in every_combination(space):
            assert space.like(config.values()) in (legal or {None})

    def test_like_takes_the_nearest_value_where_one_cannot_stay(self) -> None:
        space = Space((WIDTH, VECTOR, STORE), (FITS, DIVIDES))
        found = space.like({"width": 8, "vector": 4, "store": "streaming"})
        assert found == Config.of({"width": 4, "vector": 4, "store": "streaming"})
        found = space.like({"width": 2, "vector": 4, "store": "streaming"})
        assert found == Config.of({"width": 2, "vector": 2, "store": "streaming"})


class TestRuleWithNamedParameters:
    def test_reads_them_in_their_order(self) -> None:
        rule = Constraint("recorded", lambda *values: values in {(2, "plain"), (4, "streaming")}, ("width", "store"))
        assert rule.parameters == ("width", "store")
        found = {(c.integer("width"), c.text("store")) for c in Space(PARAMETERS, (rule,)).configs()}
        assert found == {(2, "plain"), (4, "streaming")}


class TestFingerprint:
    BASE = Space(PARAMETERS, (DIVIDES,))

    @pytest.mark.parametrize(
        "other",
        [
            Space((Parameter("width", (1, 2, 4), WIDTH.meaning), VECTOR, STORE), (DIVIDES,)),
            Space((Parameter("width", (1, 2, 4, 16), WIDTH.meaning), VECTOR, STORE), (DIVIDES,)),
            Space((*PARAMETERS, Parameter("unroll", (1,), "rows in a turn")), (DIVIDES,)),
            Space(PARAMETERS, ()),
            Space(PARAMETERS, (DIVIDES, STREAMS)),
            Space(PARAMETERS, (Constraint("the vector divides 16", lambda vector: 16 % vector == 0),)),
        ],
        ids=["a value less", "another value", "a parameter more", "a rule less", "a rule more", "another rule"],
    )
    def test_changes_with_what_may_be_chosen(self, other: Space) -> None:
        assert other.fingerprint != self.BASE.fingerprint

    def test_is_the_same_for_the_same_space(self) -> None:
        used = Space(PARAMETERS, (DIVIDES,))
        before = used.fingerprint
        list(used.configs())
        used.why_not(Config.of({}))
        assert used.fingerprint == before == self.BASE.fingerprint

    def test_does_not_depend_on_the_process(self) -> None:
        # A digest, not Python's hash(), which differs from run to run: studies are found again by it.
        assert self.BASE.fingerprint == "d3e81446a50dfc06"


class TestConfig:
    def test_has_no_order(self) -> None:
        one, other = Config.of({"width": 4, "store": "plain"}), Config.of({"store": "plain", "width": 4})
        assert one == other
        assert hash(one) == hash(other)
        assert one.key() == other.key() == str(other) == "store=plain width=4"

    def test_differs_where_a_value_does(self) -> None:
        assert Config.of({"width": 4}) != Config.of({"width": 8})
        assert Config.of({"width": 4}) != Config.of({"width": "4"})

    def test_gives_back_its_values(self) -> None:
        values: dict[str, Value] = {"width": 4, "store": "plain"}
        assert Config.of(values).values() == values
        assert Config.of(Config.of(values).values()) == Config.of(values)

    def test_values_have_one_type(self) -> None:
        config = Config.of({"width": 4, "store": "plain"})
        assert (config.integer("width"), config.text("store")) == (4, "plain")
        with pytest.raises(TypeError, match="parameter store is 'plain', not an integer"):
            config.integer("store")
        with pytest.raises(TypeError, match="parameter width is 4, not a word"):
            config.text("width")


class TestJoined:
    """The spaces of stages as one."""

    ROWS = Space(
        (Parameter("rows", (1, 2, 4), "rows a thread"), Parameter("threads", (32, 64), "of a block")),
        (Constraint("at most 128 rows a block", lambda rows, threads: rows * threads <= 128),),
    )
    SPACE = Space.joined({"x": ROWS, "y": ROWS})

    def test_has_every_pair_of_configs(self) -> None:
        configs = list(self.SPACE.configs())
        assert len(configs) == len(list(self.ROWS.configs())) ** 2
        assert {(each.of_stage("x"), each.of_stage("y")) for each in configs} == {
            (x, y) for x in self.ROWS.configs() for y in self.ROWS.configs()
        }

    def test_a_config_is_joined_of_its_stages(self) -> None:
        for config in self.SPACE.configs():
            assert Config.joined({stage: config.of_stage(stage) for stage in ("x", "y")}) == config

    def test_says_which_stage_breaks_a_rule(self) -> None:
        legal, broken = Config.of({"rows": 1, "threads": 32}), Config.of({"rows": 4, "threads": 64})
        assert self.SPACE.why_not(Config.joined({"x": legal, "y": broken})) == "y: at most 128 rows a block"

    def test_has_a_fingerprint_of_its_own(self) -> None:
        assert self.SPACE.fingerprint != Space.joined({"y": self.ROWS, "x": self.ROWS}).fingerprint


class TestParts:
    """Parameters that no rule ties together are drawn by themselves."""

    STAGES = 12
    FULL = Space(
        tuple(Parameter(name, tuple(range(20)), "of a stage") for name in ("a", "b", "c", "d")),
        (Constraint("a and b are alike", lambda a, b: a == b), Constraint("c is less than d", lambda c, d: c < d)),
    )
    EMPTY = Space(FULL.parameters, (*FULL.constraints, Constraint("a is more than b", lambda a, b: a > b)))

    def joined(self, last: Space) -> Space:
        """A pipeline of many stages; a walk over all values would try 20^48 of them."""
        return Space.joined({f"stage{number}": self.FULL for number in range(self.STAGES)} | {"last": last})

    def test_an_empty_last_stage_is_found_before_a_draw(self) -> None:
        space = self.joined(self.EMPTY)
        assert space.why_empty == "no values of last.a, last.b are legal together"
        assert space.drawn(random.Random(0)) is None
        assert space.like(dict.fromkeys((each.name for each in space.parameters), 3)) is None

    def test_a_draw_of_stages_is_the_draw_of_each(self) -> None:
        space = self.joined(self.FULL)
        for seed in range(20):
            drawn = space.drawn(random.Random(seed))
            assert drawn is not None
            assert space.contains(drawn)

    def test_a_draw_is_the_first_of_a_walk_over_all_parameters(self) -> None:
        for seed in range(50):
            rng = random.Random(seed)
            orders = [rng.sample(each.values, len(each.values)) for each in self.FULL.parameters]
            assert self.FULL.drawn(random.Random(seed)) == next(self.FULL._walk(orders))

    def test_a_part_that_takes_too_long_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.generator.space_walk.MOST_STEPS", 100)
        assert self.EMPTY.drawn(random.Random(0)) is None
        assert self.FULL.drawn(random.Random(0)) is not None
