"""`filter1d_registers`: outputs are stored once, tiles hold what threads read, without bank conflicts; its defaults."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.architectures import PARAMETER_BYTES, STATIC_SHARED_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.registers_family import MAX_TAPS, Filter1dRegisters
from warpsmith.generator.filter1d.registers_geometry import Exchange, Filter1dRegistersGeometry, MemoryPath, parts_of
from warpsmith.generator.filter1d.registers_model import expected_ns
from warpsmith.generator.filter1d.text import Weights, pitches, weights_parameter
from warpsmith.generator.presets import H200, HOST, PRESETS, T4
from warpsmith.generator.program import Argument, ByValue, Pointer
from warpsmith.generator.space import Config

REGISTERS = Filter1dRegisters()
LONG = 2**24
Positions = NDArray[np.int64]


TAPS = (1, 2, 4, 5, 17, 33, 64, 129, 200, 300)
DOWN = (1, 1, 1, 2, 3, 8, 200)


def random_problem(rng: random.Random, taps: Sequence[int] = TAPS, down: Sequence[int] = DOWN) -> Filter1d:
    """Small sizes around those of vectors, threads and blocks; every type, slice and pitch."""
    signal, channels = rng.choice((1, 7, 63, 128, 300, 1001, 2048)), rng.choice((1, 1, 2, 6))
    dtype = rng.choice(("float32", "float16", "bfloat16", "complex64", "int16", "uint8"))
    fields: dict[str, Any] = {"pitch": 4096 * 8, "result_pitch": 5120 * 8} if rng.random() < 0.2 else {}
    return Filter1d(
        signal,
        rng.choice(taps),
        rng.choice((1, 1, 3)),
        rng.choice(("full", "same", "causal")),
        channels,
        rng.choice((1, channels)),
        dtype=dtype,
        down=rng.choice(down),
        taps_dtype="complex64" if dtype == "complex64" and rng.random() < 0.5 else None,
        result_dtype="float16" if dtype == "uint8" else None,
        **fields,
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A problem, a legal config and its geometry."""

    problem: Filter1d
    config: Config
    g: Filter1dRegistersGeometry

    @property
    def is_tiled(self) -> bool:
        return self.g.path is MemoryPath.SHARED

    @property
    def is_exchanged(self) -> bool:
        return self.config.text("exchange") == Exchange.SHARED

    @property
    def lane_bytes(self) -> int:
        """Bytes of a number in registers and in shared memory."""
        return 4 * parts_of(self.problem)

    def place(self, sample: Positions) -> Positions:
        """Place of a sample of the tile; `place_of` of the text."""
        return sample // self.g.thread_stride * (self.g.thread_stride + self.g.padding) + sample % self.g.thread_stride

    def result_place(self, output: Positions) -> Positions:
        """Place of an output of a block that its threads exchange."""
        return output // self.g.outputs * (self.g.outputs + self.g.result_padding) + output % self.g.outputs


def cases() -> list[Case]:
    """The default and six random configs of each of 150 random problems, the same in each run."""
    rng, found = random.Random(1), []
    for problem in (random_problem(rng) for _ in range(150)):
        assert REGISTERS.why_not(problem, H200) is None
        space = REGISTERS.space(problem, H200)
        configs = [REGISTERS.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(6)))]
        found += [Case(problem, each, Filter1dRegistersGeometry.of(problem, each)) for each in configs]
    return found


CASES = cases()
TILED = [case for case in CASES if case.is_tiled]


