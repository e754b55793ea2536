"""Filters of signals as problems: canonical form, keys, slices, shapes of their arrays, and refusals."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest
import scipy.signal

import warpsmith as ws
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.fields import Activation, SignalLayout
from warpsmith.generator.filter1d.lags import Mode, lags_of
from warpsmith.generator.filter1d.problem import MAX_KNOWN, Filter1d
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand, Problem, Role

EVERY_FIELD = Filter1d(
    signal=40,
    taps=4,
    batch=3,
    channels=6,
    filters=2,
    layout=SignalLayout.BTC,
    dtype=DType.FLOAT16,
    lags=(-2, 34),
    down=3,
    convolve=True,
    result_dtype=DType.FLOAT32,
    weights=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0),
    pitch=32,
    result_pitch=64,
    bias=True,
    activation=Activation.SILU,
    accuracy=Accuracy.ELEMENTWISE,
    nonfinite=NonFinite.ANY,
)
"""A problem in which no field has its default, except the mode, which lags replace, and the type of the taps, which is
float32 if they are known."""

CHANGES: dict[str, dict[str, Any]] = {
    "signal": {"signal": 41},
    "taps": {"taps": 8, "filters": 1},
    "batch": {"batch": 4},
    "mode": {"mode": Mode.VALID, "lags": None},
    "channels": {"channels": 8},
    "filters": {"filters": 1, "weights": (1.0, 2.0, 3.0, 4.0)},
    "layout": {"layout": SignalLayout.BCT, "pitch": 96},
    "dtype": {"dtype": DType.BFLOAT16},
    "lags": {"lags": (-2, 31)},
    "down": {"down": 2},
    "convolve": {"convolve": False},
    "taps_dtype": {"taps_dtype": DType.FLOAT16, "weights": None},
    "result_dtype": {"result_dtype": None},
    "weights": {"weights": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5)},
    "pitch": {"pitch": None},
    "result_pitch": {"result_pitch": 128},
    "bias": {"bias": False},
    "activation": {"activation": None},
    "accuracy": {"accuracy": Accuracy.SIGNALWISE},
    "nonfinite": {"nonfinite": NonFinite.WINDOW},
}
"""Values per field that make EVERY_FIELD another problem."""
STATE_FIELDS = ("pass_", "state", "state_width", "state_rows", "circular", "packed")
"""Fields that need a causal slice; test_filter1d_states.py has their changes."""
GATE_FIELDS = ("gates", "projection")
"""Fields whose changes test_filter1d_gates.py has."""
PRECISION_FIELDS = ("precision",)
"""Field that excludes accuracy elementwise; test_filter1d_fft_matrix.py has its changes."""


def filter1d(signal: Any = 40, taps: Any = 4, **fields: Any) -> Filter1d:
    """A problem from a caller's arguments."""
    return Filter1d(signal, taps, **fields)


def changed(field: str) -> Filter1d:
    return dataclasses.replace(EVERY_FIELD, **CHANGES[field])


def test_every_field_has_a_change() -> None:
    assert [field.name for field in dataclasses.fields(Filter1d)] == [
        *CHANGES,
        *STATE_FIELDS,
        *GATE_FIELDS,
        *PRECISION_FIELDS,
    ]


def test_is_exported_with_its_words() -> None:
    assert (ws.Filter1d, ws.Mode, ws.SignalLayout, ws.Activation) == (Filter1d, Mode, SignalLayout, Activation)


