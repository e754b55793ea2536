"""Complex64 matrix products of cuBLAS through PyTorch on a GPU, and of PyTorch on the host."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.device import DeviceKind
from warpsmith.tuner.operations.peer import Peer, PeerMaker, Unavailable, torch_stream


def makers(
    problem: Cgemm, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1
) -> tuple[PeerMaker, ...]:
    """Libraries for a problem on this kind of device, each with `sets` sets of buffers."""
    name = "PyTorch on the CPU" if kind is DeviceKind.HOST else "cuBLAS through PyTorch"
    return (PeerMaker(name, ("torch",), lambda: torch_peer(problem, operands, kind, sets)),)


def torch_peer(problem: Cgemm, operands: Mapping[str, NDArray[Any]], kind: DeviceKind, sets: int = 1) -> Peer:
    """Peer that runs `torch.bmm` in float32 arithmetic, TF32 off, on transposed and conjugated views.

    cuBLAS takes these views as they are, by its own transpose operations.

    Args:
        problem: problem to compute.
        operands: the problem's inputs.
        kind: kind of the device.
        sets: number of buffer sets.

    Raises:
        Unavailable: PyTorch finds no GPU for a problem on one.
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
    """Function that makes PyTorch see matrices after their operation, without moving an element."""
    views: dict[Op, Callable[[Any], Any]] = {
        Op.N: lambda tensor: tensor,
        Op.T: lambda tensor: tensor.mT,
        Op.C: lambda tensor: tensor.mH,
    }
    return views[op]
