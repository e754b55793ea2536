"""PyTorch's own samples of its operators, for every name of `warpsmith.torch`: results, errors and derivatives.

A run tests a fixed tenth of them; `pytest -m samples tests/unit/test_torch_samples.py` tests all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import warpsmith.torch as wt
from reference_plans import by_reference
from warpsmith.generator.problem import Problem

torch = pytest.importorskip("torch")
pytree = torch.utils._pytree

NAMES = {
    "nn.functional.conv2d": wt.conv2d,
    "nn.functional.conv_transpose2d": wt.conv_transpose2d,
    **{
        f"fft.{name}": getattr(wt, name)
        for name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2")
    },
}
DTYPES = (
    torch.float32,
    torch.complex64,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.complex128,
    torch.int64,
    torch.uint8,
    torch.bool,
)
BOUNDS = {torch.bfloat16: 2**-7, torch.float16: 2**-9}
"""Relative to the largest number of a result; of other types 2e-5, for a double backward pass is a sum of sums."""
MODES = ("result", "gradients", "double backward", "forward mode", "forward over reverse", "batched gradients", "fake")
LAYOUTS = ("contiguous", "noncontiguous", "channels_last", "lazy")

Tensors = list[Any]


@dataclasses.dataclass(frozen=True)
class Check:
    """Check of one sample in one dtype and layout, in one way."""

    name: str
    dtype: Any
    layout: str
    mode: str
    number: int
    """Fields of the sample."""

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.layout} {self.mode}, sample {self.number}"


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def infos(monkeypatch_module: pytest.MonkeyPatch) -> dict[str, Any]:
    """PyTorch's descriptions of operators. Its module forbids to set switches of the process, and is undone in that."""
    from torch.testing._internal import common_methods_invocations, common_utils
    from torch.testing._internal.opinfo import core

    # PyTorch searches the call stack for one of its own test classes each time samples are made: 17 s of 23.
    for module in (common_utils, core):
        monkeypatch_module.setattr(module, "extract_test_fn", lambda: None)
    vars(torch.backends)["__allow_nonbracketed_mutation_flag"] = True
    return {each.name: each for each in common_methods_invocations.op_db if each.name in NAMES}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Problem]]:
    """Problems called, on one thread: waiting for others would take most of the time of such small samples."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield by_reference(monkeypatch)
    torch.set_num_threads(threads)


def checks_of(info: Any) -> list[Check]:
    """All checks of an operator."""
    found = []
    for dtype in DTYPES:
        samples = len(_samples(info, dtype)) if dtype in info.supported_dtypes("cpu") else 0
        is_usual = dtype in (torch.float32, torch.complex64)
        differentiable = dtype.is_floating_point or dtype.is_complex
        for layout in LAYOUTS if differentiable else LAYOUTS[:1]:
            for mode in MODES if is_usual else (*MODES[: 2 if differentiable else 1], "fake"):
                found += [Check(info.name, dtype, layout, mode, number) for number in range(samples)]
    return found


SAMPLES: dict[tuple[str, Any], list[Any]] = {}
"""Samples by operator and dtype. PyTorch seeds all devices for each, which takes 8 ms."""


def _samples(info: Any, dtype: Any) -> list[Any]:
    if (info.name, dtype) not in SAMPLES:
        SAMPLES[info.name, dtype] = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    return SAMPLES[info.name, dtype]


def laid_out(layout: str, x: Any) -> Any:
    """Equal values: with gaps, in the other memory format, or with a lazy conjugate or negative bit."""
    if layout == "noncontiguous" and x.dim():
        return torch.stack((x, x), -1)[..., 1]
    if layout == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if layout == "lazy":
        return x.conj().resolve_conj().conj() if x.is_complex() else torch._neg_view(-x)
    return x


class Sample:
    """A sample's tensors, and how a function is called with them."""

    def __init__(self, given: Any, layout: str) -> None:
        leaves, self._spec = pytree.tree_flatten((given.input, given.args, given.kwargs))
        self._places = [place for place, each in enumerate(leaves) if isinstance(each, torch.Tensor)]
        self._leaves = leaves
        self.tensors = [laid_out(layout, leaves[place].detach()) for place in self._places]

    def call(self, function: Callable[..., Any], tensors: Tensors) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        first, others, options = pytree.tree_unflatten(leaves, self._spec)
        own = {"fallback": "default"} if function in NAMES.values() else {}
        return function(first, *others, **options, **own)


def weights_like(y: Any, seed: int) -> Any:
    return torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(seed))


def looked_at(mode: str, sample: Sample, function: Callable[..., Any]) -> Tensors:
    """Results of one way of checking."""
    if mode == "result":
        return [sample.call(function, sample.tensors)]
    if mode == "fake":
        return _faked(sample, function)
    if mode == "forward mode":
        return [each for chosen in _choices(sample) for each in _tangents(sample, function, chosen)]
    leaves = [x.detach().requires_grad_() for x in sample.tensors]
    if mode == "forward over reverse":
        return _forward_over_reverse(sample, function, leaves)
    y = sample.call(function, leaves)
    if mode == "batched gradients":
        batch = torch.stack([weights_like(y, seed) for seed in (1, 2)])
        return [y, *torch.autograd.grad(y, leaves, batch, is_grads_batched=True)]
    first = torch.autograd.grad(y, leaves, weights_like(y, 1), create_graph=mode == "double backward")
    if mode == "gradients":
        return [y, *first]
    total = sum((each * weights_like(each, 2).conj()).real.sum() for each in first)
    if not total.requires_grad:
        return [y, *first]
    second = torch.autograd.grad(total, leaves, allow_unused=True)
    return [y, *first, *(torch.zeros_like(x) if each is None else each for x, each in zip(leaves, second, strict=True))]


