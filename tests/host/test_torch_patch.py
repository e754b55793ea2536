"""`warpsmith.torch.patch`: it replaces a model's layers in place, reports, and restores them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
import warnings
from collections.abc import Iterable
from typing import Any

import pytest

import warpsmith as ws
import warpsmith.torch as wt
from warpsmith.devices.tensors import empty_tensor
from warpsmith.errors import BadArgument
from warpsmith.plans.match import MatchKind
from warpsmith.torch import answers, patching

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.usefixtures("compile_quickest")


class Own(nn.Conv2d):  # type: ignore[misc]
    """A class of a user."""


class Net(nn.Module):  # type: ignore[misc]
    """A network with a layer of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.mirrored = nn.Conv2d(4, 4, 3, padding="same", padding_mode="reflect", bias=False)
        self.up = nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)
        self.own = Own(2, 2, 1)
        self.wide = nn.Conv2d(2, 2, 1).double()
        self.unused = nn.Conv2d(1, 1, 1)

    def forward(self, x: Any) -> Any:
        return self.wide(self.own(self.up(self.mirrored(torch.relu(self.norm(self.first(x)))))).double())


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x() -> Any:
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def gradients(model: Any, x: Any) -> list[Any]:
    model.zero_grad()
    y = model(x)
    y.square().mean().backward()
    return [y.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]


def names(layers: Any) -> list[str]:
    return [each.name for each in layers]


def test_the_report_says_what_is_stored_and_what_tunes_the_rest(model: Any, x: Any) -> None:
    statistics = copy.deepcopy(model.norm.state_dict())
    report = wt.patch(model, x)
    assert names(report.replaced) == []
    assert names(report.left) == ["own", "wide", "first", "mirrored", "up", "unused"]
    reasons = {each.name: each.reason for each in report.left}
    assert "Own is derived from PyTorch's" in reasons["own"]
    assert "float64" in reasons["wide"]
    assert "nothing is stored" in reasons["first"]
    assert "do not reach it" in reasons["unused"]
    assert len(report.missing) == len(report.commands) == 9
    assert report.missing[0] == ws.Conv2d((2, 3, 12, 12), (4, 3, 3, 3), 2, 1, bias=True)  # type: ignore[arg-type]
    assert report.commands[0] == (
        "warpsmith tune conv2d --input 2,3,12,12 --weight 4,3,3,3 --stride 2 --padding 1 --device host --bias"
    )
    assert "first: left to PyTorch" in str(report)
    assert model.training
    assert all(torch.equal(each, model.norm.state_dict()[name]) for name, each in statistics.items())

    ws.tune(report.missing[1], "host", trials=1, method="conv2d_plain")
    tuned = ws.query(report.missing[1], "host").program.family  # what was faster beside it may have won
    report = wt.patch(model, (x,))
    (layer,) = report.replaced
    assert layer.name == "first"
    assert [each.kind for each in layer.passes] == [MatchKind.DEFAULT, MatchKind.EXACT, MatchKind.DEFAULT]
    assert [each.family for each in layer.passes] == [None, tuned, None]
    assert str(layer) == f"first: fprop PyTorch, dgrad {tuned} (exact), wgrad PyTorch"


def test_a_patched_model_is_the_same_model(model: Any, x: Any) -> None:
    expected, keys, modules = gradients(model, x), list(model.state_dict()), dict(model.named_modules())
    parameters = dict(model.named_parameters())
    report = wt.patch(model, {"x": x}, fallback="default")
    assert names(report.replaced) == ["first", "mirrored", "up"]
    assert list(model.state_dict()) == keys
    assert all(each is modules[name] for name, each in model.named_modules())
    assert all(each is parameters[name] for name, each in model.named_parameters())
    assert isinstance(model.first, wt.Conv2d)
    assert isinstance(model.up, wt.ConvTranspose2d)
    with warnings.catch_warnings():
        warnings.simplefilter("error", wt.LeftToTorch)
        results = gradients(model, x)
        largest = max(float(each.abs().max()) for each in expected[1:])
        for result, reference in zip(results, expected, strict=True):
            # The batch norm removes the bias before it, so only rounding is left.
            assert (result - reference).abs().max() <= 1e-5 * max(float(reference.abs().max()), 1e-2 * largest)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert (compiled(x) - expected[0]).abs().max() <= 1e-5 * expected[0].abs().max()
        twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        assert torch.equal(twin(x), model(x))
    assert wt.unpatch(model) == ("first", "mirrored", "up")
    assert type(model.first) is nn.Conv2d
    assert wt.unpatch(model) == ()
    assert all(torch.equal(one, other) for one, other in zip(gradients(model, x), expected, strict=True))


