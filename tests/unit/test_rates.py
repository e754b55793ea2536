"""Devices as data: architectures, tensor-core instructions, rates, limits and presets."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from warpsmith.generator.architectures import (
    ARCHITECTURES,
    ASYNC_COPIES,
    BULK_COPIES,
    PAIR_CONVERSIONS,
    STATIC_SHARED_BYTES,
    Capability,
    architecture_of,
)
from warpsmith.generator.device import REFERENCE, Device, Rates
from warpsmith.generator.presets import A100, GB10, H200, HOST, PRESETS, RTX_5090, T4
from warpsmith.generator.tensor_cores import INSTRUCTIONS, MMA_F16, WARPGROUP, TensorType, instruction_of

MEMORY_BYTES_PER_NS = {
    "t4": 320,
    "a100": 2039,
    "a10": 600,
    "orin": 204.8,
    "rtx4090": 1008,
    "h200": 4800,
    "b200": 8000,
    "b300": 8000,
    "thor": 273,
    "rtx5090": 1792,
    "gb10": 273,
}
"""Data sheets."""
FLOAT32_TFLOPS = {"t4": 8.1, "a100": 19.5, "a10": 31.2, "rtx4090": 82.6, "h200": 67, "b200": 75, "rtx5090": 104.8}
"""Data sheets, two operations a multiply-add."""
TENSOR_TFLOPS = {"a100": 312, "a10": 125, "gb10": 125}
"""Dense float16 rates of GPUs that run mma.sync at the full rate. GB10's is a quarter of its 500 FP4."""
UNKNOWN = (13, 0)
FEATURES = (ASYNC_COPIES, PAIR_CONVERSIONS, BULK_COPIES)


def with_capability(capability: Capability, device: Device = H200) -> Device:
    return dataclasses.replace(device, name=f"of {capability}", compute_capability=capability)


class TestRates:
    def test_are_those_of_data_sheets(self) -> None:
        for name, device in PRESETS.items():
            assert device.rates.memory_bytes_per_ns == pytest.approx(MEMORY_BYTES_PER_NS[name], rel=0.03), name
        for name, tflops in FLOAT32_TFLOPS.items():
            assert 2e-3 * PRESETS[name].rates.multiply_adds_per_ns == pytest.approx(tflops, rel=0.03), name
        mma = instruction_of(TensorType.F16)
        for name, tflops in TENSOR_TFLOPS.items():
            rates = PRESETS[name].rates
            assert 2e-3 * rates.tensor_multiply_adds_per_ns(mma) == pytest.approx(tflops, rel=0.06), name

    def test_the_reference_is_an_h200(self) -> None:
        assert H200.rates == REFERENCE
        assert REFERENCE.cycle_ratio == 1.0

    def test_of_a_multiprocessor_are_its_part(self) -> None:
        one = REFERENCE.of_multiprocessor(0.5)
        assert 2 * one.multiprocessors * REFERENCE.multiprocessors == pytest.approx(264)
        assert one.multiply_adds_per_ns == pytest.approx(128 * 1.98 / 2)
        assert one.memory_bytes_per_ns == pytest.approx(REFERENCE.memory_bytes_per_ns / 132)
        assert one.tensor_multiply_adds_per_ns(instruction_of(TensorType.F16)) == pytest.approx(1270 * 1.98 / 2)
        assert one.cycles_ns(99) == pytest.approx(100)

    def test_scale_with_multiprocessors_and_clocks(self) -> None:
        half = dataclasses.replace(H200, multiprocessors=66, clock_mhz=990, memory_clock_mhz=1600)
        assert half.rates.multiply_adds_per_ns == pytest.approx(H200.rates.multiply_adds_per_ns / 4)
        assert half.rates.l2_bytes_per_ns == pytest.approx(H200.rates.l2_bytes_per_ns / 4)
        assert half.rates.memory_bytes_per_ns == pytest.approx(H200.rates.memory_bytes_per_ns / 2, rel=1e-3)

    def test_are_finite_where_a_device_tells_no_clock(self) -> None:
        for device in (HOST, dataclasses.replace(GB10, memory_clock_mhz=0)):
            assert all(getattr(device.rates, field.name) > 0 for field in dataclasses.fields(Rates)[1:-1])