def _choices(sample: Sample) -> list[list[bool]]:
    """Operands that have a tangent: all, and each by itself."""
    count = len(sample.tensors)
    each = [[place == one for place in range(count)] for one in range(count)] if count > 1 else []
    return [[True] * count, *each]


def _duals(tensors: Tensors, chosen: list[bool]) -> Tensors:
    make = torch.autograd.forward_ad.make_dual
    return [make(x, weights_like(x, 3)) if has else x for x, has in zip(tensors, chosen, strict=True)]


def _tangents(sample: Sample, function: Callable[..., Any], chosen: list[bool]) -> Tensors:
    ad = torch.autograd.forward_ad
    with ad.dual_level():
        y, dy = ad.unpack_dual(sample.call(function, _duals(sample.tensors, chosen)))
        assert dy is not None, "the tangent was dropped"
        return [y, dy]


def _forward_over_reverse(sample: Sample, function: Callable[..., Any], leaves: Tensors) -> Tensors:
    """Tangents of gradients: a product with the Hessian."""
    ad = torch.autograd.forward_ad
    with ad.dual_level():
        y = sample.call(function, _duals(leaves, [True] * len(leaves)))
        loss = (y * y.conj()).real.sum()
        gradients = torch.autograd.grad(loss, leaves)
        pairs = [ad.unpack_dual(each) for each in gradients]
        return [each for pair in pairs for each in (pair.primal, pair.tangent)]


def _faked(sample: Sample, function: Callable[..., Any]) -> Tensors:
    """Zeros of the shape and the type that a tracer sees."""
    with torch._subclasses.FakeTensorMode() as mode:
        y = sample.call(function, [mode.from_tensor(x) for x in sample.tensors])
    return [torch.zeros(y.shape, dtype=y.dtype)]


def difference(results: Tensors | Exception, references: Tensors | Exception, dtype: Any) -> str | None:
    """Difference of two results as text, or None. Errors must be of the same type."""
    if isinstance(references, Exception) or isinstance(results, Exception):
        same = type(results) is type(references)
        return None if same else f"{_told(results)} in place of {_told(references)}"
    for place, (result, reference) in enumerate(zip(results, references, strict=True)):
        if (result.shape, result.dtype) != (reference.shape, reference.dtype):
            return f"[{place}] is {result.dtype} {tuple(result.shape)}, not {reference.dtype} {tuple(reference.shape)}"
        wide = torch.complex128 if reference.is_complex() else torch.float64
        error = (result.to(wide) - reference.to(wide)).abs()
        largest = reference.to(wide).abs().max() if reference.numel() else 1.0
        if reference.numel() and not error.max() <= BOUNDS.get(dtype, 2e-5) * largest:
            return f"[{place}] is wrong by {error.max():.3g} of {largest:.3g}"
    return None


def _told(given: Any) -> str:
    return f"{type(given).__name__} ({str(given).splitlines()[0][:90]})" if isinstance(given, Exception) else "a result"


def outcome(work: Callable[[], Tensors]) -> Tensors | Exception:
    try:
        return work()
    except Exception as error:
        return error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def failures(info: Any, checks: list[Check]) -> list[str]:
    """Lines, one for each check that fails."""
    found, samples = [], {dtype: _samples(info, dtype) for dtype in {each.dtype for each in checks}}
    with quietly():
        for check in checks:
            sample = Sample(samples[check.dtype][check.number], check.layout)
            theirs = outcome(lambda: looked_at(check.mode, sample, info.op))  # noqa: B023 - called at once
            ours = outcome(lambda: looked_at(check.mode, sample, NAMES[check.name]))  # noqa: B023
            wrong = difference(ours, theirs, check.dtype)
            if wrong is not None:
                found.append(f"{check}: {wrong}")
    return found


def test_a_tenth_of_pytorch_s_samples(infos: dict[str, Any], called: list[Problem]) -> None:
    draw = random.Random(41)
    wrong = []
    for info in infos.values():
        checks = checks_of(info)
        wrong += failures(info, draw.sample(checks, len(checks) // 10))
    assert set(infos) == set(NAMES)
    assert not wrong, "\n".join(wrong)
    assert len(called) > 300


@pytest.mark.samples
@pytest.mark.parametrize("name", NAMES)
def test_all_of_pytorch_s_samples(name: str, infos: dict[str, Any], called: list[Problem]) -> None:
    checks = checks_of(infos[name])
    wrong = failures(infos[name], checks)
    print(f"{name}: {len(checks)} checks, {len(called)} calls of plans, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    assert called


@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_refuses_raises_its_errors(name: str, infos: dict[str, Any]) -> None:
    """PyTorch's samples of errors, with its types and words."""
    info = infos[name]
    given = list(info.error_inputs("cpu")) if info.error_inputs_func else []
    for each in given:
        sample = Sample(each.sample_input, "contiguous")
        with pytest.raises(each.error_type, match=each.error_regex):
            sample.call(NAMES[name], sample.tensors)
    assert given or name == "nn.functional.conv_transpose2d"