def test_without_example_inputs_layers_are_looked_up_at_their_first(model: Any, x: Any) -> None:
    report = wt.patch(model)
    assert names(report.replaced) == ["first", "mirrored", "up", "unused"]
    assert all(each.passes == () for each in report.replaced)
    assert str(report.replaced[0]) == "first: looked up at its first input"
    with pytest.warns(wt.LeftToTorch) as caught:
        model(x)
    assert len(caught) == 3
    assert "no convolution layers" in str(wt.patch(nn.Linear(2, 2)))


def test_a_layer_that_sees_images_of_several_shapes(x: Any) -> None:
    layer = nn.Conv2d(3, 2, 3)

    class Pyramid(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x).mean() + self.layer(input=x[:, :, ::2, ::2]).mean() + self.layer(x).mean()

    report = wt.patch(Pyramid(), x, fallback="default")
    assert [each.problem.input for each in report.replaced[0].passes] == [(2, 3, 12, 12)] * 3 + [(2, 3, 6, 6)] * 3


def test_a_model_that_cannot_be_run_stays_as_it_is(model: Any, x: Any) -> None:
    with pytest.raises(RuntimeError, match="channels"):
        wt.patch(model, x[:, :2])
    with pytest.raises(BadArgument, match="fallback"):
        wt.patch(model, x, fallback="none")
    assert model.training
    assert type(model.first) is nn.Conv2d
    assert not model.first._forward_pre_hooks


def test_a_transposed_layer_with_the_size_of_its_result() -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = torch.randn(1, 2, 4, 5)
    expected = layer(x, output_size=[10, 11])
    report = wt.patch(layer, {"input": x, "output_size": [10, 11]}, fallback="default")
    assert report.replaced[0].passes[0].problem.input == (1, 3, 10, 11)
    y = layer(x, output_size=[10, 11])
    assert y.shape == expected.shape
    assert (y - expected).abs().max() <= 2e-6 * expected.abs().max()


def test_plans_of_a_model_are_made_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first two plans waits until the other is being made."""
    both, made = threading.Barrier(2), answers.plan
    started: list[Any] = []

    def waiting(problem: Any, *given: Any) -> Any:
        started.append(problem)
        if len(started) <= 2:
            both.wait(timeout=60)
        return made(problem, *given)

    monkeypatch.setattr(answers, "plan", waiting)
    monkeypatch.setattr(patching.os, "cpu_count", lambda: 2)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3))
    report = wt.patch(model, torch.randn(1, 3, 12, 12), fallback="default")
    assert [len(each.passes) for each in report.replaced] == [3, 3, 3]
    assert len(set(started)) == len(started) >= 9


@pytest.mark.parametrize("fallback", ["default", "torch"])
def test_default_answers_of_all_passes_are_found_ahead(monkeypatch: pytest.MonkeyPatch, fallback: str) -> None:
    """A forward pass with a bias may be answered by a plan that leaves the bias to PyTorch."""
    asked: list[Any] = []

    def ahead(problems: Iterable[Any], device: str, store: str | None) -> int:
        asked.extend((each, device, store) for each in problems)
        return 0

    monkeypatch.setattr(patching, "answer_ahead", ahead)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, bias=False))
    report = wt.patch(model, torch.randn(1, 3, 12, 12), fallback=fallback)
    if fallback == "torch":
        assert asked == []
        return
    answered = {each.problem for layer in report.replaced for each in layer.passes}
    assert {each for each, *_ in asked} >= answered
    assert len(asked) == 7
    assert {tuple(rest) for _, *rest in asked} == {("host", None)}


@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
def test_a_first_call_in_training_takes_operations_in_place(memory_format: str) -> None:
    """Networks of torchvision have `ReLU(inplace=True)` behind their layers; no call without gradients comes before."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(5, 4, 3), nn.ReLU(inplace=True), nn.ConvTranspose2d(4, 3, 2), nn.ReLU(inplace=True)
    )
    theirs = layers.to(memory_format=getattr(torch, memory_format))
    ours, x = copy.deepcopy(theirs), torch.randn(3, 5, 9, 8).to(memory_format=getattr(torch, memory_format))
    wt.patch(ours, x, fallback="default")
    answers.forget()
    for found, expected in zip(gradients(ours, x), gradients(theirs, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pad", [0, 3])
def test_a_result_is_no_view(pad: int) -> None:
    problem = ws.Filter2d(image=(8, 10), filter=(3, 3))
    whole = problem.output
    rows = (whole.strides[0] + 4 * pad, whole.strides[1])
    operand = dataclasses.replace(whole, strides=rows)
    x = empty_tensor(torch, operand, torch.device("cpu"))
    assert not x._is_view()
    assert x.shape == operand.shape
    assert x.stride() == operand.element_strides
    assert x.untyped_storage().nbytes() == operand.allocated_bytes
