"""Shipped winners: each is the exact answer for its problem with today's generator."""

from __future__ import annotations

import dataclasses
from typing import cast

import exhaustive
import warpsmith as ws
from warpsmith.cli.output import record_facts
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import NonFinite
from warpsmith.plans.lookup import find
from warpsmith.plans.match import MatchKind
from warpsmith.store.location import shipped_store
from warpsmith.store.record import COPY, Measurement
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_for_reading

PAPER = [ws.Filter2d(image=(9216, 9216), filter=(size, size)) for size in range(2, 8)]


def test_every_shipped_winner_is_an_exact_answer() -> None:
    """Fails if a template or family changed: `benchmarks/remeasure_verdicts.py --stale` times such winners again on
    their GPU, and `benchmarks/ship_winners.py` ships them.
    """
    with Store.open(str(shipped_store()), write=False) as store:
        records = store.records()
    with open_for_reading(None) as stores:
        some = exhaustive.share(records, 0, 4)  # tests/golden/test_identities.py makes the programs of all
        matches = [(record, find(record.problem, record.device, stores)) for record in some]
    assert all(match.record == record for record, match in matches)
    assert [record.problem.key() for record, match in matches if match.kind is not MatchKind.EXACT] == []


def test_products_of_matrices_are_near_answers_under_the_stricter_rule() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        filters = [each for each in store.records() if isinstance(each.problem, Filter2d)]
    strict = {each.problem.key() for each in filters}
    near = 0
    with open_for_reading(None) as stores:
        for record in filters:
            asked = dataclasses.replace(cast(Filter2d, record.problem), nonfinite=NonFinite.WINDOW)
            if asked.key() in strict:  # it has a record of its own
                continue
            near += 1
            match = find(asked, record.device, stores)
            assert (match.kind, match.record) == (MatchKind.NEAR, record)
            assert match.program.config == record.trial.config
            assert match.program.fingerprint != record.trial.fingerprint
    assert near


def test_the_papers_filters_are_shipped_for_an_h200() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        shipped = {record.problem: record for record in store.records("filter2d")}
    for problem in PAPER:
        # The fastest 7x7 is a product of matrices, which `nonfinite` has to allow.
        record = shipped.get(problem) or shipped[dataclasses.replace(problem, nonfinite=NonFinite.ANY)]
        assert record.device.name == H200.name
        assert isinstance(record.trial.outcome, Measurement)
        assert record.trial.outcome.max_error <= 1e-6
        peers = {baseline.name.split()[0]: baseline.timing.median_ns for baseline in record.baselines}
        assert {COPY, "cudnn", "cupy", "filter2d_plain"} <= peers.keys()
        assert record.trial.median_ns is not None
        assert record.trial.median_ns < min(time for name, time in peers.items() if name != COPY)


def test_shipped_baselines_that_merely_came_last_are_not_told() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        records = [each for each in store.records("fft") if any(b.name == "fft_warp" for b in each.baselines)]
    assert records
    for record in records:
        assert not any("fft_warp:" in fact for name, fact in record_facts(record) if name == "beside")
