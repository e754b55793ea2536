"""What peers of every operation need of PyTorch and CuPy: cuDNN in float32 arithmetic, and work on a given stream."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from warpsmith.tuner.operations.peer import Unavailable


def torch_with_cudnn() -> Any:
    """The module `torch`, with cuDNN's TF32 off and its own search on. Raises Unavailable where it finds no GPU."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def torch_stream(torch: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Lets what PyTorch launches within work on a stream of another library; None is the default one."""
    if stream is None:
        return contextlib.nullcontext()
    entered: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(stream))
    return entered


def cupy_stream(cupy: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Lets what CuPy launches within work on a stream of another library; None is the default one."""
    if stream is None:
        return contextlib.nullcontext()
    external: contextlib.AbstractContextManager[Any] = cupy.cuda.ExternalStream(stream)
    return external
