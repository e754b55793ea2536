"""Each operation's simplest kernel is named, not found by the order of the registry."""

from __future__ import annotations

from warpsmith.cli.output import record_facts
from warpsmith.generator.device import H200
from warpsmith.generator.fft import Fft
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES, SIMPLEST, simplest_family
from warpsmith.store.location import shipped_store
from warpsmith.store.store import Store


def test_every_operation_has_one_of_the_registered_families() -> None:
    assert set(SIMPLEST) == set(Problem._operations)
    assert all(simplest_family(operation) in FAMILIES for operation in SIMPLEST)
    assert simplest_family("conv9d") is None


def test_the_simplest_transform_takes_sizes_that_the_warps_do_not() -> None:
    family = simplest_family("fft")
    assert family is not None
    for size in ((12,), (15,), (6, 10), (256,)):
        assert family.why_not(Fft(size, 4), H200) is None


def test_shipped_baselines_that_merely_came_last_are_not_told() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        records = [each for each in store.records("fft") if any(b.name == "fft_warp" for b in each.baselines)]
    assert records
    for record in records:
        assert not any("fft_warp:" in fact for name, fact in record_facts(record) if name == "beside")
