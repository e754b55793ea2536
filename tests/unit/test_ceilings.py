"""Ceilings: how they correct a device's rates, what is refused, and how stores keep them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command

from builders import measurement, record, trial
from warpsmith.errors import StoreError
from warpsmith.generator import device as device_module
from warpsmith.generator.ceilings import (
    MOST_APART,
    NOISE,
    REFERENCE_CEILINGS,
    TENSOR_CEILINGS,
    Ceilings,
    tensor_ceiling,
)
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import A100, GB10, H200, HOST, PRESETS
from warpsmith.generator.tensor_cores import INSTRUCTIONS, WARPGROUP, TensorType, instruction_of
from warpsmith.plans import lookup
from warpsmith.store import migrations, opening, sqlite
from warpsmith.store.ceilings import StoredCeilings, ceilings_of, ceilings_row
from warpsmith.store.contents import check_store
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import merge_stores
from warpsmith.store.prune import Scope, Unwanted, prune_store
from warpsmith.store.rows import Unreadable
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain, open_for_look_up
from warpsmith.store.store_reader import StoreReader, open_winners

HERE = Ceilings(
    memory_bytes_per_ns=1400.0,
    l2_bytes_per_ns=2500.0,
    shared_bytes_per_ns=15_000.0,
    multiply_adds_per_ns=8000.0,
    mma_f16_per_ns=120_000.0,
    mma_tf32_per_ns=60_000.0,
    launch_ns=2000.0,
    barrier_ns=30.0,
    clock_mhz=1200.0,
)
ON_THE_REFERENCE = Ceilings(
    memory_bytes_per_ns=4000.0,
    l2_bytes_per_ns=6000.0,
    shared_bytes_per_ns=32_000.0,
    multiply_adds_per_ns=32_000.0,
    mma_f16_per_ns=320_000.0,
    mma_tf32_per_ns=160_000.0,
    wgmma_f16_per_ns=420_000.0,
    launch_ns=1000.0,
    barrier_ns=15.0,
    clock_mhz=1980.0,
)
STORED = StoredCeilings(HERE, "2026-11-28T10:00:00+00:00", "580.1", "nvrtc 13.0")
OTHER = dataclasses.replace(STORED, ceilings=ON_THE_REFERENCE)
F16, TF32 = instruction_of(TensorType.F16), instruction_of(TensorType.TF32)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known ceilings of the reference GPU."""
    monkeypatch.setattr(device_module, "REFERENCE_CEILINGS", ON_THE_REFERENCE)
    device_module._rates.cache_clear()


@pytest.fixture(autouse=True)
def _no_cached_rates() -> None:
    device_module._rates.cache_clear()


def with_ceilings(device: Device, **measured: float) -> Device:
    return dataclasses.replace(device, ceilings=Ceilings(**measured))


