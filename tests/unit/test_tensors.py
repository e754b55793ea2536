"""GPU tensors without a GPU: a PyTorch that only notes calls."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.devices.arrays import device_view, host_view
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType, Operand, Role

IMAGE = Operand("image", Role.INPUT, (4, 6), DType.FLOAT32)
RESULT = Operand("result", Role.OUTPUT, (4, 6), DType.FLOAT32)
STRIDED = "torch.strided"
OWN, OTHER = 0x70, 0x80
"""Handles of PyTorch's current stream and of another one."""


class Tensor:
    """A tensor on `cuda:0` of the operand's shape."""

    def __init__(self, torch: Any, address: int, *, gpu: int | None = 0, negated: bool = False) -> None:
        self._torch, self._address, self._negated = torch, address, negated
        self.shape, self.dtype, self.layout = (4, 6), "torch.float32", STRIDED
        self.is_cuda, self.requires_grad = gpu is not None, False
        self.device = SimpleNamespace(type="cpu" if gpu is None else "cuda", index=gpu)

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return (6, 1)

    def element_size(self) -> int:
        return 4

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return self._negated

    def is_inference(self) -> bool:
        return False

    def detach(self) -> Tensor:
        return self

    def as_strided_(self, shape: Any, strides: Any) -> Tensor:
        assert (shape, strides) == ((4, 6), (6, 1))
        return self

    def copy_(self, source: Tensor) -> None:
        self._torch.log.append(("copy", source.data_ptr(), self.data_ptr()))

    def record_stream(self, stream: Any) -> None:
        self._torch.log.append(("used on", self.data_ptr(), stream))


class Torch:
    """The functions of `torch` that a view calls."""

    Tensor, strided, float32 = Tensor, STRIDED, "torch.float32"

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.cuda = SimpleNamespace(
            current_stream=lambda _: SimpleNamespace(cuda_stream=OWN),
            default_stream=lambda _: "default",
            ExternalStream=lambda handle, device: (handle, device.index),
        )
        told = lambda x: self.log.append(("written", x.data_ptr()))  # noqa: E731
        self.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=told))

    def is_grad_enabled(self) -> bool:
        return True

    def empty(self, elements: int, dtype: Any, device: Any) -> Tensor:
        assert (elements, dtype, device.index) == (24, self.float32, 0)
        return Tensor(self, 0x9000)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)  # type: ignore[arg-type]
    return made


def test_a_tensor_is_viewed_where_it_lies(torch: Torch) -> None:
    view = device_view(Tensor(torch, 0x1000), IMAGE, ordinal=0)
    view.used_on(OTHER)
    assert (view.address, view.stream, view.is_copy, torch.log) == (0x1000, OWN, False, [])


def test_a_negated_tensor_is_copied_on_its_own_stream(torch: Torch) -> None:
    view = device_view(Tensor(torch, 0x1000, negated=True), IMAGE, ordinal=0)
    assert (view.address, view.stream, view.is_copy) == (0x9000, OWN, True)
    assert torch.log == [("copy", 0x1000, 0x9000)]


@pytest.mark.parametrize(
    ("launched_on", "told"),
    [(OWN, []), (OTHER, [("used on", 0x9000, (OTHER, 0))]), (0, [("used on", 0x9000, "default")])],
    ids=["its own stream", "another stream", "the default stream"],
)
def test_a_copy_lives_until_the_launch_is_done(torch: Torch, launched_on: int, told: list[Any]) -> None:
    view = device_view(Tensor(torch, 0x1000, negated=True), IMAGE, stream=launched_on)
    torch.log.clear()
    view.used_on(launched_on)
    assert torch.log == told


def test_an_output_is_marked_as_written_and_never_copied(torch: Torch) -> None:
    assert device_view(Tensor(torch, 0x1000), RESULT, writable=True).address == 0x1000
    assert torch.log == [("written", 0x1000)]
    with pytest.raises(BadArgument, match="result: out= has PyTorch's conjugate or negative bit set"):
        device_view(Tensor(torch, 0x1000, negated=True), RESULT, writable=True)


def test_a_tensor_elsewhere_is_refused(torch: Torch) -> None:
    with pytest.raises(BadArgument, match=r"image: is on cuda:1, and the plan on cuda:0; copy it there"):
        device_view(Tensor(torch, 0x1000, gpu=1, negated=True), IMAGE, ordinal=0)
    with pytest.raises(BadArgument, match="image: is in host memory; move it to the GPU first"):
        device_view(Tensor(torch, 0x1000, gpu=None), IMAGE, ordinal=0)
    with pytest.raises(BadArgument, match="the host device takes arrays in host memory"):
        host_view(Tensor(torch, 0x1000), IMAGE)
    assert torch.log == []


def test_memory_at_no_address_is_refused(torch: Torch) -> None:
    with pytest.raises(BadArgument, match="image: has no memory"):
        host_view(Tensor(torch, 0, gpu=None), IMAGE)


def test_a_torch_that_is_still_being_imported_has_no_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="image: expected a NumPy array; got list"):
        host_view([1.0], IMAGE)
