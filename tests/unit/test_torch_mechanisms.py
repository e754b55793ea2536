"""PyTorch's mechanisms, one by one: what worked with a model before `warpsmith.torch.patch` works after it.

Each computes the same, by warpsmith's plans where the test says so; otherwise the call is given to PyTorch.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith.torch as wt
from reference_plans import by_reference
from warpsmith.generator.problem import Problem
from warpsmith.torch import layers
from warpsmith.torch.fft import _REQUESTS
from warpsmith.torch.modules import Conv2d

torch = pytest.importorskip("torch")
prune = pytest.importorskip("torch.nn.utils.prune")
nn, functional = torch.nn, torch.nn.functional
ad = torch.autograd.forward_ad


class Net(nn.Module):  # type: ignore[misc]
    """A layer of each kind that `patch` replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.mirrored = nn.Conv2d(4, 4, 3, padding="same", padding_mode="reflect", bias=False)
        self.up = nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)
        self.last = nn.Conv2d(2, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.up(torch.relu(self.mirrored(torch.relu(self.first(x))))))


LAYERS = ("first", "mirrored", "up", "last")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Problem]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield by_reference(monkeypatch)
    torch.set_num_threads(threads)


@pytest.fixture
def plain() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Any:
    return torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def patched(model: Any) -> Any:
    model = copy.deepcopy(model)
    wt.patch(model)
    return model


def close(result: Any, reference: Any) -> bool:
    return bool((result - reference).abs().max() <= 1e-5 * reference.abs().max())


