"""Bases of Fourier layers: which are offered, in which order, and as a parameter of a family's space."""

from __future__ import annotations

import random

import pytest

from builders import measurement, timing, trial
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.fourier.plane_transforms import (
    BASIS,
    LIKELY,
    TILES,
    WHOLE_PLANES,
    Basis,
    bases,
    least_points,
    likely_bases,
    slowness,
)
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.fft.axes import prime_factors
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.store.store import Store
from warpsmith.tuner.run.parts import known_stages
from warpsmith.tuner.search.family_search import FamilySearch


def layer(points: int, taps: int = 3, channels: int = 16) -> Conv2d:
    return Conv2d((16, channels, points, points), (channels, channels, taps, taps))


FFT = FOURIER["conv2d_fft"]
LAYER = layer(13)
FAMILIES = [each for each in FOURIER.values() if each.why_not(LAYER, H200) is None]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


class TestOffered:
    @pytest.mark.parametrize(
        ("points", "sizes"),
        [
            (13, {13, 14, 15, 16}),
            (16, {16}),
            (17, {18, 20, 21, 24, 25, 27, 28, 30, 32}),
            (27, {27, 28, 30, 32}),
            (65, {70, 72, 75, 80, 81, 84, 90, 96, 98, 100, 105, 108, 112, 120, 125, 126, 128}),
        ],
    )
    def test_every_size_of_the_papers_range(self, points: int, sizes: set[int]) -> None:
        """Section 3.4: all sizes with prime factors up to 7 from n to the next power of two."""
        found = bases(layer(points))
        assert {basis.size for basis in found} == {(rows, columns) for rows in sizes for columns in sizes}
        assert len(found) == len(set(found)) == len(sizes) ** 2

    def test_every_size_of_any_layer(self) -> None:
        rng = random.Random(0)
        for _ in range(20):
            rows, columns = rng.randrange(8, 140), rng.randrange(8, 140)
            problem = Conv2d((2, 3, rows, columns), (4, 3, 3, 5), padding=rng.randrange(3))
            for axis in (0, 1):
                least = least_points(problem, axis)
                most = 1 << (least - 1).bit_length()
                good = {n for n in range(least, most + 1) if n in (11, 13) or max(prime_factors(n)) <= 7}
                assert {basis.size[axis] for basis in bases(problem)} == good

    def test_only_multiples_where_the_products_need_them(self) -> None:
        found = bases(layer(13, channels=4), (2, 4))
        assert {basis.size for basis in found} == {(rows, 16) for rows in (14, 16)}

    @pytest.mark.parametrize("points", [11, 13, 27, 35, 49, 65, 75, 224])
    def test_the_likeliest_first(self, points: int) -> None:
        """Pairs of the three smallest sizes of each axis come first, whatever others are expected to take."""
        problem = layer(points)
        found = bases(problem)
        assert found[:LIKELY] == likely_bases(problem)
        smallest = {sorted({basis.rows for basis in found})[place] for place in range(3)}
        assert {basis.rows for basis in likely_bases(problem)} <= smallest
        costs = [basis.frequencies * slowness(basis) for basis in found]
        assert costs[LIKELY:] == sorted(costs[LIKELY:])
        assert costs[0] == min(costs)

    def test_all_tiles_as_they_are_expected_to_take_longer(self) -> None:
        problem, rules = layer(100), FourierParts.rules
        found = TILES.bases(problem, rules)
        costs = [rules.tile_cost_ns(problem, basis) or 0.0 for basis in found]
        assert costs == sorted(costs)
        assert len(found) == len({basis.rows for basis in found}) * len({basis.columns for basis in found}) > 100
        assert TILES.likely(problem, rules) == found[:LIKELY]

    def test_by_the_libraries_too(self) -> None:
        values = next(each.values for each in Conv2dCufft().space(LAYER, H200).parameters if each.name == BASIS)
        assert set(values) == {basis.word for basis in bases(LAYER)}


