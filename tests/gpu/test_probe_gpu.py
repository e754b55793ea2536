"""A probe of a real GPU: fast, repeatable, and within the bounds of the data sheet."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.probe import Probe
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.probe import probe_device

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
LONGEST_S = 15.0
"""A probe takes 5 s; the rest is for machines with many GPUs and few cores."""
REPEATABLE = 0.1


def test_measures_what_the_device_has(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "a.db"), write=True) as store:
        start = time.monotonic()
        device, stored, is_new = probe_device(CUDA, store)
        assert is_new
        assert time.monotonic() - start < LONGEST_S
        assert store.ceilings(device) == stored
        _, again, _ = probe_device(CUDA, store, again=True)
    first, second = stored.ceilings.spec(), again.ceilings.spec()
    assert first.keys() - {"clock_mhz"} == {each.name for each in Probe.of(device).kernels}
    assert [each.refusal for each in device.figures if each.refusal] == []
    # A compiler that left a kernel's work out would show a rate above the hardware's.
    assert all(each.measured < 1.25 * each.sheet for each in device.figures if each.sheet)
    for name in first.keys() - {"launch_ns"}:
        assert second[name] == pytest.approx(first[name], rel=REPEATABLE), name
    assert stored.driver[:1].isdigit()
    assert (device.key(), dataclasses.replace(device, ceilings=None)) == (CUDA.device().key(), CUDA.device())
