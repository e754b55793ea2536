"""Streams of causal filters: chunks of any size give the results of the whole signal; what does not fit is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.problem import Problem
from warpsmith.plans import filter_stream
from warpsmith.plans.filter_stream import FilterStream
from warpsmith.tuner.operations.registry import random_operands

CHUNKS = (1, 7, 480, 4096, 7, 1, 480, 480, 4096, 48)
KINDS: tuple[dict[str, Any], ...] = (
    {"taps": 5},
    {"taps": 4, "batch": 2, "channels": 3, "filters": 3, "dtype": "float16"},
    {"taps": 33, "channels": 4, "filters": 4, "layout": "btc", "convolve": True},
    {"taps": 300, "bias": True, "activation": "silu"},
    {"taps": 9, "dtype": "complex64", "batch": 2},
)


def filter1d(**fields: Any) -> Filter1d:
    return Filter1d(**{"signal": 480, "mode": "causal", "taps": 5} | fields)


def stream_of(**fields: Any) -> FilterStream:
    return ws.plan(filter1d(**fields, state="carried"), device="host").stream()


def part(axis: int, begin: int, end: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(begin, end))


def in_chunks(stream: FilterStream, axis: int, chunks: tuple[int, ...], signal: Any, *others: Any) -> list[Any]:
    ends = np.cumsum(chunks)
    return [stream(signal[part(axis, end - chunk, end)], *others) for chunk, end in zip(chunks, ends, strict=True)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_chunks_give_the_bits_of_the_whole(kind: dict[str, Any]) -> None:
    whole = filter1d(**{**kind, "signal": sum(CHUNKS)})
    given = random_operands(whole, 3)
    expected = ws.plan(whole, device="host")(*given.values())
    axis = 0 if whole.layout == "btc" else expected.ndim - 1
    stream = stream_of(**kind)
    found = in_chunks(stream, axis, CHUNKS, *given.values())
    assert np.array_equal(np.concatenate(found, axis=axis), expected)
    last = given["signal"][part(axis, whole.signal - whole.taps + 1, whole.signal)]
    assert np.array_equal(stream.state, last)


def test_every_second_output_of_chunks(  # a chunk begins at a kept output
) -> None:
    whole = filter1d(signal=1000, down=2)
    given = random_operands(whole, 3)
    found = in_chunks(stream_of(down=2), 0, (2, 14, 480, 504), *given.values())
    assert np.array_equal(np.concatenate(found), ws.plan(whole, device="host")(*given.values()))


def test_bound_weights_are_those_of_each_piece() -> None:
    given = random_operands(filter1d(signal=500), 1)
    plan = ws.plan(filter1d(state="carried"), device="host").hold(weights=given["weights"])
    found = in_chunks(plan.stream(), 0, (13, 480, 7), given["signal"])
    assert np.array_equal(np.concatenate(found), ws.plan(filter1d(signal=500), device="host")(*given.values()))


def test_tensors_give_tensors() -> None:
    torch = pytest.importorskip("torch")
    given = random_operands(filter1d(signal=500), 1)
    signal, weights = (torch.from_numpy(given[name]) for name in ("signal", "weights"))
    found = in_chunks(stream_of(), 0, (13, 480, 7), signal, weights)
    whole = ws.plan(filter1d(signal=500), device="host")(given["signal"], given["weights"])
    assert torch.equal(torch.cat(found), torch.from_numpy(np.asarray(whole)))


def test_a_ring_gives_the_bits_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where positions are reduced modulo the ring's width, long before int32 ends."""
    monkeypatch.setattr(filter_stream, "MOST_COUNTED", 500)
    chunks, fields = (480, 1, 7, 480, 1, 480), {"taps": 9, "batch": 2, "channels": 3, "filters": 3}
    whole = filter1d(signal=sum(chunks), **fields)
    given = random_operands(whole, 3)
    stream = stream_of(circular=True, state_width=100, **fields)
    found = in_chunks(stream, 2, chunks, *given.values())
    assert np.array_equal(np.concatenate(found, axis=2), ws.plan(whole, device="host")(*given.values()))
    assert stream.state.shape == (2, 3, 100)
    assert set(stream._positions) == {(sum(chunks[:4]) % 100 + sum(chunks[4:]))}
    stream.reset()
    assert np.array_equal(in_chunks(stream, 2, chunks[:1], *given.values())[0], found[0])


def test_partitions_of_a_long_filter_give_the_whole() -> None:
    """Chunks of other lengths have other partitions, and read the same ring."""
    rng = np.random.default_rng(5)
    chunks = (48, 1, 48, 2, 48)
    signal = rng.standard_normal((2, sum(chunks))).astype(np.float32)
    weights = rng.standard_normal((2, 200)).astype(np.float32)
    problem = filter1d(signal=48, taps=200, channels=2, filters=2, state="carried", circular=True, convolve=True)
    plan = ws.plan(problem, device="host", method="filter1d_partitioned").hold(weights=weights)
    found = np.concatenate(in_chunks(plan.stream(), 1, chunks, signal), axis=1)
    expected = [np.convolve(x.astype(np.float64), w)[: sum(chunks)] for x, w in zip(signal, weights, strict=True)]
    assert np.abs(found - expected).max() < 1e-5


