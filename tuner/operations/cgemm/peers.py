"""cuBLAS's products through PyTorch on a GPU, and PyTorch's own on the host: complex64 throughout."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.operations.array_libraries import torch_stream
from warpsmith.tuner.operations.peer import Peer, PeerMaker, Unavailable


def makers(
    problem: Cgemm, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1
) -> tuple[PeerMaker, ...]:
    """The libraries for a problem on this kind of device, each with `sets` sets of buffers."""
    name = "PyTorch on the CPU" if kind is DeviceKind.HOST else "cuBLAS through PyTorch"
    return (PeerMaker(name, ("torch",), lambda: torch_peer(problem, operands, kind, sets)),)


def torch_peer(problem: Cgemm, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1) -> Peer:
    """`torch.bmm` in float32 arithmetic, TF32 off, on views that transpose and conjugate: cuBLAS takes them as they
    are, by its own ops.

    Args:
        problem: what is computed.
        operands: the problem's inputs.
        kind: of the device.
        sets: of buffers.

    Raises Unavailable where PyTorch finds no GPU for a problem on one.
    """
    on_gpu = kind is DeviceKind.CUDA
    torch = importlib.import_module("torch")
    if on_gpu:
        if not torch.cuda.is_available():
            raise Unavailable("PyTorch finds no GPU")
        torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if on_gpu else "cpu"
    views = [
        tuple(
            _view(op)(torch.from_numpy(operands[name].copy()).to(device))
            for name, op in (("a", problem.a), ("b", problem.b))
        )
        for _ in range(sets)
    ]
    outputs = [torch.empty(problem.output.shape, dtype=torch.complex64, device=device) for _ in range(sets)]

    def run(index: int = 0, stream: int | None = None, /) -> None:
        with torch_stream(torch, stream):
            torch.bmm(*views[index], out=outputs[index])

    def result() -> NDArray[Any]:
        array: NDArray[Any] = outputs[0].cpu().numpy()
        return array

    return Peer(f"torch {torch.__version__} bmm{'' if on_gpu else ' on the CPU'}", run, result)


def _view(op: Op) -> Callable[[Any], Any]:
    """What makes PyTorch see matrices as they are multiplied; no element moves."""
    views: dict[Op, Callable[[Any], Any]] = {
        Op.N: lambda tensor: tensor,
        Op.T: lambda tensor: tensor.mT,
        Op.C: lambda tensor: tensor.mH,
    }
    return views[op]