class TestCanonicalForm:
    def test_words_become_members_and_lists_become_tuples(self) -> None:
        problem = filter1d(lags=[-1, 9], channels=2, layout="btc", dtype="float32", weights=[1, 2, 3, 4])
        assert (type(problem.lags), type(problem.layout), type(problem.dtype)) == (tuple, SignalLayout, DType)
        assert problem.weights == (1.0, 2.0, 3.0, 4.0)
        assert type(filter1d(mode="valid").mode) is Mode
        assert hash(problem) == hash(dataclasses.replace(problem))

    @pytest.mark.parametrize(
        ("fields", "usual"),
        [
            ({"signal": np.int64(40), "taps": np.int32(4)}, {}),
            ({"mode": "full"}, {}),
            ({"mode": None, "lags": None}, {}),
            ({"lags": (-3, 39)}, {}),
            ({"lags": np.array([-3, 39])}, {}),
            ({"lags": [0, 36]}, {"mode": "valid"}),
            ({"lags": (-3, 36)}, {"mode": "causal"}),
            ({"lags": (-2, 37)}, {"mode": "same"}),
            ({"lags": (-2, 37), "convolve": True}, {"mode": "same", "convolve": True}),
            ({"dtype": "float32", "taps_dtype": "float32", "result_dtype": "float32"}, {}),
            ({"dtype": np.float16, "result_dtype": "float16"}, {"dtype": "float16"}),
            ({"dtype": np.dtype("int16"), "result_dtype": "float32"}, {"dtype": "int16"}),
            ({"layout": "btc"}, {}),
            ({"layout": "btc", "batch": 3, "pitch": 160}, {"batch": 3}),
            ({"pitch": 160}, {}),
            ({"pitch": 256, "result_pitch": 512}, {}),
            ({"channels": 2, "pitch": 160, "result_pitch": 172}, {"channels": 2}),
            ({"down": np.int64(1), "convolve": np.False_}, {}),
            ({"bias": np.False_, "activation": None}, {}),
            ({"bias": 1, "activation": "swish"}, {"bias": True, "activation": "silu"}),
            ({"weights": np.ones(4)}, {"weights": (1, 1, 1, 1)}),
            ({"weights": np.ones((1, 4))}, {"weights": (1, 1, 1, 1)}),
            ({"weights": (-0.0, 0.1, 0, 0)}, {"weights": (0.0, float(np.float32(0.1)), 0, 0)}),
        ],
    )
    def test_what_says_the_usual_is_not_said(self, fields: dict[str, Any], usual: dict[str, Any]) -> None:
        said, unsaid = filter1d(**fields), filter1d(**usual)
        assert said == unsaid
        assert said.key() == unsaid.key()
        assert json.dumps(said.spec()) == json.dumps(unsaid.spec())

    def test_with_one_tap_all_modes_and_both_orders_are_one(self) -> None:
        problems = {filter1d(taps=1, mode=mode, convolve=convolve) for mode in Mode for convolve in (False, True)}
        assert problems == {filter1d(taps=1)}

    def test_down_trims_lags(self) -> None:
        trimmed = filter1d(lags=(-1, 10), down=4)
        assert trimmed == filter1d(lags=(-1, 7), down=4)
        assert trimmed.lags == (-1, 7)
        assert trimmed.result_length == 3

    def test_a_mode_is_found_if_down_keeps_the_same_outputs(self) -> None:
        assert filter1d(lags=(0, 35), down=5) == filter1d(mode="valid", down=5)
        assert filter1d(mode="causal", down=11) == filter1d(lags=(-3, 30), down=11) == filter1d(down=11)

    @pytest.mark.parametrize("down", [43, 44, 1000])
    def test_one_kept_output_is_one_problem_whatever_comes_after_it(self, down: int) -> None:
        assert filter1d(down=down) == filter1d(lags=(-3, -3))
        assert filter1d(down=42) != filter1d(down=43)

    def test_known_weights_of_several_filters_come_in_rows_or_flat(self) -> None:
        rows = np.arange(12.0).reshape(3, 4)
        one, other = (filter1d(channels=6, filters=3, weights=each) for each in (rows, rows.ravel().tolist()))
        assert one == other
        assert one.known == {"weights": tuple(map(float, range(12)))}

    def test_known_taps_are_in_the_order_of_a_correlation(self) -> None:
        problem = filter1d(channels=2, filters=2, weights=range(8))
        assert problem.known_taps == ((0, 1, 2, 3), (4, 5, 6, 7))
        assert dataclasses.replace(problem, convolve=True).known_taps == ((3, 2, 1, 0), (7, 6, 5, 4))
        assert filter1d().known_taps == ()
        assert filter1d().known == {}