def stores(case: Case) -> Iterator[Positions]:
    """Outputs of a channel that each store of all threads of all blocks writes, as the text computes them."""
    g, outputs = case.g, case.problem.result_length
    threads = np.arange(g.columns)
    for block in range(g.row_blocks):
        first = block * g.columns * g.outputs
        if case.is_exchanged:
            rounds = np.arange(g.outputs // g.store_vector)[:, None] * g.columns
            begins = first + (rounds + threads).ravel() * g.store_vector
            all_exist = first + g.columns * g.outputs <= outputs
        else:
            own = first + threads * g.outputs
            begins = (own[own < outputs, None] + np.arange(0, g.outputs, g.store_vector)).ravel()
            all_exist = outputs % g.outputs == 0
        written = begins[:, None] + np.arange(g.store_vector)
        yield written if all_exist else written[written < outputs]


class TestStores:
    def test_every_output_is_stored_once(self) -> None:
        for case in CASES:
            count = np.zeros(case.problem.result_length, np.int64)
            for written in stores(case):
                np.add.at(count, written.ravel(), 1)
            assert (count == 1).all(), case

    def test_every_channel_has_a_group_and_no_group_is_idle(self) -> None:
        for case in CASES:
            g, (launch,) = case.g, REGISTERS.program(case.problem, case.config).launches
            assert launch.grid == (g.row_blocks * g.groups, 1, 1)
            assert launch.block == (g.columns, g.rows, 1)
            assert 0 <= g.groups * g.rows - case.problem.rows < g.rows
            assert g.is_ragged == (g.groups * g.rows != case.problem.rows)
            assert 0 <= g.row_blocks * g.columns * g.outputs - case.problem.result_length < g.columns * g.outputs

    def test_they_are_aligned(self) -> None:
        for case in CASES:
            pitch = pitches(case.problem)[1]
            assert case.g.outputs % case.g.store_vector == 0
            assert case.problem.rows == 1 or pitch % case.g.store_vector == 0

    def test_exchanged_outputs_are_read_where_their_threads_wrote_them(self) -> None:
        for case in (each for each in CASES if each.is_exchanged):
            g = case.g
            first = np.arange(g.columns) * g.store_vector
            apart = g.columns * g.store_vector // g.outputs * (g.outputs + g.result_padding)
            for number in range(g.outputs // g.store_vector):
                outputs = (number * g.columns * g.store_vector + first)[:, None] + np.arange(g.store_vector)
                read = case.result_place(first)[:, None] + number * apart + np.arange(g.store_vector)
                assert np.array_equal(read, case.result_place(outputs))
            places = case.result_place(np.arange(g.columns * g.outputs))
            assert len(np.unique(places)) == len(places)
            assert places.max() < g.shared


def block_starts(case: Case) -> Positions:
    """First sample of each block's aligned loads, as the text computes it."""
    blocks = np.arange(case.g.row_blocks) * case.g.columns * case.g.outputs
    return blocks * case.problem.down + case.problem.first_lag - case.g.tile_lead


class TestLoads:
    def test_they_are_aligned(self) -> None:
        for case in CASES:
            g, problem = case.g, case.problem
            pitch = pitches(problem)[0]
            assert problem.rows == 1 or pitch % g.load_vector == 0
            assert not (block_starts(case) % g.load_vector).any()
            if not case.is_tiled:
                assert g.thread_stride % g.load_vector == 0
                assert g.window % g.load_vector == 0

    def test_a_thread_s_registers_hold_its_windows(self) -> None:
        for case in CASES:
            g, reach = case.g, case.g.skipped + (case.g.outputs - 1) * case.problem.down
            if g.turns:
                assert reach <= g.ahead
                assert g.window == g.ahead + g.turn
                assert g.turns >= 2
                assert g.turn % g.thread_stride == g.turn % 4 == 0
            else:
                assert reach + case.problem.taps <= g.window < reach + case.problem.taps + g.lanes
            assert g.turns * g.turn + g.rest == case.problem.taps
            assert g.chain == (CHAIN if case.problem.taps > CHAIN else 0)
            assert not g.turns or g.chain % g.turn == 0

    def test_the_first_sample_of_a_window_is_the_one_under_its_first_tap(self) -> None:
        for case in CASES:
            g = case.g
            begins = np.arange(g.columns) * g.thread_stride + g.tile_lead - g.skipped
            wanted = (np.arange(g.columns) * g.outputs) * case.problem.down + case.problem.first_lag
            assert np.array_equal(block_starts(case)[0] + begins + g.skipped, wanted)


class TestTiles:
    def test_it_holds_every_sample_of_every_window(self) -> None:
        for case in TILED:
            g = case.g
            last = g.tile_lead + (g.columns * g.outputs - 1) * case.problem.down + case.problem.taps - 1
            assert last < g.tile
            assert g.tile % g.load_vector == g.tile % g.lanes == 0

    def test_every_sample_has_a_place_of_its_own(self) -> None:
        for case in TILED:
            places = case.place(np.arange(case.g.tile))
            assert len(np.unique(places)) == case.g.tile
            assert places.max() < case.g.shared

    def test_every_load_is_written_where_its_samples_have_their_places(self) -> None:
        for case in TILED:
            g = case.g
            lanes = min(g.load_vector, g.lanes)
            samples = np.arange(g.tile).reshape(-1, lanes)
            assert np.array_equal(case.place(samples), case.place(samples[:, :1]) + np.arange(lanes))
            assert not (case.place(samples[:, 0]) % lanes).any()
            if g.is_steady:
                threads = np.arange(g.columns) * g.load_vector
                for first in range(0, g.tile, g.columns * g.load_vector):
                    for i in range(0, g.load_vector, g.lanes):
                        constant = case.place(np.array(first + i))
                        assert np.array_equal(case.place(threads) + constant, case.place(threads + first + i))

    def test_a_thread_reads_the_places_of_its_samples(self) -> None:
        """Reads may go beyond the tile, to numbers that no tap meets, but not beyond the array."""
        for case in TILED:
            g = case.g
            part = np.arange(g.columns)[:, None] * (g.thread_stride + g.padding)
            for begin, end, advance in reads(g, case.problem.down):
                window = g.tile_lead - g.skipped + np.arange(begin, end)
                step = advance // g.thread_stride * (g.thread_stride + g.padding)
                first = g.tile_lead - g.skipped + np.arange(begin, end, g.lanes)
                places = part + step + np.repeat(case.place(first), g.lanes) + np.tile(np.arange(g.lanes), len(first))
                samples = np.arange(g.columns)[:, None] * g.thread_stride + advance + window
                assert np.array_equal(places, case.place(samples))
                assert places.max(initial=0) < g.shared

    def test_channels_begin_at_whole_vectors(self) -> None:
        for case in TILED:
            g = case.g
            lanes = max(g.lanes, min(g.outputs if case.is_exchanged else 1, 16 // case.lane_bytes))
            assert g.shared % lanes == 0

    def test_threads_that_are_served_at_once_use_different_banks(self) -> None:
        """A warp's access is served in parts of 128 bytes: 8 threads of 16 bytes, 16 of 8, 32 of 4."""
        for case in TILED:
            g = case.g
            assert banks(case, np.arange(32) * (g.thread_stride + g.padding), g.lanes)
            if case.is_exchanged:
                lanes = min(g.outputs, 16 // case.lane_bytes)
                assert banks(case, np.arange(32) * (g.outputs + g.result_padding), lanes)

    @pytest.mark.parametrize("dtype", ["float32", "complex64"])
    def test_they_do_for_every_stride(self, dtype: str) -> None:
        for down in range(1, 65):
            problem = Filter1d(LONG, 17, dtype=dtype, down=down)
            for outputs in (1, 2, 4, 8, 16, 32):
                values = {**REGISTERS.default(problem, H200).values(), "path": "shared", "outputs": outputs, "turn": 0}
                config = Config.of({**values, "load_vector": 1, "store_vector": 1})
                case = Case(problem, config, Filter1dRegistersGeometry.of(problem, config))
                assert banks(case, np.arange(32) * (case.g.thread_stride + case.g.padding), case.g.lanes)

    def test_shared_memory_fits(self) -> None:
        for case in CASES:
            assert case.g.shared_bytes(case.problem, Weights.of(case.config)) <= STATIC_SHARED_BYTES


def reads(g: Filter1dRegistersGeometry, down: int) -> Iterator[tuple[int, int, int]]:
    """First and last sample of each `read_window` of the text, and by how many samples the thread's part moved on."""
    if not g.turns:
        yield 0, g.window, 0
        return
    yield 0, g.ahead, 0
    for turn in range(g.turns):
        yield g.ahead, g.ahead + g.turn, turn * g.turn
    end = -(-(g.skipped + (g.outputs - 1) * down + g.rest) // g.lanes) * g.lanes
    if g.rest and end > g.ahead:
        yield g.ahead, end, g.turns * g.turn


def banks(case: Case, numbers: Positions, lanes: int) -> bool:
    """True if the accesses of 32 threads to `lanes` numbers from each of `numbers` on have no bank conflict."""
    width = lanes * case.lane_bytes
    together = 128 // width
    units = (numbers * case.lane_bytes // width).reshape(-1, together) % together
    aligned = not (numbers * case.lane_bytes % width).any()
    return aligned and all(len(set(each)) == together for each in units)


def test_the_space_s_estimate_of_shared_memory_is_enough() -> None:
    """The largest blocks that the space allows, of each number of outputs."""
    rng = random.Random(2)
    for problem in (random_problem(rng) for _ in range(40)):
        space, values = REGISTERS.space(problem, H200), REGISTERS.default(problem, H200).values()
        values |= {"path": "shared", "weights": "shared", "store_vector": 1, "exchange": "direct"}
        values |= {"turn": 0, "min_blocks": 0}
        for sizes in itertools.product((1, 2, 4, 8, 16, 32), (32, 64, 128, 256, 512), (1, 2, 4, 8, 16)):
            config = Config.of({**values, **dict(zip(("outputs", "block_columns", "block_rows"), sizes, strict=True))})
            if space.contains(config):
                geometry = Filter1dRegistersGeometry.of(problem, config)
                assert geometry.shared_bytes(problem, Weights.SHARED) <= STATIC_SHARED_BYTES


def test_channels_beyond_32_bits_are_counted_in_64() -> None:
    few, many = (Filter1d(1, 1, batch=2**26, channels=channels) for channels in (32, 80))
    for problem, row_type in ((few, "unsigned"), (many, "unsigned long long")):
        config = REGISTERS.default(problem, H200)
        assert Filter1dRegistersGeometry.of(problem, config).row_type == row_type
        assert f"const {row_type} row = " in REGISTERS.program(problem, config).source


GIVEN: dict[str, tuple[Argument, ...]] = {
    "argument": (ByValue("weights"),),
    "global": (Pointer("weights"),),
    "shared": (Pointer("weights"),),
}
"""Arguments for the taps of a call, by their place; none for other places."""


@pytest.mark.parametrize("fields", [{"bias": True}, {"activation": "silu"}, {"bias": True, "activation": "silu"}])
@pytest.mark.parametrize("known", [{}, {"weights": range(5)}], ids=["given", "known"])
def test_the_bias_is_the_last_argument(fields: dict[str, Any], known: dict[str, Any]) -> None:
    problem, rng = Filter1d(1001, 5, channels=2, **fields, **known), random.Random(0)
    space = REGISTERS.space(problem, H200)
    for config in filter(None, (REGISTERS.default(problem, H200), *(space.drawn(rng) for _ in range(20)))):
        program = REGISTERS.program(problem, config)
        (launch,) = program.launches
        taps = () if known else GIVEN.get(config.text("weights"), ())
        bias = (Pointer("bias"),) if problem.bias else ()
        assert launch.arguments == (Pointer("signal"), Pointer("result"), *taps, *bias)
        assert ("const Tap* __restrict__ bias) {" in program.source) == problem.bias
        assert ("to_weight(" in program.source) == (problem.bias or not known)


@pytest.mark.parametrize(("bias", "most"), [(False, 8187), (True, 8184)])
def test_taps_are_a_kernel_parameter_only_where_all_parameters_fit(bias: bool, most: int) -> None:
    fits, exceeds = (weights_parameter(Filter1d(LONG, taps, bias=bias), ()).values for taps in (most, most + 1))
    assert "argument" in fits
    assert "argument" not in exceeds
    assert 16 + -(-4 * most // 8) * 8 + (8 if bias else -4) <= PARAMETER_BYTES


def of(taps: int, signal: int = LONG, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **fields)


MODEL: dict[str, Any] = {"mode": "causal", "channels": 768, "filters": 768, "batch": 16}
DEFAULTS = [
    # A problem, and the path, place of the taps, outputs, turn and threads of its default on an H200.
    (of(1), "global argument 4 0 128x1"),
    (of(5), "global argument 4 0 128x1"),
    (of(17), "global argument 4 0 128x1"),
    (of(33), "shared argument 16 0 64x1"),
    (of(65), "shared argument 16 0 64x1"),
    (of(129), "shared argument 16 0 64x1"),
    (of(257), "shared argument 32 32 64x1"),
    (of(MAX_TAPS), "shared argument 32 32 64x1"),
    (of(17, signal=2**33), "global argument 4 0 128x1"),
    (of(17, signal=LONG + 3), "global argument 4 0 128x1"),
    (of(65, signal=LONG + 3, mode="same"), "shared argument 16 0 64x1"),
    (of(33, dtype="float16"), "global argument 8 0 128x1"),
    (of(33, dtype="bfloat16"), "global argument 8 0 128x1"),
    (of(65, dtype="bfloat16"), "shared argument 16 0 64x1"),
    (of(4, dtype="uint8"), "global argument 16 0 128x1"),
    (of(31, dtype="uint8"), "shared argument 16 0 64x1"),
    (of(31, dtype="int16"), "global argument 8 0 128x1"),
    (of(17, dtype="complex64"), "shared argument 8 0 64x1"),
    (of(129, dtype="complex64"), "shared argument 8 0 64x1"),
    (of(129, dtype="complex64", taps_dtype="complex64"), "shared argument 8 32 64x1"),
    (of(129, dtype="complex64", down=8), "shared argument 4 32 64x1"),
    (of(17, down=2), "global argument 4 0 128x1"),
    (of(129, down=8), "shared argument 4 32 64x1"),
    (of(129, down=200), "global argument 1 0 128x1"),
    (of(400, dtype="complex64", down=100), "shared argument 1 0 32x1"),
    (of(4, 8192, dtype="bfloat16", mode="causal", batch=8, channels=2048, filters=2048), "global global 8 0 128x1"),
    (of(31, 4096, **MODEL), "shared shared 16 0 64x1"),
    (of(31, 4095, **MODEL), "shared shared 16 0 64x1"),
    (of(31, 4096, **MODEL | {"filters": 1}), "shared argument 16 0 64x1"),
    (of(9, mode="same", weights=(1, 0, 0, 0, -2, 0, 0, 0, 1)), "global literal 4 0 128x1"),
    (of(1, 1), "global argument 1 0 32x1"),
    (of(9, 40, batch=4), "global argument 1 0 64x2"),
    (of(100, 3), "shared argument 1 0 64x1"),
]
every_problem = pytest.mark.parametrize("problem", [each for each, _ in DEFAULTS], ids=lambda each: str(each.key()))


class TestDefaults:
    @pytest.mark.parametrize(("problem", "chosen"), DEFAULTS, ids=[problem.key() for problem, _ in DEFAULTS])
    def test_they_follow_the_measured_rules(self, problem: Filter1d, chosen: str) -> None:
        values = REGISTERS.default(problem, H200).values()
        words = (values[name] for name in ("path", "weights", "outputs", "turn"))
        assert " ".join(map(str, words)) + f" {values['block_columns']}x{values['block_rows']}" == chosen

    @every_problem
    def test_they_are_legal_and_compiled_soon_on_every_gpu(self, problem: Filter1d) -> None:
        for device in (*PRESETS.values(), HOST):
            config = REGISTERS.default(problem, device)
            assert REGISTERS.space(problem, device).why_not(config) is None
            assert REGISTERS.unrolled(problem, config) <= MAX_UNROLLED

    @every_problem
    def test_they_take_longer_than_their_bytes(self, problem: Filter1d) -> None:
        for device in PRESETS.values():
            expected = REGISTERS.expected_ns(problem, device)
            assert expected is not None
            assert math.isfinite(expected)
            assert expected > least_ns(problem, device)

    def test_there_is_one_wherever_there_is_a_config(self) -> None:
        rng = random.Random(3)
        for _ in range(300):
            problem = random_problem(rng, (4, 400, 2048), (64, 190, 371, 3000))
            if REGISTERS.why_not(problem, H200):
                space = REGISTERS.space(problem, H200)
                assert not any(space.drawn(rng) for _ in range(3)), problem.key()

    def test_more_taps_take_longer(self) -> None:
        """The model's times of the two paths differ by up to 6% where the default goes over to tiles."""
        for fields in ({}, {"dtype": "bfloat16"}, {"dtype": "complex64", "down": 8}, {"dtype": "uint8"}):
            times = [
                REGISTERS.expected_ns(of(taps, **fields), H200) or 0.0 for taps in (5, 17, 65, 129, 257, 513, 1025)
            ]
            assert all(more > 0.9 * less for less, more in itertools.pairwise(times)), fields
            assert times[-1] > 1.5 * times[0]

    def test_more_taps_of_a_config_take_longer(self) -> None:
        config = REGISTERS.default(of(65), H200)
        times = [expected_ns(of(taps), config, H200) for taps in range(33, 200)]
        assert times == sorted(times)


def least_ns(problem: Filter1d, device: Device) -> float:
    """Time of a problem's bytes at the device's memory rate; of samples that no window meets none are read."""
    needed = min(1.0, problem.taps / problem.down)
    read = problem.bytes - problem.output.nbytes
    cached = max(0.0, device.l2_bytes - problem.output.nbytes)
    return max(0.0, read * needed + problem.output.nbytes - cached) / device.rates.memory_bytes_per_ns


class TestRefusals:
    def test_channels_side_by_side(self) -> None:
        why = REGISTERS.why_not(Filter1d(64, 4, channels=2, layout="btc"), H200)
        assert why is not None
        assert "layout bct" in why

    def test_long_filters(self) -> None:
        assert str(MAX_TAPS) in (REGISTERS.why_not(of(MAX_TAPS + 1), H200) or "")
        assert REGISTERS.why_not(of(MAX_TAPS), H200) is None

    def test_windows_far_apart(self) -> None:
        assert "3000 samples apart" in (REGISTERS.why_not(of(2048, down=3000), H200) or "")
        assert REGISTERS.why_not(of(100, down=3000), H200) is None

    def test_reasons_are_lines(self) -> None:
        for problem in (Filter1d(64, 4, channels=2, layout="btc"), of(MAX_TAPS + 1), of(2048, down=3000)):
            why = REGISTERS.why_not(problem, H200)
            assert why
            assert "\n" not in why

    def test_there_is_no_default_then(self) -> None:
        with pytest.raises(ValueError, match="ask why_not first"):
            REGISTERS.default(of(2048, down=3000), H200)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_old_gpus_convert_no_pairs(self, dtype: str) -> None:
        problem = of(33, dtype=dtype)
        default = REGISTERS.default(problem, T4).values()
        assert (default["path"], default["outputs"], default["exchange"]) == ("shared", 16, "shared")
        pairs = Config.of({**default, "store_vector": 2})
        assert "converts no pairs" in (REGISTERS.space(problem, T4).why_not(pairs) or "")
        assert REGISTERS.space(problem, H200).contains(pairs)
        assert "bfloat_pair(" not in REGISTERS.program(problem, REGISTERS.default(problem, T4)).source

    def test_the_host_is_no_gpu(self) -> None:
        assert REGISTERS.is_likely(of(33), H200)
        assert not REGISTERS.is_likely(of(33), HOST)