@every_family
class TestSpace:
    def test_has_a_default_on_every_likely_basis(self, family: Conv2dFft) -> None:
        gate = Gate(LAYER, H200)
        default, *starts = gate.starts(family)
        likely = [basis.word for basis in family.variant.likely(LAYER)]
        assert [each.text(BASIS) for each in (default, *starts[: LIKELY - 1])] == likely
        assert {each.text(BASIS) for each in starts[LIKELY - 1 :]} <= {likely[0]}
        assert default == family.on(family.variant.likely(LAYER)[0]).default(LAYER, H200)

    def test_has_the_configs_of_each_basis(self, family: Conv2dFft) -> None:
        space, rng = family.space(LAYER, H200), random.Random(0)
        assert space.branching.values == tuple(basis.word for basis in family.variant.bases(LAYER))
        largest = max(family.variant.bases(LAYER), key=lambda basis: basis.size)
        found = family.on(largest).space(LAYER, H200).drawn(rng)
        assert found is not None
        assert space.contains(found)
        program = family.program(LAYER, found)
        assert program.family == family.name
        assert program.config.text(BASIS) == largest.word
        assert program.fingerprint == family.on(largest).program(LAYER, found).fingerprint

    def test_refuses_stages_of_another_basis(self, family: Conv2dFft) -> None:
        first, second = family.variant.likely(LAYER)[:2]
        mixed = {**family.on(first).default(LAYER, H200).values(), BASIS: second.word}
        told = family.space(LAYER, H200).why_not(Config.of(mixed))
        assert told is not None
        assert told.startswith(f"with basis={second.word}: ")
        elsewhere = Config.of({**mixed, BASIS: "64x64"})
        told = family.space(LAYER, H200).why_not(elsewhere)
        assert told is not None
        assert told.startswith("basis=64x64 is not one of the ")

    def test_fits_the_stages_to_another_basis(self, family: Conv2dFft) -> None:
        space = family.space(LAYER, H200)
        here = family.default(LAYER, H200)
        for basis in family.variant.bases(LAYER)[:6]:
            there = space.like({**here.values(), BASIS: basis.word})
            assert there is not None
            assert there.text(BASIS) == basis.word
            assert space.contains(there)
            same = set(there.items) & set(here.items)
            assert len(same) > len(here.items) // 2

    def test_is_searched_on_other_bases(self, family: Conv2dFft) -> None:
        space = family.space(LAYER, H200)
        search = FamilySearch(family.name, space, Gate(LAYER, H200).starts(family)[:1], 0)
        target = family.variant.bases(LAYER)[5]

        def time_ns(config: Config) -> float:
            basis = Basis.of(config.text(BASIS))
            return 1e4 + 1e3 * (abs(basis.rows - target.rows) + abs(basis.columns - target.columns))

        asked = []
        for _ in range(120):
            config = search.ask()
            assert config is not None
            asked.append(config)
            search.tell(config, time_ns(config))
        assert all(map(space.contains, asked))
        assert len(set(asked)) == 120
        assert min(map(time_ns, asked)) <= 1.1 * 1e4
        assert len({each.text(BASIS) for each in asked}) >= 8


def test_an_answer_for_an_untuned_layer_makes_one_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Basis] = []
    stages = type(FFT.variant).stages

    def counted(variant: object, parts: FourierParts) -> object:
        asked.append(parts.basis)
        return stages(variant, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(type(FFT.variant), "stages", counted)
    problem = layer(66)
    gate = Gate(problem, H200)
    assert gate.why_not(FFT, gate.default(FFT)) is None
    assert set(asked) == {likely_bases(problem)[0]}


def test_the_first_basis_whose_spectra_fit_answers() -> None:
    """Spectra of 14x13 points take as much as those of 14x14, and those of 13x14 less."""
    problem = layer(14, 2)
    first, second, *_ = FFT.variant.likely(problem)
    sizes = {basis: sum(each.nbytes for each in FFT.on(basis).workspaces(problem)) for basis in (first, second)}
    assert sizes[first] < sizes[second]
    short = Conv2d(problem.input, problem.weight, workspace=0)
    assert FFT.why_not(short, H200) == "needs more than 0 bytes of workspace"
    assert FFT.why_not(layer(14, 2), H200) is None


def test_what_is_known_of_the_stages_of_a_basis_begins_its_search() -> None:
    second = FFT.alternatives(LAYER)[1]
    with Store.open(":memory:", write=True) as store:
        assert known_stages(FFT, LAYER, H200, store).firsts == ()
        for stage in second.stages(LAYER):
            config = stage.family.default(stage.problem, H200)
            found = trial(1, measurement(timing(1000.0)), family=stage.family.name, config=config)
            store.add_trials(stage.problem, H200, (found,))
        known = known_stages(FFT, LAYER, H200, store)
        assert [each.text(BASIS) for each in known.firsts] == [second.basis.word]
        assert known.best_ns == 1000.0 * len(second.runs(LAYER))
        assert FFT.space(LAYER, H200).contains(known.firsts[0])


def test_a_basis_is_read_back_from_its_word() -> None:
    assert Basis.of(Basis(16, 18).word) == Basis(16, 18)
    assert WHOLE_PLANES.bases(LAYER, FourierParts.rules) == bases(LAYER)