class TestSlices:
    """Windows of the modes, against SciPy and NumPy."""

    SIZES = ((7, 1), (7, 2), (7, 3), (7, 4), (8, 4), (8, 5), (4, 4), (3, 5), (1, 1), (1, 4), (2, 7))

    @pytest.mark.parametrize(
        ("signal", "taps", "mode"),
        [
            (*size, mode)
            for size in SIZES
            for mode in ("full", "same", "valid")
            if mode != "valid" or size[0] >= size[1]
        ],
    )
    def test_scipys_modes_are_its_slices_of_full(self, signal: int, taps: int, mode: str) -> None:
        x, w = np.arange(1.0, signal + 1), np.arange(2.0, taps + 2)
        first, last = Filter1d(signal, taps, mode=mode).span  # type: ignore[arg-type]
        for full, expected in (
            (np.convolve(x, w), scipy.signal.convolve(x, w, mode, method="direct")),
            (np.correlate(x, w, "full"), scipy.signal.correlate(x, w, mode, method="direct")),
        ):
            assert full[first + taps - 1 : last + taps].tolist() == pytest.approx(expected.tolist())

    @pytest.mark.parametrize(("signal", "taps"), SIZES)
    def test_causal_has_an_output_for_each_sample_at_the_end_of_its_window(self, signal: int, taps: int) -> None:
        x, w = np.arange(1.0, signal + 1), np.arange(2.0, taps + 2)
        first, last = lags_of(Mode.CAUSAL, signal, taps)
        assert first == 1 - taps
        filtered = scipy.signal.lfilter(w, [1.0], x)
        assert np.convolve(x, w)[first + taps - 1 : last + taps].tolist() == pytest.approx(filtered.tolist())

    @pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel lengths")
    @pytest.mark.parametrize(("signal", "taps"), [(7, 3), (7, 4), (8, 4), (9, 1), (64, 33)])
    def test_torchs_padding_and_strides_are_lags_and_down(self, signal: int, taps: int) -> None:
        """The rows of docs/guide/signals.md."""
        torch = pytest.importorskip("torch")
        x, w = np.arange(1.0, signal + 1), np.arange(2.0, taps + 2)
        full, middle = np.correlate(x, w, "full"), taps // 2 if taps % 2 else taps // 2 - 1
        rows: list[tuple[dict[str, Any], dict[str, Any]]] = [({"mode": "valid"}, {})]
        rows += [({"lags": (-middle, signal - 1 - middle)}, {"padding": "same"})]
        rows += [({"mode": "same"}, {"padding": "same"})] if taps % 2 else []
        rows += [
            ({"lags": (-pad, signal + pad - taps), "down": step}, {"padding": pad, "stride": step})
            for pad, step in itertools.product({0, 1, taps - 1}, (1, 2, 3))
            if pad < taps
        ]
        for fields, options in rows:
            problem = Filter1d(signal, taps, **fields)
            first, last = problem.span
            ours = full[first + taps - 1 : last + taps : problem.down]
            theirs = torch.conv1d(torch.tensor(x)[None, None], torch.tensor(w)[None, None], **options)
            assert len(ours) == problem.result_length
            assert ours.tolist() == pytest.approx(theirs.flatten().tolist()), options

    def test_upfirdn_is_down(self) -> None:
        x, w = np.arange(1.0, 12), np.arange(2.0, 7)
        for down in range(1, 16):
            problem = Filter1d(11, 5, down=down, convolve=True)
            ours = np.convolve(x, w)[:: problem.down][: problem.result_length]
            assert ours.tolist() == pytest.approx(scipy.signal.upfirdn(w, x, down=down).tolist())

    def test_lengths(self) -> None:
        lengths = {mode: filter1d(mode=mode).result_length for mode in Mode}
        assert lengths == {Mode.FULL: 43, Mode.SAME: 40, Mode.VALID: 37, Mode.CAUSAL: 40}
        assert [filter1d(mode="valid", down=down).result_length for down in (2, 3, 36, 37)] == [19, 13, 2, 1]
        assert filter1d(lags=(5, 5)).result_length == 1

    @pytest.mark.parametrize("mode", ["full", "same", "causal"])
    def test_a_filter_may_be_longer_than_the_signal(self, mode: str) -> None:
        assert filter1d(3, 9, mode=mode).result_length == (11 if mode == "full" else 3)


