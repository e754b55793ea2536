"""Peer libraries for filters of one-dimensional signals.

On a GPU they are cuDNN and cuFFT through PyTorch, cuDNN's causal convolutions, and CuPy; on the host SciPy and PyTorch.
Libraries that add up term by term are left out if that takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d, Mode
from warpsmith.tuner.operations.filter1d import cudnn_peers
from warpsmith.tuner.operations.filter1d.cudnn_peers import CausalMethod, causal_peer, gated_peer
from warpsmith.tuner.operations.filter1d.scipy_peers import DIRECT, scipy_peer
from warpsmith.tuner.operations.filter1d.torch_peers import conv1d_peer, transform_peer
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, PeerMaker
from warpsmith.tuner.operations.scipy_library import ScipyLibrary, cupy_signal, scipy_signal

_MOST_OF_CUDNN = 2e12
"""Largest number of multiply-adds for cuDNN, which has taken a tenth of a second for 1e11 of large image filters."""
_MOST_OF_CUPY = 1e11
"""Largest number of multiply-adds for CuPy's direct sums, which have one thread for each output."""
_MOST_OF_PYTORCH = 2e10
"""Largest number of multiply-adds for PyTorch on the host."""
_MOST_OF_SCIPY = 5e9
"""Largest number of multiply-adds for SciPy's direct sums, on one core."""
_TRANSFORMS = ("oaconvolve", "fftconvolve")


def host_makers(problem: Filter1d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """Peer libraries on the host; none filters with a state, or packed sequences."""
    if problem.state is not None or problem.packed is not None:
        return ()
    return (
        _direct(
            problem,
            "PyTorch on the CPU",
            ("torch",),
            lambda: conv1d_peer(problem, operands, DeviceKind.HOST, sets),
            _MOST_OF_PYTORCH,
        ),
        *_scipy_makers(problem, operands, sets, "SciPy", scipy_signal, _MOST_OF_SCIPY),
    )


def gpu_makers(problem: Filter1d, operands: Operands, sets: int) -> tuple[PeerMaker, ...]:
    """Peer libraries on a GPU; none filters with a state, or packed sequences."""
    if problem.state is not None or problem.packed is not None:
        return ()
    cuda = DeviceKind.CUDA
    return (
        _direct(
            problem,
            "cuDNN through PyTorch",
            ("torch",),
            lambda: conv1d_peer(problem, operands, cuda, sets),
            _MOST_OF_CUDNN,
        ),
        *(
            PeerMaker(
                f"cuDNN {method}",
                ("torch",),
                partial(causal_peer, problem, operands, method, sets),
                cudnn_peers.reason_to_leave_out(problem, method),
            )
            for method in CausalMethod
            if problem.mode is Mode.CAUSAL
        ),
        *(
            PeerMaker(
                "cuDNN b2b_causal_conv1d",
                ("torch",),
                partial(gated_peer, problem, operands, sets),
                cudnn_peers.gated_reason_to_leave_out(problem),
            )
            for _ in range(problem.gates is not None)
        ),
        PeerMaker("cuFFT through PyTorch", ("torch",), lambda: transform_peer(problem, operands, cuda, sets)),
        *_scipy_makers(problem, operands, sets, "CuPy", cupy_signal, _MOST_OF_CUPY),
    )


def _scipy_makers(
    problem: Filter1d, operands: Operands, sets: int, name: str, library: Callable[[], ScipyLibrary], most: float
) -> tuple[PeerMaker, ...]:
    packages = (name.lower(),)
    if problem.gates is not None:
        return ()  # its functions are those of one array

    def make(function: str) -> Peer:
        return scipy_peer(problem, operands, library(), function, sets)

    return (
        _direct(problem, f"{name} signal.{DIRECT}", packages, partial(make, DIRECT), most),
        *(PeerMaker(f"{name} signal.{each}", packages, partial(make, each)) for each in _TRANSFORMS),
    )


def _direct(
    problem: Filter1d, name: str, packages: tuple[str, ...], make: Callable[[], Peer], most: float
) -> PeerMaker:
    """A library that adds up term by term, left out if there are too many terms."""
    sums = problem.multiply_adds
    why_not = f"adds up term by term: {sums:.0e} multiply-adds" if sums > most else None
    return PeerMaker(name, packages, make, why_not)
