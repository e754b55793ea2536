"""cuDNN through PyTorch, with PyTorch's arrays on the host: what is computed, and what is declined."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.store.record import LeftOut
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.peer import Peer
from warpsmith.tuner.operations.registry import candidates, random_operands, reference

torch = pytest.importorskip("torch")

PROBLEM = Filter2d((24, 31), (3, 4))
STREAMS: list[int] = []


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch with a GPU whose memory is host memory."""
    STREAMS.clear()

    @contextlib.contextmanager
    def stream(handle: int) -> Iterator[None]:
        STREAMS.append(handle)
        yield

    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", {"torch": ModuleSpec("torch", None)}.get)
    monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers.find_spec", {"torch": ModuleSpec("torch", None)}.get)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: handle)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91900)
    # What the peer sets for its whole process.
    monkeypatch.setattr(torch.backends, "cudnn", types.SimpleNamespace(version=lambda: 91900))


def candidate(problem: Filter2d, sets: int = 1) -> Peer | LeftOut:
    found, *_ = candidates(problem, random_operands(problem, 0), DeviceKind.CUDA, sets)
    return found


def peer_of(problem: Filter2d, sets: int = 1) -> Peer:
    found = candidate(problem, sets)
    assert isinstance(found, Peer), found
    return found


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.UINT8])
@pytest.mark.parametrize("border", [each for each in Border if each is not Border.REFLECT])
def test_computes_the_problem_in_its_own_precision(dtype: DType, border: Border) -> None:
    for fields in ({}, {"planes": 3}, {"filters": 2}, {"convolve": True}, {"filter": (3, 3), "cval": 0.0}):
        asked: dict[str, Any] = {"dtype": dtype, "border": border, "cval": 1.5, **fields}
        problem = dataclasses.replace(PROBLEM, **asked)
        peer, operands = peer_of(problem), random_operands(problem, 0)
        peer.run()
        error = verify(peer.result(), reference(problem, operands), problem.output.dtype).max_error
        assert error <= (peer.tolerance or 20 * FLOAT32_BOUND), problem.key()


def test_is_named_by_what_it_does() -> None:
    name = f"cudnn 91900 through torch {torch.__version__}"
    assert peer_of(PROBLEM).name == name
    assert peer_of(dataclasses.replace(PROBLEM, dtype=DType.FLOAT16)).name == f"{name}, weights rounded to float16"
    assert peer_of(dataclasses.replace(PROBLEM, dtype=DType.UINT8)).name == f"{name}, converted to float32 and back"


def test_only_float16_may_be_coarser() -> None:
    assert peer_of(PROBLEM).tolerance is None
    assert peer_of(dataclasses.replace(PROBLEM, dtype=DType.UINT8)).tolerance is None
    assert (peer_of(dataclasses.replace(PROBLEM, dtype=DType.FLOAT16)).tolerance or 0) > 2.0**-11


def test_each_set_has_an_output_and_work_goes_to_the_stream_that_is_given() -> None:
    peer, operands = peer_of(PROBLEM, 3), random_operands(PROBLEM, 0)
    with pytest.raises(RuntimeError, match="has not run"):
        peer.result()
    peer.run(1, 4711)
    with pytest.raises(RuntimeError, match="has not run"):
        peer.result()
    peer.run(0, 4712)
    peer.run(2)
    assert verify(peer.result(), reference(PROBLEM, operands), DType.FLOAT32).right
    assert STREAMS == [4711, 4712]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"border": Border.REFLECT}, "PyTorch pads no border reflect"),
        ({"channels": 3}, "its channels are planes, not interleaved"),
        ({"dtype": DType.UINT8, "result_dtype": DType.FLOAT32}, "image and result are of one type"),
    ],
    ids=str,
)
def test_what_it_does_not_have_is_told(fields: dict[str, Any], reason: str) -> None:
    assert candidate(dataclasses.replace(PROBLEM, **fields)) == LeftOut("cuDNN through PyTorch", reason)


def test_without_a_gpu_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert candidate(PROBLEM) == LeftOut("cuDNN through PyTorch", "PyTorch finds no GPU")