class TestKeyAndSpec:
    @pytest.mark.parametrize("field", CHANGES)
    def test_changing_any_field_changes_key_and_spec(self, field: str) -> None:
        other = changed(field)
        assert getattr(other, field) != getattr(EVERY_FIELD, field)
        assert other != EVERY_FIELD
        assert other.key() != EVERY_FIELD.key()
        assert other.spec() != EVERY_FIELD.spec()

    def test_names_what_is_unusual(self) -> None:
        assert filter1d().key() == "filter1d signal=40 taps=4 batch=1 mode=full dtype=float32"
        assert EVERY_FIELD.key() == (
            "filter1d signal=40 taps=4 batch=3 dtype=float16 lags=-2,34 channels=6 filters=2 layout=btc down=3 "
            "convolve=yes result_dtype=float32 bias=yes activation=silu accuracy=elementwise nonfinite=any pitch=32 "
            "result_pitch=64 weights=sha256:af7de0621354bafc"
        )
        assert filter1d(activation="swish").key() == f"{filter1d().key()} activation=silu"
        assert filter1d(dtype="complex64", taps_dtype="complex64", mode="same").key() == (
            "filter1d signal=40 taps=4 batch=1 mode=same dtype=complex64 taps_dtype=complex64"
        )

    def test_tells_any_two_problems_apart(self) -> None:
        slices = [*({"mode": mode} for mode in Mode), {"lags": (0, 5)}, {"lags": (-1, 5)}]
        counts = itertools.product((1, 2), (1, 4), (1, 2), (False, True))
        problems = [
            filter1d(batch=batch, channels=channels, layout=layout, down=down, convolve=convolve, **each)
            for (batch, channels, down, convolve), each in itertools.product(counts, slices)
            for layout in (SignalLayout if channels > 1 else (SignalLayout.BCT,))
        ]
        # Every second output of `full` is every second one of none other, and each mode has a length of its own.
        assert len({problem.key() for problem in problems}) == len(set(problems)) == len(problems) > 100

    @pytest.mark.parametrize(
        "problem",
        [
            EVERY_FIELD,
            filter1d(),
            filter1d(mode="valid", dtype="uint8"),
            filter1d(dtype="complex64", taps_dtype="complex64", lags=(3, 3)),
            filter1d(bias=True),
            filter1d(dtype="bfloat16", activation="swish"),
        ],
    )
    def test_a_spec_comes_back_through_json(self, problem: Filter1d) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        back = Problem.from_spec("filter1d", spec)
        assert back == problem
        assert back.key() == problem.key()
        assert list(spec) == [field.name for field in dataclasses.fields(Filter1d)]