class TestRates:
    @pytest.mark.usefixtures("reference")
    def test_are_the_references_times_the_measured_ratio(self) -> None:
        rates = dataclasses.replace(A100, ceilings=HERE).rates
        assert rates.memory_bytes_per_ns == pytest.approx(REFERENCE.memory_bytes_per_ns * 1400 / 4000)
        assert rates.l2_bytes_per_ns == pytest.approx(REFERENCE.l2_bytes_per_ns * 2500 / 6000)
        assert rates.shared_bytes_per_ns == pytest.approx(REFERENCE.shared_bytes_per_ns * 15 / 32)
        assert rates.multiply_adds_per_ns == pytest.approx(REFERENCE.multiply_adds_per_ns * 8 / 32)
        assert rates.launch_ns == pytest.approx(2 * REFERENCE.launch_ns)
        assert rates.cycles_per_ns == pytest.approx(1.2)
        for instruction, share in ((F16, 120 / 320), (TF32, 60 / 160)):
            expected = REFERENCE.tensor_multiply_adds_per_ns(instruction) * share
            assert rates.tensor_multiply_adds_per_ns(instruction) == pytest.approx(expected)

    @pytest.mark.usefixtures("reference")
    def test_that_were_not_measured_are_the_data_sheets(self) -> None:
        sheet, rates = A100.rates, dataclasses.replace(A100, ceilings=HERE).rates
        bf16 = instruction_of(TensorType.BF16)
        assert rates.tensor_multiply_adds_per_ns(bf16) == pytest.approx(sheet.tensor_multiply_adds_per_ns(bf16))
        assert with_ceilings(A100, barrier_ns=99.0).rates == sheet

    @pytest.mark.usefixtures("reference")
    def test_of_one_sm_keep_the_ratio(self) -> None:
        rates = dataclasses.replace(A100, ceilings=HERE).rates
        one = rates.of_multiprocessor(0.5)
        assert 2 * 108 * one.tensor_multiply_adds_per_ns(F16) == pytest.approx(rates.tensor_multiply_adds_per_ns(F16))

    @pytest.mark.usefixtures("reference")
    def test_of_the_reference_stay(self) -> None:
        assert dataclasses.replace(H200, ceilings=ON_THE_REFERENCE).rates == REFERENCE
        noisy = {name: value * (1 + 0.9 * NOISE) for name, value in ON_THE_REFERENCE.spec().items()}
        assert with_ceilings(H200, **noisy).rates == REFERENCE

    @pytest.mark.usefixtures("reference")
    def test_of_wgmma_follow_float16(self) -> None:
        slow = with_ceilings(H200, wgmma_f16_per_ns=210_000.0).rates
        for operand in (TensorType.F16, TensorType.BF16, TensorType.TF32):
            each = instruction_of(operand, WARPGROUP)
            assert 2 * slow.tensor_multiply_adds_per_ns(each) == pytest.approx(
                REFERENCE.tensor_multiply_adds_per_ns(each)
            )
        assert slow.tensor_multiply_adds_per_ns(F16) == REFERENCE.tensor_multiply_adds_per_ns(F16)

    def test_without_a_figure_of_the_reference_nothing_is_corrected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "REFERENCE_CEILINGS", Ceilings())
        for device in PRESETS.values():
            assert dataclasses.replace(device, ceilings=HERE).rates == device.rates

    def test_the_shipped_figures_are_credible(self) -> None:
        """What is known of the reference GPU lies within the bounds of its own data sheet."""
        figures = dataclasses.replace(H200, ceilings=REFERENCE_CEILINGS).figures
        assert [each.name for each in figures if each.refusal] == []
        assert dataclasses.replace(H200, ceilings=REFERENCE_CEILINGS).rates == REFERENCE


class TestRefusal:
    @pytest.mark.usefixtures("reference")
    def test_begins_beyond_the_bound(self) -> None:
        expected = A100.rates.memory_bytes_per_ns * 4000 / REFERENCE.memory_bytes_per_ns
        for ratio, is_refused in ((1 / 3.01, True), (1 / 2.99, False), (2.99, False), (3.01, True)):
            device = with_ceilings(A100, memory_bytes_per_ns=expected * ratio)
            (figure,) = device.figures
            assert (figure.refusal is not None) == is_refused
            sheet = A100.rates.memory_bytes_per_ns
            assert device.rates.memory_bytes_per_ns == pytest.approx(sheet * (1 if is_refused else ratio))

    @pytest.mark.usefixtures("reference")
    def test_of_times_compares_with_the_reference(self) -> None:
        (figure,) = with_ceilings(A100, launch_ns=3500.0).figures
        assert figure.sheet is None
        assert figure.refusal is not None

    def test_without_a_reference_compares_with_the_data_sheet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "REFERENCE_CEILINGS", Ceilings())
        (figure,) = with_ceilings(GB10, multiply_adds_per_ns=1000.0).figures
        sheet = GB10.rates.multiply_adds_per_ns
        assert figure.refusal == (
            f"multiply_adds_per_ns is 1000, more than {MOST_APART:g} times off the expected {sheet:.4g}: models keep "
            "the data sheet's, since the GPU was shared or throttled; run `warpsmith probe --again`"
        )

    def test_needs_something_to_compare_with(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "REFERENCE_CEILINGS", Ceilings())
        (figure,) = with_ceilings(A100, launch_ns=1e9).figures
        assert (figure.expected, figure.refusal, figure.factor) == (None, None, 1.0)


def test_every_instruction_has_a_ceiling() -> None:
    assert {tensor_ceiling(each) for each in INSTRUCTIONS} == set(TENSOR_CEILINGS)
    assert all(tensor_ceiling(each) == name for name, each in TENSOR_CEILINGS.items())
    assert set(TENSOR_CEILINGS) < {field.name for field in dataclasses.fields(Ceilings)}


def test_a_device_is_found_by_what_it_was_before() -> None:
    measured = dataclasses.replace(A100, ceilings=HERE)
    assert (measured.key(), measured.spec()) == (A100.key(), A100.spec())
    assert measured != A100  # so that no cache confuses their rates
    assert Device.from_spec(json.loads(json.dumps(measured.spec()))) == A100