def saved(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def saved_script(model: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(model), file)
    file.seek(0)
    return torch.jit.load(file)


def compiled(function: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


def made_fx(model: Any, x: Any) -> Any:
    return torch.fx.experimental.proxy_tensor.make_fx(model)(x)(x)


def exported(model: Any, x: Any, **options: Any) -> Any:
    return torch.export.export(model, (x,), **options).module()(x)


def inferred(model: Any, x: Any) -> Any:
    with torch.inference_mode():
        return model(x).clone()


def checkpointed(model: Any, x: Any) -> Any:
    y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    return torch.autograd.grad(y.square().sum(), list(model.parameters()))[0]


def tangent(model: Any, x: Any) -> Any:
    with ad.dual_level():
        return ad.unpack_dual(model(ad.make_dual(x, x.cos()))).tangent


def tangent_of_weights(model: Any, x: Any) -> Any:
    with ad.dual_level():
        duals = {name: ad.make_dual(each.detach(), each.detach().cos()) for name, each in model.named_parameters()}
        return ad.unpack_dual(torch.func.functional_call(model, duals, x)).tangent


def pruned(model: Any, x: Any) -> Any:
    model = copy.deepcopy(model)
    prune.l1_unstructured(model.first, "weight", 0.5)
    y = model(x)
    prune.remove(model.first, "weight")
    return y + model(x)


def mkldnn(model: Any, x: Any) -> Any:
    return model.first(x.to_mkldnn()).to_dense()


class Seen(torch.Tensor):  # type: ignore[misc]
    """A tensor that looks at functions by name."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (functional.conv2d, torch.conv2d):
            NAMES.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})


NAMES: list[Any] = []

BY_PLANS: dict[str, Callable[[Any, Any], Any]] = {
    "symbolic_trace": lambda model, x: torch.fx.symbolic_trace(model)(x),
    "make_fx": made_fx,
    "compile": lambda model, x: compiled(model)(x),
    "export": exported,
    "strict export": lambda model, x: exported(model, x, strict=True),
    "deepcopy": lambda model, x: copy.deepcopy(model)(x),
    "pickle": lambda model, x: pickle.loads(pickle.dumps(model))(x),
    "save": lambda model, x: saved(model)(x),
    "functional_call": lambda model, x: torch.func.functional_call(model, dict(model.named_parameters()), x),
    "inference mode": inferred,
    "checkpoint": checkpointed,
    "forward mode": tangent,
    "forward mode of weights": tangent_of_weights,
    "linearize": lambda model, x: torch.func.linearize(model, x)[0],
    "prune": pruned,
    "a class of tensors": lambda model, x: model(x.as_subclass(Plain)).as_subclass(torch.Tensor),
    "autograd.functional.jvp": lambda model, x: torch.autograd.functional.jvp(model, x, x.cos())[1],
}
"""Plans compute the layers."""
BY_TORCH: dict[str, Callable[[Any, Any], Any]] = {
    "jit.trace": lambda model, x: torch.jit.trace(model, x).graph_for(x) and torch.jit.trace(model, x)(x),
    "jit.script": lambda model, x: torch.jit.script(model)(x),
    "a saved script": lambda model, x: saved_script(model)(x),
    "vmap": lambda model, x: torch.vmap(model)(x),
    "func.jvp": lambda model, x: torch.func.jvp(model, (x,), (x.cos(),))[1],
    "func.grad": lambda model, x: torch.func.grad(lambda each: model(each).square().sum())(x),
    "hessian": lambda model, x: torch.func.hessian(lambda each: model(each).square().sum())(x[:1, :, :4, :4]),
    "compiled vmap": lambda model, x: compiled(lambda each: torch.vmap(lambda one: model(one))(each))(x),
    "compiled func.grad": lambda model, x: compiled(torch.func.grad(lambda each: model(each).square().sum()))(x),
    "mkldnn": mkldnn,
    "a tensor with a function of its own": lambda model, x: model(x.as_subclass(Seen)).as_subclass(torch.Tensor),
    "jacobian": lambda model, x: torch.autograd.functional.jacobian(model, x[:1], vectorize=True),
}
"""PyTorch computes them, or their derivatives."""


class Plain(torch.Tensor):  # type: ignore[misc]
    """A class of tensors that changes nothing."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*BY_PLANS, *BY_TORCH])
def test_what_worked_before_patch_works_after_it(name: str, called: list[Problem], plain: Any, x: Any) -> None:
    use = {**BY_PLANS, **BY_TORCH}[name]
    reference = use(plain, x)
    assert not called
    NAMES.clear()
    assert close(use(patched(plain), x), reference)
    assert bool(called) == (name in BY_PLANS or name == "jacobian" or name == "jit.trace")
    assert bool(NAMES) == (name == "a tensor with a function of its own")


def test_a_traced_model_runs_where_warpsmith_is_not(called: list[Problem], plain: Any, x: Any) -> None:
    graph = str(torch.jit.trace(patched(plain), x).inlined_graph)
    assert "warpsmith::" not in graph
    assert graph.count("aten::_convolution") == len(LAYERS)
    assert len(called) == len(LAYERS)  # of the check that tracing ends with


def test_symbolic_traces_call_warpsmith(plain: Any, x: Any, called: list[Problem]) -> None:
    graph = torch.fx.symbolic_trace(patched(plain)).graph
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    assert targets.count(wt.conv2d) == 3
    assert targets.count(wt.conv_transpose2d) == 1
    traced = torch.fx.symbolic_trace(lambda a, w: wt.conv2d(a, w, None, 2, 1, relu=True))
    y, w = traced(x, plain.first.weight), plain.first.weight
    assert close(y, functional.conv2d(x, w, None, 2, 1).relu())
    assert called


@pytest.mark.parametrize("parts", ["all", "backward"])
def test_flops_are_counted(parts: str, called: list[Problem], plain: Any, x: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    def count(model: Any) -> tuple[int, list[str]]:
        before = model(x).sum() if parts == "backward" else None
        called.clear()
        with FlopCounterMode(display=False) as counter:
            (model(x).sum() if before is None else before).backward()
        return counter.get_total_flops(), sorted(counter.get_flop_counts())

    expected = count(plain)
    assert count(patched(plain)) == expected
    assert expected[0] > 100_000
    assert bool(called) == (parts == "all")


def test_flops_of_a_filter(called: list[Problem]) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        wt.filter2d(torch.randn(2, 8, 9), torch.randn(3, 4), border="wrap")
    assert counter.get_total_flops() == 2 * 2 * 8 * 9 * 3 * 4
    assert called


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["parametrization", "hook"])
def test_weights_that_are_normalised(when: str, way: str, called: list[Problem], plain: Any, x: Any) -> None:
    normalise = {
        "parametrization": nn.utils.parametrizations.weight_norm,
        "hook": nn.utils.weight_norm,
    }[way]
    model = copy.deepcopy(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the hook is deprecated
        if when == "before":
            normalise(model.first)
        wt.patch(model, x)
        if when == "after":
            normalise(model.first)
    with torch.no_grad():
        next(model.first.parameters()).mul_(1.5)
    y = model(x)
    assert len(called) == (3 if (when, way) == ("before", "parametrization") else 4)
    copied = copy.deepcopy(model) if way == "parametrization" else None  # PyTorch copies no hooked weights
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = wt.unpatch(model)
    assert names == (LAYERS[1:] if (when, way) == ("before", "parametrization") else LAYERS)
    called.clear()
    assert close(model(x), y)
    assert not called
    assert not any(isinstance(each, Conv2d) for each in model.modules())
    if copied is not None:
        assert close(copied(x), y)  # it is still patched
        assert called
    if way == "parametrization":
        nn.utils.parametrize.remove_parametrizations(model.first, "weight")
        assert type(model.first) is nn.Conv2d
        assert close(model(x), y)


def test_unpatch_names_what_it_cannot_give_back(plain: Any) -> None:
    model = patched(plain)
    derived = type("Sharded", (Conv2d,), {})
    model.first.__class__ = derived
    with pytest.warns(UserWarning, match=r"unpatch leaves first \(Sharded\): its class is derived from ours"):
        assert wt.unpatch(model) == LAYERS[1:]
    model.first.__class__ = Conv2d
    assert wt.unpatch(model) == ("first",)


INDEX = type("Index", (), {"__index__": lambda self: 2})  # noqa: ARG005
NUMBERS: list[Any] = [
    *(2, 2.0, True, np.int64(2), np.int32(2), np.True_, np.float64(2), np.float32(2), np.array(2), np.array([2, 1])),
    *(torch.tensor(2), torch.tensor([2, 1]), torch.tensor(2.0), (2,), [2], (2, 1), [2, 1], torch.Size((2, 1))),
    *((2.0, 1), (True, 1), (np.int64(2), 1), (torch.tensor(2), 1), (2, 1, 1), (), "same", "none", None, (None, 1)),
    *(0, -1, (1, 0), range(1, 3), {1: 2, 2: 1}, INDEX(), (INDEX(), 1), 2**40, b"\x02", (np.array([2]), 1)),
]
"""Numbers that a caller may give: those that PyTorch accepts, and those that it refuses."""
SIZES = [*NUMBERS, 8, -2, 1, np.int64(8), torch.tensor(8), (8, 4), (-1, 4), [np.int64(8), -1], (8, -2)]
AXES = [*NUMBERS, 3, -1, -2, 4, -4, (-2, -1), (1, 2), (2, 1), (1, 1), (-1, 2), (0, 1, 2), (0, 5), (np.int64(1), 2)]
NORMS = [None, "ortho", "forward", "backward", "", "Ortho", 1, True, b"ortho"]


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error)


def check_same(ours: Callable[[], Any], theirs: Callable[[], Any], told: str) -> None:
    with contextlib.suppress(AttributeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, reference = outcome(ours), outcome(theirs)
    if isinstance(reference, type):
        assert result is reference, told
    else:
        assert not isinstance(result, type), f"{told}: {result}"
        assert result.shape == reference.shape, told
        assert not reference.numel() or close(result, reference), told


@pytest.mark.parametrize("option", ["stride", "padding", "dilation", "groups", "output_padding"])
def test_numbers_of_layers_are_those_of_pytorch(option: str, called: list[Problem]) -> None:
    """Calls in both orders: what is called first decides nothing."""
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 2 if option == "groups" else 4, 3, 3)
    others = {"stride": 3} if option == "output_padding" else {}
    for order in (NUMBERS, NUMBERS[::-1]):
        wt.forget()
        for value in (*order, *order):
            words = {option: value, **others}
            told = f"{option}={value!r}"
            if option != "output_padding":
                check_same(
                    lambda: wt.conv2d(x, w, **words, fallback="default"),  # noqa: B023 - called at once
                    lambda: functional.conv2d(x, w, **words),  # noqa: B023
                    told,
                )
            check_same(
                lambda: wt.conv_transpose2d(x, w, **words, fallback="default"),  # noqa: B023
                lambda: functional.conv_transpose2d(x, w, **words),  # noqa: B023
                f"transposed {told}",
            )
    assert called


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2"])
def test_numbers_of_transforms_are_those_of_pytorch(name: str, called: list[Problem]) -> None:
    x = torch.randn(3, 6, 5, dtype=torch.complex64)
    x = x.real.contiguous() if name.startswith("r") else x
    ours, theirs = getattr(wt, name), getattr(torch.fft, name)
    calls = [((size,), {}) for size in SIZES] + [((), {"dim": axes}) for axes in AXES]
    calls += [((size,), {"dim": axes}) for size in (4, (4,), (4, 4)) for axes in AXES]
    calls += [((), {"norm": norm}) for norm in NORMS]
    for order in (calls, calls[::-1]):
        wt.forget()
        for given, words in order:
            told = f"{name}{given} {words}"
            check_same(
                lambda: ours(x, *given, **words, fallback="default"),  # noqa: B023
                lambda: theirs(x, *given, **words),  # noqa: B023
                told,
            )
    assert called


def test_a_call_stores_one_entry_however_often_it_is_made(called: list[Problem]) -> None:
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    for _ in range(20):
        for stride in (2, [2, 2], np.int64(2), torch.tensor(2), (np.int64(2), 2), 2.0, (torch.tensor(2), 2)):
            outcome(lambda: wt.conv2d(x, w, stride=stride, fallback="default"))  # noqa: B023
            outcome(lambda: wt.rfft(x, n=stride, fallback="default"))  # noqa: B023
    assert len(layers._CALLS) <= 4
    assert len(layers._LAYERS) == 1
    assert len(_REQUESTS) <= 2
    assert len({id(each) for each in called}) <= 4


def test_operands_that_are_none_raise_pytorch_s_errors() -> None:
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    for given in (([1.0], w), (x.numpy(), w), (x, None), (None, w), (x, w, 5), (x.to_sparse(), w)):
        for name in ("conv2d", "conv_transpose2d"):
            check_same(lambda: getattr(wt, name)(*given), lambda: getattr(functional, name)(*given), name)  # noqa: B023
    check_same(lambda: wt.rfft([1.0, 2.0]), lambda: torch.fft.rfft([1.0, 2.0]), "rfft")
