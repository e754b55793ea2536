"""PyTorch and CuPy helpers for peers of every operation: cuDNN in float32 arithmetic, and work on a given stream."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from warpsmith.tuner.operations.peer import Unavailable


def torch_with_cudnn() -> Any:
    """The module `torch`, with cuDNN's TF32 off and its benchmark search on. Raises Unavailable if it finds no GPU."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def torch_stream(torch: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes PyTorch launch on another library's stream inside the block; None is the default stream."""
    if stream is None:
        return contextlib.nullcontext()
    entered: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(stream))
    return entered


def cupy_stream(cupy: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes CuPy launch on another library's stream inside the block; None is the default stream."""
    if stream is None:
        return contextlib.nullcontext()
    external: contextlib.AbstractContextManager[Any] = cupy.cuda.ExternalStream(stream)
    return external
