"""States and packed sequences of filters: canonical form, arrays, refusals, random inputs and references."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from filter1d_states import STATES
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d, SignalState
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter1d.states import check_starts, moved_bytes
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, Problem, Role
from warpsmith.tuner.operations.registry import judge_of, random_operands, references, stress_operands

CARRIED = Filter1d(
    2,
    4,
    3,
    mode="causal",
    channels=6,
    filters=6,
    layout="btc",
    dtype="bfloat16",
    state="carried",
    state_width=5,
    state_rows=9,
    circular=True,
)
PACKED = Filter1d(40, 4, mode="causal", channels=6, filters=6, state="both", packed=5)
CHANGES: tuple[tuple[Filter1d, dict[str, Any]], ...] = (
    (CARRIED, {"state_width": 6}),
    (CARRIED, {"state_rows": None}),
    (CARRIED, {"state_rows": 10}),
    (CARRIED, {"circular": False}),
    (CARRIED, {"state": "before", "state_width": None, "state_rows": None, "circular": False}),
    (PACKED, {"packed": None}),
    (PACKED, {"packed": 6}),
    (PACKED, {"state": None}),
    (PACKED, {"state": "after"}),
)


def filter1d(signal: int = 40, taps: int = 4, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", **fields})


def shapes(problem: Filter1d) -> dict[str, tuple[int, ...]]:
    return {operand.name: operand.shape for operand in problem.operands}


class TestCanonicalForm:
    def test_is_exported(self) -> None:
        assert ws.SignalState is SignalState
        assert type(filter1d(state="both").state) is SignalState

    @pytest.mark.parametrize("problem", STATES, ids=lambda problem: problem.key())
    def test_survives_json(self, problem: Filter1d) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        back = Problem.from_spec("filter1d", spec)
        assert back == problem
        assert back.key() == problem.key()

    @pytest.mark.parametrize(("problem", "fields"), CHANGES, ids=str)
    def test_each_field_is_another_problem(self, problem: Filter1d, fields: dict[str, Any]) -> None:
        other = dataclasses.replace(problem, **fields)
        assert other != problem
        assert other.key() != problem.key()
        assert other.spec() != problem.spec()
        assert problem.distance(other) == other.distance(problem)

    def test_the_usual_width_is_none(self) -> None:
        assert filter1d(state="carried", state_width=3) == filter1d(state="carried")

    def test_a_key_names_what_is_special(self) -> None:
        assert CARRIED.key().endswith("layout=btc state=carried state_width=5 state_rows=9 circular=yes")
        assert PACKED.key().endswith("filters=6 state=both packed=5")

    def test_rows_and_sequences_are_sizes(self) -> None:
        assert CARRIED.is_resized(dataclasses.replace(CARRIED, state_rows=20, batch=7))
        assert PACKED.is_resized(dataclasses.replace(PACKED, packed=9, signal=50))
        assert not CARRIED.is_resized(dataclasses.replace(CARRIED, state_rows=None))
        assert not PACKED.is_resized(dataclasses.replace(PACKED, packed=None))
        assert not PACKED.is_resized(dataclasses.replace(PACKED, state="after"))

    def test_a_slice_by_another_name_is_causal(self) -> None:
        """The outputs of `same` are those of `causal` with two taps, and a large `down` leaves one of `full`."""
        assert filter1d(40, 2, mode="same", state="both") == filter1d(40, 2, state="both")
        assert filter1d(2, 4, down=2, state="carried").result_length == 1


class TestOperands:
    def test_states_have_the_layout_of_the_signal(self) -> None:
        both = {"batch": 2, "channels": 6, "state": "both"}
        assert shapes(filter1d(**both))["before"] == (2, 6, 3)
        assert shapes(filter1d(**both, layout="btc"))["after"] == (2, 3, 6)
        assert shapes(filter1d(state="before"))["before"] == (3,)

    def test_inputs_come_in_the_order_of_a_call(self) -> None:
        assert shapes(CARRIED) == {
            "signal": (3, 2, 6),
            "weights": (6, 4),
            "state": (9, 5, 6),
            "indices": (3,),
            "positions": (3,),
            "result": (3, 2, 6),
        }
        assert [each.name for each in PACKED.operands] == ["signal", "weights", "before", "starts", "result", "after"]
        assert (shapes(PACKED)["before"], shapes(PACKED)["starts"]) == ((5, 6, 3), (6,))

    def test_the_result_is_the_output(self) -> None:
        assert (CARRIED.output.name, PACKED.output.name) == ("result", "result")
        assert [each.name for each in CARRIED.outputs] == ["state", "result"]
        assert [each.role for each in PACKED.operands[-2:]] == [Role.OUTPUT, Role.OUTPUT]
        assert {each.dtype for each in CARRIED.inputs if each.name in ("indices", "positions")} == {DType.INT32}

    def test_bytes_count_the_rows_in_use(self) -> None:
        dense = filter1d(1, 4, batch=3, channels=8, state="carried")
        usual = sum(each.nbytes for each in dense.operands if each.name != "state")
        assert dense.bytes == usual + 2 * 3 * 8 * 3 * 4
        assert dataclasses.replace(dense, state_rows=1000).bytes == dense.bytes + 3 * 4
        ring = dataclasses.replace(dense, circular=True, state_width=100)
        assert ring.bytes == usual + 3 * 8 * (3 + 1) * 4 + 3 * 4
        assert moved_bytes(PACKED) == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"state": "now"}, "unknown state 'now'; choose one of before, after, both, carried"),
            ({"taps": 1, "state": "both"}, "a filter of one tap has no state; leave state out"),
            ({"taps": 1, "packed": 2}, "with one tap packed sequences are one signal; leave packed out"),
            ({"mode": "full", "state": "both"}, "a state needs a causal slice, mode causal; this one is mode full"),
            (
                {"mode": None, "lags": (-3, 30), "state": "both"},
                "a state needs a causal slice, mode causal; this one is lags -3 to 30",
            ),
            ({"mode": "same", "packed": 2}, "packed sequences need a causal slice, mode causal; this one is mode same"),
            ({"packed": 2, "batch": 3}, "packed sequences need batch 1 and down 1; got batch 3 and down 1"),
            ({"packed": 2, "down": 2}, "packed sequences need batch 1 and down 1; got batch 1 and down 2"),
            ({"packed": 0}, "packed must be 1 to 1073741823; got 0"),
            ({"packed": True}, "packed must be 1 to 1073741823; got True"),
            ({"signal": 2**31, "packed": 2}, r"packed sequences have at most 2\^31 - 1 samples in all"),
            ({"packed": 2, "state": "carried", "circular": True}, "packed sequences have no circular state"),
            ({"state": "both", "state_rows": 4}, "state_rows need state='carried'"),
            ({"state_width": 4, "circular": True}, "state_width, circular need state='carried'"),
            ({"state": "carried", "state_width": 2}, "state_width must be at least taps - 1, 3; got 2"),
            ({"state": "carried", "circular": "no"}, "circular must be True or False; got 'no'"),
            (
                {"state": "carried", "down": 3},
                "with a carried state every signal begins at a kept output: down, 3, must divide the 40 samples",
            ),
        ],
        ids=str,
    )
    def test_are_one_line(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            filter1d(**fields)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("family", FILTER1D.families, ids=lambda family: family.name)
    def test_families_solve_states_or_say_why_not(self, family: Any) -> None:
        able = {"filter1d_plain", "filter1d_registers", "filter1d_channels", "filter1d_step", "filter1d_partitioned"}
        reasons = {problem.key(): family.why_not(problem, H200) for problem in STATES}
        if family.name not in able:
            assert all(reasons.values())
        if family.name == "filter1d_plain":
            assert not any(reasons.values())
        assert all("\n" not in reason for reason in reasons.values() if reason)

    @pytest.mark.parametrize(
        ("starts", "says"),
        [
            ([], "starts must begin at 0"),
            ([1, 5], "starts must begin at 0"),
            ([0, 4, 3, 5], "starts must not fall; 3 follows 4 at place 2"),
            ([0, 4], "starts must end at the number of samples, 5; got 4"),
            (np.array([0, 6], np.int32), "starts must end at the number of samples, 5; got 6"),
        ],
    )
    def test_starts_in_host_memory(self, starts: Any, says: str) -> None:
        with pytest.raises(BadArgument, match=says):
            check_starts(starts, 5)

    def test_right_starts_are_taken(self) -> None:
        check_starts([0, 0, 2, 2, 5, 5], 5)


class TestReferences:
    @pytest.mark.parametrize("draw", [random_operands, stress_operands])
    def test_inputs_have_their_shapes_and_types(self, draw: Any) -> None:
        for problem in STATES:
            drawn = draw(problem, 3)
            for operand in problem.inputs:
                array = drawn[operand.name]
                assert (array.shape, str(array.dtype)) == (operand.shape, str(operand.dtype)), problem.key()
            if problem.packed is not None:
                check_starts(drawn["starts"], problem.signal)
            if problem.state_rows is not None:
                rows = drawn["indices"][drawn["indices"] >= 0]
                assert len(set(rows)) == len(rows)
                assert rows.max(initial=0) < problem.state_rows

    def test_random_starts_have_empty_and_short_sequences(self) -> None:
        lengths = np.diff(random_operands(filter1d(4000, packed=40), 1)["starts"])
        assert (lengths == 0).any()
        assert (lengths == 1).any()

    def test_some_signals_are_skipped(self) -> None:
        drawn = random_operands(filter1d(1, batch=40, state="carried", state_rows=50), 1)
        assert (drawn["indices"] < 0).any()

    def test_small_problems_have_the_same_state(self) -> None:
        judge = judge_of(CARRIED)
        for problem in (*STATES, filter1d(8000, down=8, state="carried"), filter1d(8000, packed=30, state="both")):
            small = judge.smaller(problem)
            assert (small.state, small.circular, small.packed) == (problem.state, problem.circular, problem.packed)
            assert small.signal <= 8 * (problem.taps + 32)
            assert references(small, random_operands(small, 0)).keys() == {each.name for each in problem.outputs}

    def test_pieces_give_the_whole(self) -> None:
        """A state written by one piece is read by the next, in every form: the results are those of one signal."""
        whole = filter1d(24, 5, batch=2, channels=3, state=None)
        given = random_operands(whole, 4)
        expected = references(whole, given)["result"].expected
        for fields in (
            {"state": "both"},
            {"state": "carried"},
            {"state": "carried", "state_width": 9},
            {"state": "carried", "state_width": 6, "circular": True},
            {"state": "carried", "state_rows": 7},
        ):
            assert np.allclose(in_pieces(whole, given, fields), expected, rtol=1e-12, atol=1e-12), fields

    def test_packed_sequences_are_signals_of_their_own(self) -> None:
        problem = dataclasses.replace(PACKED, layout="btc")
        given = random_operands(problem, 2)
        found = references(problem, given)
        for number, (begin, end) in enumerate(zip(given["starts"], given["starts"][1:], strict=False)):
            if begin == end:
                assert np.array_equal(found["after"].expected[number], given["before"][number])
                continue
            one = filter1d(int(end - begin), 4, channels=6, filters=6, layout="btc", state="both")
            own = {**given, "signal": given["signal"][begin:end], "before": given["before"][number]}
            alone = references(one, own)
            assert np.array_equal(found["result"].expected[begin:end], alone["result"].expected)
            assert np.array_equal(found["after"].expected[number], alone["after"].expected)


def in_pieces(whole: Filter1d, given: Any, fields: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Results of `whole` in pieces of 1 to 8 samples, by the references of problems with states."""
    signal, results, done = given["signal"], [], 0
    state: Any = None
    for length in (1, 2, 3, 8, 4, 6):
        piece = dataclasses.replace(whole, signal=length, **fields)
        name = "before" if fields["state"] == "both" else "state"
        shape = shapes(piece)[name]
        state = np.zeros(shape, np.float32) if state is None else state
        operands = {
            "signal": signal[..., done : done + length],
            "weights": given["weights"],
            name: state,
            "indices": np.array([4, 2], np.int32),
            "positions": np.full(2, done + 100 * piece.taps, np.int32) if piece.circular else None,
        }
        found = references(piece, operands)
        state = found["after" if name == "before" else "state"].expected.astype(np.float32)
        results.append(found["result"].expected)
        done += length
    assert done == whole.signal
    return np.concatenate(results, axis=-1)