class TestSpec:
    def test_is_read_back(self) -> None:
        assert Ceilings.from_spec(json.loads(json.dumps(HERE.spec()))) == HERE
        assert "wgmma_f16_per_ns" not in HERE.spec()

    def test_of_a_newer_version_is_read(self) -> None:
        assert Ceilings.from_spec({"barrier_ns": 3, "tcgen05_f16_per_ns": 9.0}) == Ceilings(barrier_ns=3)

    @pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), "9", None, True, [1]])
    def test_has_finite_numbers(self, value: object) -> None:
        with pytest.raises(ValueError, match="barrier_ns"):
            Ceilings.from_spec({"barrier_ns": value})


class TestStore:
    def test_keeps_them_beside_the_device(self, store: Store) -> None:
        assert store.ceilings(A100) is None
        store.put_ceilings(A100, OTHER)
        store.put_ceilings(H200, OTHER)
        store.put_ceilings(A100, STORED)
        assert store.ceilings(A100) == STORED
        assert store.ceilings(dataclasses.replace(A100, ceilings=ON_THE_REFERENCE)) == STORED
        assert check_store(store) == ()

    def test_is_read_without_sqlalchemy(self, tmp_path: Path) -> None:
        file = str(tmp_path / "a.db")
        with Store.open(file, write=True) as store:
            store.put_ceilings(A100, STORED)
        reader = open_winners(file)
        assert isinstance(reader, StoreReader)
        assert reader.ceilings(A100) == STORED
        assert reader.ceilings(H200) is None

    def test_is_read_once_while_the_file_is_unchanged(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = str(tmp_path / "a.db")
        with Store.open(file, write=True) as store:
            store.put_ceilings(A100, STORED)
        opened, reading = [], sqlite.reading
        monkeypatch.setattr(sqlite, "reading", lambda *given: opened.append(given) or reading(*given))
        for _ in range(3):
            reader = open_winners(file)
            opened.clear()  # opening looks at the schema
            assert reader.ceilings(A100) == STORED
        assert opened == []
        with Store.open(file, write=True) as store:
            store.put_ceilings(A100, OTHER)
        assert open_winners(file).ceilings(A100) == OTHER

    def test_of_an_older_schema_has_none(self, tmp_path: Path, location: str) -> None:
        Store.open(location, write=True).close()
        opened = opening.open_location(location, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0006")
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA user_version = 6")
        opened.reader.dispose()
        for immutable in (False, True):
            with Store.open(location, write=False, immutable=immutable) as store:
                assert store.ceilings(A100) is None
                assert list(export_lines(store))
                assert check_store(store) == ()
            reader = open_winners(location, immutable=immutable)
            assert reader.ceilings(A100) is None
            reader.close()
        with Store.open(location, write=True) as store:
            store.put_ceilings(A100, STORED)
        assert open_winners(location).ceilings(A100) == STORED
        assert tmp_path.exists()

    def test_damage_counts_as_none_and_is_named(self, tmp_path: Path, execute: Callable[..., None]) -> None:
        file = tmp_path / "a.db"
        with Store.open(str(file), write=True) as store:
            store.put_ceilings(A100, STORED)
        execute(file, """UPDATE warpsmith_ceilings SET spec = '{"barrier_ns": -1}'""")
        with Store.open(str(file), write=False) as store:
            assert store.ceilings(A100) is None
            (line,) = check_store(store)
            assert "ceilings of 'NVIDIA_A100" in line
            assert "barrier_ns is -1" in line
        assert open_winners(str(file)).ceilings(A100) is None
        execute(file, "DROP TABLE warpsmith_ceilings")
        with pytest.raises(StoreError, match="no such table"):
            open_winners(str(file)).ceilings(A100)

    @pytest.mark.parametrize("fact", ["created_at", "driver", "compiler"])
    def test_facts_are_text(self, fact: str) -> None:
        with pytest.raises(Unreadable, match="must be text"):
            ceilings_of({**ceilings_row(A100, STORED), fact: 3})

    def test_pruning_keeps_them_but_for_a_whole_device(self, store: Store) -> None:
        store.put_ceilings(A100, STORED)
        store.put_winner(record(Filter2d(image=(64, 64), filter=(3, 3)), trial(1, measurement())))
        prune_store(store, Unwanted(Scope(operation="filter2d"), everything=True))
        assert store.ceilings(A100) == STORED
        prune_store(store, Unwanted(Scope(device_key=H200.key()), everything=True))
        assert store.ceilings(A100) == STORED
        prune_store(store, Unwanted(Scope(device_key=A100.key()), everything=True))
        assert store.ceilings(A100) is None


class TestExchange:
    """A merge and an import carry ceilings over to a store that has none of the device."""

    @pytest.mark.parametrize("way", ["merge", "import"])
    def test_adds_missing_ones_alone(self, way: str) -> None:
        with Store.open(":memory:", write=True) as ours, Store.open(":memory:", write=True) as theirs:
            ours.put_ceilings(A100, STORED)
            theirs.put_ceilings(A100, OTHER)
            theirs.put_ceilings(H200, OTHER)
            for added in (1, 0):
                report = merge_stores(ours, theirs) if way == "merge" else import_lines(ours, export_lines(theirs))
                assert report.ceilings_added == added
            assert (ours.ceilings(A100), ours.ceilings(H200)) == (STORED, OTHER)

    def test_a_file_without_any_is_of_an_older_format(self) -> None:
        with Store.open(":memory:", write=True) as store:
            assert json.loads(next(export_lines(store)))["version"] == 1
            store.put_ceilings(A100, STORED)
            header, line = map(json.loads, export_lines(store))
        assert (header["version"], header["ceilings"]) == (3, 1)
        assert (line["kind"], line["ceilings"]) == ("ceilings", HERE.spec())

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"device_key": "x"}, "filed under 'x'"),
            ({"ceilings": {"launch_ns": 0}}, "launch_ns is 0"),
            ({"ceilings": [1]}, "not ceilings"),
            ({"driver": 3}, "must be text"),
            ({"device": {}}, "not a device"),
        ],
    )
    def test_a_bad_line_is_refused(self, change: dict[str, object], why: str) -> None:
        with Store.open(":memory:", write=True) as store:
            store.put_ceilings(A100, STORED)
            header, line = export_lines(store)
        bad = json.dumps({**json.loads(line), **change})
        with Store.open(":memory:", write=True) as other, pytest.raises(StoreError, match=why):
            import_lines(other, [header, bad])
        entry = json.loads(line)
        del entry["compiler"]
        with Store.open(":memory:", write=True) as other, pytest.raises(StoreError, match="'compiler' is missing"):
            import_lines(other, [header, json.dumps(entry)])


