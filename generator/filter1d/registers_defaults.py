"""Configs of `filter1d_registers` that are likely to be fast, by rules that were read off measurements.

On an H200, 24 to 50 configs were timed for each of 38 problems: 2^24 samples and 3 to 257 taps, batches of 768 and 2048
channels, every element type. Windows from global memory were fastest, or within 2%, as long as they are short; then
tiles of 64 threads with 16 outputs each. 128 threads take up to 13% longer, since a block waits for its slowest warp,
and eight outputs 7%, since they need more loads for each multiply-add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_geometry import PAIRED, Exchange, MemoryPath, parts_of, vectors_of
from warpsmith.generator.filter1d.text import Weights, pitches
from warpsmith.generator.pair_stores import stores_pairs
from warpsmith.generator.problem import Operand
from warpsmith.generator.space import Config, Space, Value

GLOBAL_WINDOW_BYTES = 96
"""Most bytes of a window that a thread reads from global memory: 17 taps and four float32 outputs, or 33 taps and eight
float16 outputs."""
GLOBAL_WINDOW = 40
"""Most samples of such a window: each uint8 and int16 sample is converted once for every thread that reads it."""
GLOBAL_TAPS = 8
"""Most taps of such a thread if each channel has a filter of its own, which the thread reads too."""
STRAIGHT = 2100
"""Most multiply-adds without a loop; the compiler takes 2 s for them. With 129 taps and 16 outputs a loop is 3% slower.
With twice the taps 32 outputs and a loop are 8% faster."""
TILED_BLOCKS = 2
"""Least blocks per multiprocessor if they fill tiles; threads have fewer outputs if there would be fewer blocks."""


def likely(problem: Filter1d, device: Device, space: Space) -> Iterator[Config]:
    """Yields configs, the likeliest first, legal or not; one of them is legal wherever the space is not empty."""
    values = {each.name: each.values for each in space.parameters}
    places = [each for each in (Weights.LITERAL, Weights.ARGUMENT, Weights.SHARED) if each.value in values["weights"]]
    signal = problem.operands[0]
    most = max(4, vectors_of(signal)[-1])
    window = most + problem.taps - 1
    is_short = window <= min(GLOBAL_WINDOW, GLOBAL_WINDOW_BYTES // signal.dtype.itemsize)
    is_short &= problem.filters == 1 or problem.taps <= GLOBAL_TAPS
    is_wide = _width(signal, pitches(problem)[0], problem) * signal.dtype.itemsize >= 8 and stores_pairs(
        problem.output_dtype, device, PAIRED
    )
    if is_short and is_wide and problem.down <= 2:
        is_global = problem.filters > 1 or places[0] is Weights.SHARED
        direct = Weights.GLOBAL if is_global else places[0]
        for outputs in _shrinking(problem, device, most, 128):
            yield _config(problem, device, MemoryPath.GLOBAL, direct, outputs, 0, 128)
    for weights in places:
        for outputs in _shrinking(problem, device, _outputs(problem), 64, TILED_BLOCKS):
            straight = problem.taps * outputs * parts_of(problem) <= STRAIGHT and problem.down == 1
            for turn in (0, 32, 64, 16) if straight else (32, 64, 16, 0):
                for min_blocks in (4, 0):
                    yield _config(problem, device, MemoryPath.SHARED, weights, outputs, turn, 64, min_blocks)
    # Windows that lie so far apart that no tile holds those of 64 threads overlap little.
    for weights in places:
        yield _config(problem, device, MemoryPath.GLOBAL, weights, 1, 0, 128)
        yield from (_config(problem, device, MemoryPath.SHARED, weights, 1, turn, 32) for turn in (0, 64, 32, 16))


def _outputs(problem: Filter1d) -> int:
    """Outputs of a thread that reads a tile, if there are enough."""
    is_long = problem.taps * 16 * parts_of(problem) > STRAIGHT
    is_half_bank = problem.dtype.itemsize < 4 and problem.filters > 1
    widest = 32 if problem.down == 1 and parts_of(problem) == 1 and (is_long or is_half_bank) else 16
    return max(4, widest // (problem.down * parts_of(problem)))


def _shrinking(problem: Filter1d, device: Device, outputs: int, columns: int, least_blocks: int = 1) -> Iterator[int]:
    """Yields numbers of outputs per thread: from the most that leaves `least_blocks` blocks per multiprocessor down
    to 1.
    """
    least = least_blocks * device.multiprocessors
    count = 1 << outputs.bit_length() - 1
    while count > 1 and problem.rows * -(-problem.result_length // (columns * count)) < least:
        count //= 2
    while count >= 1:
        yield count
        count //= 2


def _width(operand: Operand, pitch: int, problem: Filter1d) -> int:
    """Elements of the widest access that all rows allow."""
    return max(lanes for lanes in vectors_of(operand) if problem.rows == 1 or pitch % lanes == 0)


def _config(
    problem: Filter1d,
    device: Device,
    path: MemoryPath,
    weights: Weights,
    outputs: int,
    turn: int,
    threads: int,
    min_blocks: int = 0,
) -> Config:
    signal, result = problem.inputs[0], problem.output
    needed = -(-problem.result_length // outputs)
    columns = min(threads, next((each for each in (32, 64) if each >= needed), threads))
    rows = 1
    while 2 * rows * columns <= threads and 2 * rows <= problem.rows:
        rows *= 2
    stride = outputs * problem.down * (columns if path is MemoryPath.SHARED else 1)
    load = min(_width(signal, pitches(problem)[0], problem), stride & -stride)
    store = (
        min(_width(result, pitches(problem)[1], problem), outputs)
        if stores_pairs(problem.output_dtype, device, PAIRED)
        else 1
    )
    is_exchanged = path is MemoryPath.SHARED and outputs > store
    chosen: Mapping[str, Value] = {
        "path": path.value,
        "weights": weights.value,
        "outputs": outputs,
        "load_vector": load,
        "store_vector": store,
        "turn": turn,
        "block_columns": columns,
        "block_rows": rows,
        "exchange": (Exchange.SHARED if is_exchanged else Exchange.DIRECT).value,
        "min_blocks": min_blocks,
        "store": "streaming",
    }
    return Config.of(chosen)
