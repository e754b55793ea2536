"""Time that `filter1d_parts` is expected to take: its multiply-adds, its transforms and what it moves."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.lags_model import L2_SHARE, LINE_CYCLES, MEMORY_SHARE, POINT_CYCLES, resident_of
from warpsmith.generator.filter1d.parts_geometry import Accumulation, Filter1dPartsGeometry, Way
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

SPATIAL_SHARE = 0.35
"""Share of the rate of multiply-adds that sums of taps in shared memory reach."""
TRANSFORM_CYCLES = 0.5
"""Clock cycles of an SM for each point of one transform, all SMs full."""
PAIR_CYCLES = 600
"""Clock cycles from product to product of a thread block, however idle its SM is."""
_L2_BYTES = 50 * 2**20
"""Bytes of spectra and buffers that stay in L2 (H100, H200)."""


def expected_ns(problem: Filter1d, geometry: Filter1dPartsGeometry, device: Device) -> float:
    """Nanoseconds of a config: the longer one of instructions and memory, and its launches."""
    rates = device.rates
    launches = rates.launch_ns * geometry.launches
    if geometry.lines is None:
        return launches + _spatial_ns(problem, geometry, device)
    intervals, lines = geometry.rows * geometry.intervals, geometry.spectrum_lines
    products = geometry.rows * _pairs(geometry) / geometry.packed
    inverses = intervals if geometry.way is Way.DIVISIONS else products
    transformed = (lines + inverses) * geometry.points * TRANSFORM_CYCLES / device.multiprocessors
    resident = resident_of(geometry.lines.axis.radices, device) * device.multiprocessors
    blocks = intervals if geometry.accumulation is Accumulation.BUFFERS else intervals / len(geometry.parts)
    line = LINE_CYCLES + POINT_CYCLES * geometry.points
    walk = products / intervals * (PAIR_CYCLES if geometry.way is Way.DIVISIONS else line) + line
    waves = (intervals / blocks) * max(1.0, blocks / resident)
    spectra, sums = COMPLEX_BYTES * lines * geometry.points, geometry.number_bytes * intervals * geometry.length
    moved = problem.bytes + spectra + 2 * sums + 2 * COMPLEX_BYTES * products * geometry.points
    rate = L2_SHARE * rates.l2_bytes_per_ns if spectra < _L2_BYTES else MEMORY_SHARE * rates.memory_bytes_per_ns
    return launches + max(rates.cycles_ns(transformed), moved / rate) + rates.cycles_ns(waves * walk)


def _spatial_ns(problem: Filter1d, geometry: Filter1dPartsGeometry, device: Device) -> float:
    """Nanoseconds of sums of taps; a thread has a whole number of sums, and an SM a whole number of blocks."""
    pairs, blocks = geometry.rows * _pairs(geometry), geometry.rows * geometry.groups
    sums = geometry.own * geometry.threads * geometry.factors * problem.tap_multiply_adds
    filled = -(-blocks // device.multiprocessors) * device.multiprocessors
    rate = SPATIAL_SHARE * device.rates.multiply_adds_per_ns
    return pairs * sums * filled / blocks / rate


def _pairs(geometry: Filter1dPartsGeometry) -> float:
    """Pairs of a channel, from some of its intervals or blocks: a signal may have 10^8 of them."""
    if geometry.way is Way.BLOCKS:
        return _mean([geometry.met(each) for each in _some(range(geometry.groups))]) * geometry.groups
    total = 0.0
    for part in geometry.parts:
        starts = (geometry.needed.start(part.division, number) for number in _some(part.numbers))
        total += _mean([geometry.pairs_at(start // geometry.signal_block) for start in starts]) * len(part.numbers)
    return total


def _some(numbers: range) -> range:
    return numbers[:: max(1, len(numbers) // 32)]


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0