class TestArchitectures:
    @pytest.mark.parametrize("device", PRESETS.values(), ids=lambda device: device.name)
    def test_have_the_limits_that_a_driver_tells(self, device: Device) -> None:
        limits = device.limits
        assert limits == architecture_of(device.compute_capability).limits
        assert limits.shared_per_block_bytes + limits.reserved_shared_bytes == limits.shared_per_multiprocessor_bytes
        assert limits.static_shared_bytes == STATIC_SHARED_BYTES <= limits.shared_per_block_bytes
        assert limits.blocks_per_multiprocessor * 32 <= limits.threads_per_multiprocessor
        assert (limits.registers_per_thread, limits.threads_per_block) == (255, 1024)

    def test_a_drivers_numbers_come_first(self) -> None:
        limits = dataclasses.replace(A100, shared_per_block_bytes=48 * 1024).limits
        assert (limits.shared_per_block_bytes, limits.blocks_per_multiprocessor) == (48 * 1024, 32)

    def test_an_unknown_one_is_the_nearest_lower_one(self) -> None:
        newest = max(ARCHITECTURES)
        assert architecture_of(UNKNOWN) is ARCHITECTURES[newest]
        assert architecture_of((9, 5)) is ARCHITECTURES[9, 0]
        assert architecture_of((6, 1)) is ARCHITECTURES[7, 5]
        unknown, known = with_capability(UNKNOWN), with_capability(newest)
        assert dataclasses.replace(unknown.rates, capability=newest) == known.rates
        assert unknown.limits == known.limits
        for each in INSTRUCTIONS:
            assert each.per_cycle(UNKNOWN) == each.per_cycle(newest)

    def test_features_begin_with_an_architecture(self) -> None:
        had = {
            capability: [
                with_capability(capability).has(each) for each in (ASYNC_COPIES, PAIR_CONVERSIONS, BULK_COPIES)
            ]
            for capability in ((7, 5), (8, 0), (8, 9), (9, 0), (12, 1), UNKNOWN)
        }
        assert had == {
            (7, 5): [False] * 3,
            (8, 0): [True, True, False],
            (8, 9): [True, True, False],
            (9, 0): [True] * 3,
            (12, 1): [True] * 3,
            UNKNOWN: [True] * 3,
        }
        assert all(map(HOST.has, FEATURES))
        assert T4.why_no(BULK_COPIES) == (
            "needs compute capability 9.0 or newer, which has bulk copies to shared memory (cp.async.bulk)"
        )
        assert H200.why_no(BULK_COPIES) is None


class TestTensorCores:
    def test_warps_multiply_from_8_0_on(self) -> None:
        for operand in (TensorType.F16, TensorType.BF16, TensorType.TF32, TensorType.S8):
            assert T4.tensor_instruction(operand) is None
            for device in (A100, H200, RTX_5090, HOST, with_capability(UNKNOWN)):
                found = device.tensor_instruction(operand)
                assert found is not None
                assert found.operand is operand
                assert device.rates.tensor_multiply_adds_per_ns(found) > 0

    def test_warpgroups_multiply_on_9_0_alone(self) -> None:
        for operand in (TensorType.F16, TensorType.BF16, TensorType.TF32):
            able = [name for name, device in PRESETS.items() if device.tensor_instruction(operand, WARPGROUP)]
            assert able == ["h200"]
            assert HOST.tensor_instruction(operand, WARPGROUP) is not None
        told = "needs compute capability 9.0, which has wgmma.m64nNk16.f32.f16"
        assert RTX_5090.why_no_tensor_instruction(TensorType.F16, WARPGROUP) == told
        assert RTX_5090.rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.F16, WARPGROUP)) == 0

    def test_rates_are_of_known_architectures(self) -> None:
        assert set(MMA_F16) <= set(ARCHITECTURES)
        assert instruction_of(TensorType.TF32).per_cycle((8, 0)) == 512
        assert instruction_of(TensorType.S8).per_cycle((8, 6)) == 1024

    def test_shapes_are_those_of_their_names(self) -> None:
        for each in INSTRUCTIONS:
            m, n, k = each.shape
            told = f"m{m}n{'N' if each.warps == WARPGROUP else n}k{k}"
            assert each.name.split(".")[-3:] == [told, each.accumulator, each.operand]

    def test_an_instruction_that_no_template_emits_has_no_row(self) -> None:
        with pytest.raises(KeyError, match="no tensor-core instruction multiplies s8 by 4 warps"):
            instruction_of(TensorType.S8, WARPGROUP)


def test_stored_specs_and_keys_are_those_of_before() -> None:
    """Rates and limits follow from fields that a device always had, so its JSON and key have no new ones."""
    presets = {name: device for name, device in PRESETS.items() if name != "gb10"}
    told = json.dumps([[name, device.spec(), device.key()] for name, device in (*presets.items(), ("host", HOST))])
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "c437156940d03f2d"
    for device in (*PRESETS.values(), HOST):
        assert Device.from_spec(json.loads(json.dumps(device.spec()))) == device