class TestOperands:
    def test_of_one_signal_are_lines(self) -> None:
        assert filter1d(mode="valid").operands == (
            Operand("signal", Role.INPUT, (40,), DType.FLOAT32),
            Operand("weights", Role.INPUT, (4,), DType.FLOAT32),
            Operand("result", Role.OUTPUT, (37,), DType.FLOAT32),
        )

    @pytest.mark.parametrize(
        ("fields", "shapes"),
        [
            ({"batch": 3}, [(3, 40), (4,), (3, 43)]),
            ({"channels": 6}, [(6, 40), (4,), (6, 43)]),
            ({"batch": 3, "channels": 6}, [(3, 6, 40), (4,), (3, 6, 43)]),
            ({"batch": 3, "channels": 6, "filters": 2}, [(3, 6, 40), (2, 4), (3, 6, 43)]),
            ({"batch": 3, "channels": 6, "layout": "btc"}, [(3, 40, 6), (4,), (3, 43, 6)]),
            ({"channels": 6, "filters": 6, "layout": "btc"}, [(40, 6), (6, 4), (43, 6)]),
            ({"batch": 3, "layout": "btc", "lags": (0, 0)}, [(3, 40), (4,), (3, 1)]),
            ({"channels": 6, "layout": "btc", "down": 43}, [(40, 6), (4,), (1, 6)]),
        ],
    )
    def test_dimensions_of_one_are_left_out_except_time(
        self, fields: dict[str, Any], shapes: list[tuple[int, ...]]
    ) -> None:
        operands = filter1d(**fields).operands
        assert [each.shape for each in operands] == shapes
        assert all(each.is_in_row_order and each.is_dense for each in operands)

    @pytest.mark.parametrize(
        ("fields", "strides"),
        [
            ({"batch": 3, "channels": 6, "pitch": 192, "result_pitch": 256}, [(1152, 192, 4), (1536, 256, 4)]),
            (
                {"batch": 3, "channels": 6, "layout": "btc", "pitch": 32, "result_pitch": 28},
                [(1280, 32, 4), (1204, 28, 4)],
            ),
            ({"batch": 3, "pitch": 192}, [(192, 4), (172, 4)]),
            ({"channels": 6, "layout": "btc", "pitch": 64, "dtype": "float16"}, [(64, 2), (12, 2)]),
            ({"batch": 2, "dtype": "complex64", "pitch": 328}, [(328, 8), (344, 8)]),
        ],
    )
    def test_with_gaps_between_rows(self, fields: dict[str, Any], strides: list[tuple[int, ...]]) -> None:
        signal, weights, result = filter1d(**fields).operands
        assert [signal.strides, result.strides] == strides
        assert weights.is_in_row_order

    @pytest.mark.parametrize(
        ("dtype", "fields", "taps", "result"),
        [
            ("float32", {}, "float32", "float32"),
            ("float16", {}, "float32", "float16"),
            ("float16", {"taps_dtype": "float16", "result_dtype": "bfloat16"}, "float16", "bfloat16"),
            ("bfloat16", {"taps_dtype": "bfloat16"}, "bfloat16", "bfloat16"),
            ("complex64", {}, "float32", "complex64"),
            ("complex64", {"taps_dtype": "complex64"}, "complex64", "complex64"),
            ("int16", {}, "float32", "float32"),
            ("uint8", {"result_dtype": "float16"}, "float32", "float16"),
        ],
    )
    def test_types(self, dtype: str, fields: dict[str, Any], taps: str, result: str) -> None:
        assert [each.dtype for each in filter1d(dtype=dtype, **fields).operands] == [dtype, taps, result]

    @pytest.mark.parametrize("layout", SignalLayout)
    @pytest.mark.parametrize(
        ("fields", "shape", "dtype"),
        [
            ({}, (1,), DType.FLOAT32),
            ({"channels": 6, "filters": 2}, (6,), DType.FLOAT32),
            ({"channels": 6, "batch": 3, "dtype": "float16", "taps_dtype": "float16"}, (6,), DType.FLOAT16),
            ({"channels": 6, "dtype": "bfloat16", "result_dtype": "float32"}, (6,), DType.FLOAT32),
            ({"channels": 2, "dtype": "int16", "weights": range(4)}, (2,), DType.FLOAT32),
        ],
    )
    def test_a_bias_has_a_number_for_each_channel_of_the_type_of_the_weights(
        self, layout: SignalLayout, fields: dict[str, Any], shape: tuple[int, ...], dtype: DType
    ) -> None:
        without, problem = (filter1d(layout=layout, bias=bias, **fields) for bias in (False, True))
        signal, weights, result = without.operands
        bias = Operand("bias", Role.INPUT, shape, dtype)
        assert problem.operands == (signal, weights, bias, result)
        assert problem.bytes == without.bytes + bias.nbytes
        assert problem.flops == without.flops

    def test_an_activation_has_no_operand(self) -> None:
        assert filter1d(activation="silu").operands == filter1d().operands

    def test_weights_and_bias_may_lie_in_host_memory_and_known_weights_are_no_argument(self) -> None:
        assert filter1d().from_host == {"weights"}
        assert filter1d(bias=True).from_host == {"weights", "bias"}
        assert set(filter1d(bias=True, weights=range(4)).known) == {"weights"}
        assert set(filter1d(weights=range(4)).known) == {"weights"}

    def test_outputs_are_operands(self) -> None:
        assert EVERY_FIELD.outputs == (EVERY_FIELD.output,)
        assert EVERY_FIELD.output.name == "result"

    def test_more_channels_than_a_grid_has_rows(self) -> None:
        problem = filter1d(8, 3, batch=300, channels=70_000, mode="valid")
        assert problem.rows == 21_000_000
        assert problem.output.shape == (300, 70_000, 6)

    def test_more_than_2_to_31_elements(self) -> None:
        assert filter1d(2**31 + 5, 3).output.size == 2**31 + 7
        wide = filter1d(2**16, 3, batch=2**10, channels=2**9, layout="btc", mode="valid")
        assert wide.output.size > 2**31
        padded = filter1d(2**32, 3, batch=2, pitch=2**34 + 64, mode="valid")
        assert padded.operands[0].strides == (2**34 + 64, 4)