class TestLookUp:
    """Whatever asks for an answer that is not stored sees the device with its ceilings."""

    PROBLEM = Filter2d(image=(96, 4000), filter=(5, 5))

    @pytest.fixture
    def seen(self, monkeypatch: pytest.MonkeyPatch) -> list[Device]:
        devices: list[Device] = []
        gate = lookup.Gate
        monkeypatch.setattr(
            lookup, "Gate", lambda problem, device, *pins: devices.append(device) or gate(problem, device, *pins)
        )
        return devices

    def test_of_the_first_store_that_has_them(self, tmp_path: Path, seen: list[Device]) -> None:
        first, second = str(tmp_path / "a.db"), str(tmp_path / "b.db")
        for file, stored in ((first, None), (second, STORED)):
            with Store.open(file, write=True) as store:
                if stored:
                    store.put_ceilings(A100, stored)
        chain = StoreChain((open_winners(first), open_winners(second)))
        lookup.find(self.PROBLEM, A100, chain)
        lookup.known_configs(self.PROBLEM, A100, chain, 1)
        assert {device.ceilings for device in seen} == {HERE}
        seen.clear()
        lookup.find(self.PROBLEM, H200, chain)
        assert {device.ceilings for device in seen} == {None}

    def test_by_the_name_of_a_store(self, tmp_path: Path, seen: list[Device]) -> None:
        file = str(tmp_path / "a.db")
        with Store.open(file, write=True) as store:
            store.put_ceilings(A100, STORED)
        lookup.look_up(self.PROBLEM, A100, file)
        assert [device.ceilings for device in seen] == [HERE]

    def test_asks_no_store_for_a_host_or_a_measured_device(self) -> None:
        with open_for_look_up(None) as stores:
            chain = StoreChain(tuple(itertools.islice(stores.stores, 0)))
            assert chain.measured(HOST) is HOST
            measured = dataclasses.replace(A100, ceilings=HERE)
            assert chain.measured(measured) is measured
            assert chain.measured(A100) is A100

    def test_the_shipped_store_has_none_and_is_read(self) -> None:
        with open_for_look_up(None) as stores:
            assert stores.measured(A100) == A100