def test_few_plans_serve_many_lengths() -> None:
    stream, weights = stream_of(), np.ones(5, np.float32)
    for samples in range(1, 300, 13):
        stream(np.zeros(samples, np.float32), weights)
    assert set(stream._plans) <= {480, *(1 << n for n in range(9))}


class TestEnds:
    def test_no_chunk_follows_a_flush(self) -> None:
        stream, weights = stream_of(), np.ones(5, np.float32)
        stream(np.ones(3, np.float32), weights)
        stream.flush()
        assert stream.state is None
        with pytest.raises(BadArgument, match=r"this stream was flushed and takes no more chunks; reset\(\) begins"):
            stream(np.ones(3, np.float32), weights)

    def test_after_a_reset_there_are_zeros_before(self) -> None:
        stream, weights = stream_of(), np.ones(5, np.float32)
        first = stream(np.ones(4, np.float32), weights)
        assert not np.array_equal(stream(np.ones(4, np.float32), weights), first)
        stream.reset()
        assert np.array_equal(stream(np.ones(4, np.float32), weights), first)
        stream.flush()
        stream.reset()
        assert np.array_equal(stream(np.ones(4, np.float32), weights), first)


class TestRefusals:
    @pytest.mark.parametrize(
        ("problem", "says"),
        [
            (filter1d(), "a stream needs a filter whose state is carried"),
            (filter1d(state="both"), "a stream needs a filter whose state is carried"),
            (ws.Filter2d(image=(8, 8), filter=(2, 2)), "a stream needs a filter whose state is carried"),
            (filter1d(state="carried", state_rows=2), "a stream keeps one state for itself; leave state_rows and"),
            (filter1d(state="carried", batch=2, pitch=4096), "a stream takes chunks without gaps between rows"),
        ],
    )
    def test_plans_that_have_no_stream(self, problem: Problem, says: str) -> None:
        plan = ws.plan(problem, device="host")
        with pytest.raises(BadArgument, match=says):
            plan.stream()

    @pytest.mark.parametrize(
        ("fields", "shape", "others", "says"),
        [
            ({}, (2, 3), 1, r"signal: expected a chunk of shape \(samples\); got \(2, 3\)"),
            ({"channels": 3, "layout": "btc"}, (7, 2), 1, r"expected a chunk of shape \(samples, 3\); got \(7, 2\)"),
            ({}, (0,), 1, "signal: a chunk has a multiple of 1 samples, at least one; got 0"),
            ({"down": 2}, (5,), 1, "signal: a chunk has a multiple of 2 samples, at least one; got 5"),
            ({}, (5,), 0, "this stream takes signal, weights; got 1 arrays"),
            ({}, (5,), 2, "this stream takes signal, weights; got 3 arrays"),
        ],
    )
    def test_chunks_that_do_not_fit(
        self, fields: dict[str, Any], shape: tuple[int, ...], others: int, says: str
    ) -> None:
        stream = stream_of(**fields)
        with pytest.raises(BadArgument, match=says) as caught:
            stream(np.zeros(shape, np.float32), *[np.ones(5, np.float32)] * others)
        assert "\n" not in str(caught.value)

    def test_arrays_of_other_libraries(self) -> None:
        with pytest.raises(
            BadArgument, match="signal: a stream takes arrays of NumPy, PyTorch or CuPy; got memoryview"
        ):
            stream_of()(memoryview(bytes(16)), np.ones(5, np.float32))

    def test_a_chunk_of_another_type_changes_nothing(self) -> None:
        stream, weights = stream_of(), np.ones(5, np.float32)
        stream(np.ones(3, np.float32), weights)
        with pytest.raises(BadArgument, match="signal: expected float32"):
            stream(np.ones(4), weights)
        assert stream(np.ones(1, np.float32), weights)[0] == 4

    def test_two_threads_at_once(self) -> None:
        """A second thread is refused while the first one makes a plan for its chunk, and may go on afterwards."""
        entered, leave = threading.Event(), threading.Event()
        plan = ws.plan(filter1d(state="carried"), device="host")

        def other(problem: Problem) -> Any:
            entered.set()
            assert leave.wait(20)
            return ws.plan(problem, device="host")

        stream, chunk, weights = FilterStream(plan, other), np.ones(4, np.float32), np.ones(5, np.float32)
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(stream(chunk, weights)))
        thread.start()
        assert entered.wait(20)
        for use in (lambda: stream(chunk, weights), stream.flush, stream.reset):
            with pytest.raises(BadArgument, match="this stream is in use by another thread; give each thread a stream"):
                use()
        leave.set()
        thread.join()
        assert list(results[0]) == [1, 2, 3, 4]
        assert stream(chunk, weights)[0] == 5

    def test_a_plan_of_one_length_takes_whole_ones(self) -> None:
        plan = ws.plan(filter1d(state="carried"), device="host")
        stream, weights = FilterStream(plan, None), np.ones(5, np.float32)
        assert len(stream(np.ones(960, np.float32), weights)) == 960
        with pytest.raises(BadArgument, match="signal: a stream of this plan takes chunks of whole 480 samples"):
            stream(np.ones(481, np.float32), weights)