class TestCounts:
    @pytest.mark.parametrize(
        ("fields", "times"),
        [
            ({}, 1),
            ({"dtype": "int16"}, 1),
            ({"dtype": "complex64"}, 2),
            ({"dtype": "complex64", "taps_dtype": "complex64"}, 4),
        ],
    )
    def test_flops(self, fields: dict[str, Any], times: int) -> None:
        problem = filter1d(batch=3, channels=5, mode="valid", **fields)
        assert problem.multiply_adds == times * 3 * 5 * 37 * 4
        assert problem.flops == 2 * problem.multiply_adds

    def test_bytes(self) -> None:
        assert filter1d(mode="valid").bytes == 4 * (40 + 4 + 37)
        assert filter1d(dtype="uint8", batch=3, down=2).bytes == 3 * 40 + 4 * 4 + 4 * 3 * 22


class TestDistance:
    @pytest.mark.parametrize("field", CHANGES)
    def test_of_any_other_field_is_more_than_nothing_and_the_same_both_ways(self, field: str) -> None:
        other = changed(field)
        there, back = EVERY_FIELD.distance(other), other.distance(EVERY_FIELD)
        assert there == pytest.approx(back)
        assert there is None or there > 0

    def test_is_measured_in_octaves(self) -> None:
        base = filter1d(2**20, 5, batch=2, mode="causal")
        assert base.distance(base) == 0
        assert base.distance(filter1d(2**21, 5, batch=2, mode="causal")) == 1
        assert base.distance(filter1d(2**18, 5, batch=8, mode="causal")) == 4
        assert base.distance(filter1d(2**20, 10, batch=2, mode="causal")) == 2

    def test_of_what_moves_the_best_config_more_is_longer(self) -> None:
        base = filter1d(2**20, 5, channels=8, mode="causal")
        nearest_first: list[dict[str, Any]] = [
            {"bias": True},
            {"activation": "silu"},
            {"convolve": True},
            {"taps": 6},
            {"layout": "btc"},
            {"dtype": "complex64"},
        ]
        distances = [base.distance(dataclasses.replace(base, **change)) for change in nearest_first]
        assert None not in distances
        assert distances == sorted(distances, key=lambda each: each or 0)

    def test_is_none_where_the_best_config_is_another(self) -> None:
        assert filter1d(taps=5).distance(filter1d(taps=40)) is None
        assert filter1d().distance(ws.Fft(8)) is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"signal": 99},
            {"batch": 7},
            {"channels": 9},
            {"mode": "same"},
            {"lags": (2, 3)},
            {"channels": 3, "pitch": 256, "result_pitch": 512},
        ],
    )
    def test_another_size_or_slice_is_a_resized_one(self, fields: dict[str, Any]) -> None:
        assert filter1d().is_resized(filter1d(**fields))
        assert filter1d(**fields).is_resized(filter1d())

    @pytest.mark.parametrize(
        "fields",
        [
            {"taps": 5},
            {"dtype": "float16"},
            {"result_dtype": "float16"},
            {"down": 2},
            {"convolve": True},
            {"bias": True},
            {"activation": "silu"},
            {"weights": range(4)},
            {"channels": 4, "filters": 4},
            {"channels": 4, "layout": "btc"},
        ],
    )
    def test_another_filter_is_none(self, fields: dict[str, Any]) -> None:
        assert not filter1d().is_resized(filter1d(**fields))
        assert not filter1d().is_resized(ws.Fft(8))

    def test_several_filters_are_resized_ones_of_several(self) -> None:
        assert filter1d(channels=4, filters=4).is_resized(filter1d(channels=8, filters=2))

    def test_features_are_of_one_kind_for_all_problems(self) -> None:
        assert filter1d(mode="valid", batch=2, down=2).features() == {
            "results": 38,
            "taps": 4,
            "down": 2,
            "types": "float32 by float32 to float32",
            "layout": "bct",
            "weights": "one",
        }
        places = [
            filter1d(**fields).features()["weights"]
            for fields in ({}, {"weights": range(4)}, {"channels": 4, "filters": 2})
        ]
        assert places == ["one", "known", "several"]
        assert EVERY_FIELD.features().keys() == filter1d().features().keys()


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"signal": 0}, "signal must be 1 to 68719476736; got 0"),
            ({"signal": -1}, "signal must be 1 to 68719476736; got -1"),
            ({"signal": 8.0}, r"signal must be 1 to 68719476736; got 8\.0"),
            ({"signal": (8,)}, r"signal must be 1 to 68719476736; got \(8,\)"),
            ({"signal": "8"}, "signal must be 1 to 68719476736; got '8'"),
            ({"taps": 0}, "taps must be 1 to 1073741823; got 0"),
            ({"taps": None}, "taps must be 1 to 1073741823; got None"),
            ({"batch": 0}, "batch must be 1 to 1073741823; got 0"),
            ({"channels": 0}, "channels must be 1 to 1073741823; got 0"),
            ({"filters": 0, "channels": 2}, "filters must be 1 to 1073741823; got 0"),
            ({"down": 0}, "down must be 1 to 1073741823; got 0"),
            ({"down": -2}, "down must be 1 to 1073741823; got -2"),
            ({"down": 1.5}, r"down must be 1 to 1073741823; got 1\.5"),
            ({"channels": 6, "filters": 4}, "filters must divide the number of channels, 6; got 4"),
            ({"channels": 6, "filters": 12}, "filters must divide the number of channels, 6; got 12"),
            ({"filters": 2}, "filters must divide the number of channels, 1; got 2"),
            (
                {"taps": 41, "mode": "valid"},
                r"the filter \(41 taps\) is longer than the signal \(40 samples\); choose a mode other than valid",
            ),
            ({"mode": "wrap"}, "unknown mode 'wrap'; choose one of full, same, valid, causal"),
            ({"mode": 3}, "unknown mode 3; choose one of full"),
            ({"mode": "full", "lags": (0, 1)}, "mode and lags both say which outputs to compute; give one of them"),
            ({"lags": (-4, 0)}, "lags must rise and lie in -3 to 39 for 40 samples and 4 taps; got -4 to 0"),
            ({"lags": (0, 40)}, "lags must rise and lie in -3 to 39 for 40 samples and 4 taps; got 0 to 40"),
            ({"lags": (5, 4)}, "lags must rise and lie in -3 to 39 for 40 samples and 4 taps; got 5 to 4"),
            ({"lags": (0, 1.5)}, r"lags must be two integers, the first and the last lag; got \(0, 1\.5\)"),
            ({"lags": (0, 1, 2)}, r"lags must be two integers, the first and the last lag; got \(0, 1, 2\)"),
            ({"lags": 7}, "lags must be two integers, the first and the last lag; got 7"),
            ({"lags": "07"}, "lags must be two integers, the first and the last lag; got '07'"),
            ({"lags": (True, 7)}, r"lags must be two integers, the first and the last lag; got \(True, 7\)"),
            ({"layout": "nct"}, "unknown layout 'nct'; choose one of bct, btc"),
            ({"dtype": "float64"}, "unknown dtype 'float64'; choose one of float32, float16, bfloat16, complex64"),
            ({"dtype": np.float64}, "unknown dtype 'float64'"),
            ({"dtype": "complex128"}, "unknown dtype 'complex128'"),
            ({"dtype": np.dtype(">f4")}, "unknown dtype '>f4'"),
            (
                {"taps_dtype": "float64"},
                "unknown dtype of the taps of a float32 signal 'float64'; choose one of float32",
            ),
            (
                {"taps_dtype": "float16"},
                "unknown dtype of the taps of a float32 signal 'float16'; choose one of float32",
            ),
            (
                {"dtype": "float16", "taps_dtype": "bfloat16"},
                "unknown dtype of the taps of a float16 signal 'bfloat16'; choose one of float32, float16",
            ),
            ({"taps_dtype": DType.FLOAT16}, "float32 signal 'float16'; choose one of float32"),
            ({"taps_dtype": "complex64"}, "unknown dtype of the taps of a float32 signal 'complex64'"),
            ({"dtype": "int16", "taps_dtype": "int16"}, "unknown dtype of the taps of a int16 signal 'int16'"),
            ({"result_dtype": "float64"}, "unknown result dtype 'float64'; choose one of float32, float16, bfloat16"),
            ({"result_dtype": "complex64"}, "unknown result dtype 'complex64'"),
            ({"dtype": "int16", "result_dtype": "int16"}, "unknown result dtype 'int16'"),
            (
                {"dtype": "complex64", "result_dtype": "float32"},
                "unknown result dtype 'float32'; choose one of complex64",
            ),
            ({"channels": 2, "pitch": 156}, "pitch must be 160 bytes or more, in steps of 4; got 156"),
            ({"channels": 2, "pitch": 162}, "pitch must be 160 bytes or more, in steps of 4; got 162"),
            ({"channels": 2, "pitch": "160"}, "pitch must be 160 bytes or more, in steps of 4; got '160'"),
            ({"pitch": 156}, "pitch must be 160 bytes or more, in steps of 4; got 156"),
            ({"channels": 3, "layout": "btc", "pitch": 8}, "pitch must be 12 bytes or more, in steps of 4; got 8"),
            (
                {"batch": 2, "dtype": "complex64", "pitch": 324},
                "pitch must be 320 bytes or more, in steps of 8; got 324",
            ),
            ({"batch": 2, "result_pitch": 168}, "result pitch must be 172 bytes or more, in steps of 4; got 168"),
            (
                {"batch": 2, "dtype": "uint8", "result_pitch": 43},
                "result pitch must be 172 bytes or more, in steps of 4; got 43",
            ),
            ({"convolve": "no"}, "convolve must be True or False; got 'no'"),
            ({"bias": "no"}, "bias must be True or False; got 'no'"),
            ({"bias": np.ones(2)}, "bias must be True or False; got array"),
            ({"activation": "relu"}, "unknown activation 'relu'; choose one of silu"),
            ({"activation": True}, "unknown activation True; choose one of silu"),
            (
                {"dtype": "complex64", "bias": True},
                "a bias and an activation are for real signals; this one is complex64",
            ),
            ({"dtype": "complex64", "activation": "silu"}, "are for real signals; this one is complex64"),
            ({"weights": (1, 2, 3)}, "weights hold 3 values; 4 taps need 4"),
            ({"weights": ()}, "weights hold 0 values; 4 taps need 4"),
            ({"weights": range(4), "channels": 2, "filters": 2}, "weights hold 4 values; 2 filters of 4 taps need 8"),
            ({"weights": np.ones((2, 2))}, "weights must be flat, or a row of 4 values for each filter"),
            ({"weights": (1, 2, 3, 4j)}, "weights must be numeric; got 4j"),
            ({"weights": np.ones(4, np.complex64)}, "weights must be numeric; got"),
            ({"weights": (1, 2, 3, "x")}, "weights must be numeric; got 'x'"),
            ({"weights": (1, 2, 3, float("nan"))}, "weights must be finite as float32; got nan"),
            ({"weights": (1, 2, 3, 1e39)}, r"weights must be finite as float32; got 1e\+39"),
            (
                {"dtype": "complex64", "taps_dtype": "complex64", "weights": range(4)},
                "known weights are float32; pass complex64 weights at each call",
            ),
            (
                {"taps": 4097, "weights": range(4097)},
                "at most 4096 weights can be known; pass these 4097 at each call",
            ),
            (
                {"channels": 2048, "filters": 2048, "weights": range(4)},
                "at most 4096 weights can be known; pass these 8192 at each call",
            ),
            ({"signal": 2**36}, r"the array result spans more than 2\^36 elements; filter in parts"),
            ({"signal": 2**30, "batch": 65}, r"the array signal spans more than 2\^36 elements; filter in parts"),
            ({"signal": 2**36 + 1}, "signal must be 1 to 68719476736"),
            (
                {"channels": 2**10, "filters": 2**10, "taps": 2**27, "mode": "causal"},
                r"the array weights spans more than 2\^36 elements",
            ),
        ],
        ids=str,
    )
    def test_are_one_line(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            filter1d(**fields)
        assert "\n" not in str(caught.value)

    def test_as_many_weights_as_may_be_known_are_taken(self) -> None:
        assert len(filter1d(taps=MAX_KNOWN, weights=range(MAX_KNOWN)).known["weights"]) == MAX_KNOWN

    def test_just_as_many_elements_as_are_allowed(self) -> None:
        assert filter1d(2**36, 4, mode="valid").operands[0].size == 2**36
