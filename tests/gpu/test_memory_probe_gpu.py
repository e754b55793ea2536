"""The memories of a real GPU: rates within the bounds of the data sheet, and what strides and conflicts cost."""

from __future__ import annotations

import pytest

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.memory_probe import ACCESSES
from warpsmith.tuner.evaluate.memory_probe import measure_memory

pytestmark = pytest.mark.gpu


def test_rates_are_those_of_hardware() -> None:
    measured = measure_memory(DeviceRef(DeviceKind.CUDA))
    rates = {rate.access.name: rate for rate in measured.rates}
    assert rates.keys() == {access.name for access in ACCESSES}
    # A compiler that left a kernel's loads out would show a rate above the hardware's.
    shares = {name: rate.share(measured.device) for name, rate in rates.items()}
    assert {name: share for name, share in shares.items() if share is not None and not 0 < share < 1.25} == {}
    ns = {name: rate.bytes_per_ns for name, rate in rates.items()}
    assert ns["read_4_stride_8"] < 0.5 * ns["read_4"]
    assert ns["shared_4_stride_2"] < 0.6 * ns["shared_4"]
    assert ns["shared_4_stride_32"] < 0.06 * ns["shared_4"]
    assert ns["copy_16"] < ns["l2_16"] < ns["l1_16"] < ns["registers_16"]
