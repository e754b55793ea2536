"""Time that `filter1d_parts` is expected to take: its multiply-adds, its transforms and what it moves."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.lags_model import LINE_CYCLES, MEMORY_SHARE, POINT_CYCLES, resident_of
from warpsmith.generator.filter1d.parts_geometry import Accumulation, Filter1dPartsGeometry, Way
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

SPATIAL_SHARE = 0.18
"""Share of the rate of multiply-adds that sums of taps in shared memory reach (H200, 2^20 samples and taps)."""
TRANSFORM_CYCLES = 0.8
"""Clock cycles of an SM for each point of one transform, all SMs full."""
L2_SHARE = 1.0
"""Rate at which products read spectra, relative to that of L2: some lie in L1 (H200, 2^20 samples and taps)."""
PAIR_CYCLES = 300
"""Clock cycles from product to product of a thread block, however idle its SM is."""
INVERSE = 0.35
"""Cost of an inverse transform, in lines of samples and of taps of `filter1d_lags`."""
MARGIN = 1.3
"""Factor that lets another family answer where it is about as fast: 0.9 to 1.4 were measured on an H200."""
_L2_BYTES = 50 * 2**20
"""Bytes of spectra and buffers that stay in L2 (H100, H200)."""


def expected_ns(problem: Filter1d, geometry: Filter1dPartsGeometry, device: Device) -> float:
    """Nanoseconds of a config: launches, and the longest of instructions, walks over pairs and memory in each."""
    rates = device.rates
    launches = rates.launch_ns * geometry.launches
    if geometry.lines is None:
        return launches + _spatial_ns(problem, geometry, device)
    intervals, lines = geometry.rows * geometry.intervals, geometry.spectrum_lines
    products = geometry.rows * _pairs(geometry) / geometry.packed
    inverses = intervals if geometry.way is Way.DIVISIONS else products
    cycles = geometry.points * TRANSFORM_CYCLES / device.multiprocessors  # of one transform
    spectra, sums = COMPLEX_BYTES * lines * geometry.points, geometry.number_bytes * intervals * geometry.length
    memory, l2 = MEMORY_SHARE * rates.memory_bytes_per_ns, L2_SHARE * rates.l2_bytes_per_ns
    made = max(rates.cycles_ns(lines * cycles), (problem.bytes + spectra) / memory)
    blocks = intervals if geometry.accumulation is Accumulation.BUFFERS else intervals / len(geometry.parts)
    waves = max(1.0, blocks / (resident_of(geometry.lines.axis.radices, device) * device.multiprocessors))
    line = LINE_CYCLES + POINT_CYCLES * geometry.points
    walk = products / intervals * (PAIR_CYCLES if geometry.way is Way.DIVISIONS else INVERSE * line) + line
    walked = rates.cycles_ns(intervals / blocks * waves * walk)
    moved = (2 * COMPLEX_BYTES * products * geometry.points + sums) / (l2 if spectra < _L2_BYTES else memory)
    added = 2 * sums / l2
    return launches + MARGIN * (made + max(rates.cycles_ns(inverses * cycles), walked, moved) + added)


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
