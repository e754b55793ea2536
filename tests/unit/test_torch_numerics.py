"""`accuracy` and `nonfinite` of `warpsmith.torch`: every way to a plan carries both, and unknown words are refused."""

from __future__ import annotations

import copy
import io
import pickle
import shlex
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import exhaustive
import warpsmith as ws
import warpsmith.torch as wt
from reference_plans import by_reference
from torch_layers import compiled, derivatives, seeded
from warpsmith.cli.app import run
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Accuracy, NonFinite, Problem
from warpsmith.torch.answers import tune_command
from warpsmith.torch.convolution import CONV2D

torch = pytest.importorskip("torch")
nn, ad = torch.nn, torch.autograd.forward_ad

STRICT: dict[str, Any] = {"accuracy": "elementwise", "nonfinite": "window"}
USUAL = {(Accuracy.NORMWISE, NonFinite.ANY)}
ASKED = {(Accuracy.ELEMENTWISE, NonFinite.WINDOW)}
FUNCTIONS: dict[str, Callable[..., Any]] = {"conv2d": wt.conv2d, "conv_transpose2d": wt.conv_transpose2d}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Any:
    wt.forget()
    yield by_reference(monkeypatch)
    wt.forget()


def told(called: list[Problem]) -> set[tuple[Accuracy, NonFinite]]:
    """Fields of the problems of all plans called since the last read."""
    found = {(each.accuracy, each.nonfinite) for each in called if isinstance(each, ws.Conv2d)}
    called.clear()
    return found


def operands() -> list[Any]:
    """x, w and b of a layer, and of a transposed one, each with a gradient."""
    return [seeded(*shape).requires_grad_() for shape in ((2, 4, 6, 5), (4, 4, 3, 3), (4,))]


@every_function
def test_results_and_derivatives_of_both_orders(function: Any, called: list[Problem]) -> None:
    expected = derivatives(lambda *given: function(*given, padding=1), operands())
    passes = {each.pass_ for each in called if isinstance(each, ws.Conv2d)}
    assert told(called) == USUAL
    found = derivatives(lambda *given: function(*given, padding=1, **STRICT), operands())
    assert {each.pass_ for each in called if isinstance(each, ws.Conv2d)} == passes == set(ws.Pass)
    assert told(called) == ASKED
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@every_function
def test_forward_mode(function: Any, called: list[Problem]) -> None:
    x, w, _ = operands()
    with ad.dual_level():
        y = function(ad.make_dual(x, x.detach().cos()), ad.make_dual(w, w.detach().sin()), padding=1, **STRICT)
        assert ad.unpack_dual(y).tangent is not None
    assert len(called) == 3
    assert told(called) == ASKED


def test_a_relu_behind_the_layer(called: list[Problem]) -> None:
    wt.conv2d(*operands(), relu=True, **STRICT).sum().backward()
    assert told(called) == ASKED


@exhaustive.meeting()
@every_function
@pytest.mark.parametrize("options", [STRICT, {"nonfinite": "window"}, {"accuracy": Accuracy.ELEMENTWISE}, {}], ids=str)
def test_compiled_functions(function: Any, options: dict[str, Any], called: list[Problem]) -> None:
    layer = compiled(lambda *given: function(*given, padding=1, **options))
    first = torch.autograd.grad(layer(*operands()).sum(), leaves := operands(), allow_unused=True)
    assert first == (None, None, None)  # of other operands
    told(called)
    torch.autograd.grad(layer(*leaves).sum(), leaves)
    asked = Accuracy(options.get("accuracy", "normwise")), NonFinite(options.get("nonfinite", "any"))
    assert {each.pass_ for each in called if isinstance(each, ws.Conv2d)} == set(ws.Pass)
    assert told(called) == {asked}


def test_the_dispatcher_s_operators_have_the_usual_words_by_default(called: list[Problem]) -> None:
    x, w, b = operands()
    words = [1, 1], [0, 0, 0, 0], [1, 1], 1, "zeros", "nchw", "ieee", "default", None
    for more, expected in (((), USUAL), (("elementwise", "window"), ASKED)):
        CONV2D.forward(x, w, b, *words, *more).sum().backward()
        assert told(called) == expected


class Net(nn.Module):  # type: ignore[misc]
    """A layer of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.down(x)))


def saved(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda model, x: model(x),
    "deepcopy": lambda model, x: copy.deepcopy(model)(x),
    "pickle": lambda model, x: pickle.loads(pickle.dumps(model))(x),
    "save": lambda model, x: saved(model)(x),
    "compile": lambda model, x: compiled(model)(x),
    "export": lambda model, x: torch.export.export(model, (x,)).module()(x),
    "symbolic trace": lambda model, x: torch.fx.symbolic_trace(model)(x),
    "functional_call": lambda model, x: torch.func.functional_call(model, dict(model.named_parameters()), x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_patched_models(way: Any, called: list[Problem]) -> None:
    torch.manual_seed(0)
    model, x = Net(), seeded(2, 3, 6, 6)
    expected = model(x)
    report = wt.patch(model, x, **STRICT)
    assert {(each.problem.accuracy, each.problem.nonfinite) for one in report.replaced for each in one.passes} == ASKED
    y = way(model, x)
    assert (y - expected).abs().max() < 1e-5
    assert told(called) == ASKED


def test_scripts_of_patched_models_are_pytorch_s(called: list[Problem]) -> None:
    model = Net()
    wt.patch(model, **STRICT)
    torch.jit.script(model)(seeded(2, 3, 6, 6))
    assert not called


def test_exported_graphs_are_read_again(called: list[Problem]) -> None:
    model, x = Net(), seeded(2, 3, 6, 6)
    wt.patch(model, x, **STRICT)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    told(called)
    torch.export.load(file).module()(x)
    assert told(called) == ASKED


def test_words_may_be_members_and_name_the_same_layer(called: list[Problem]) -> None:
    x, w, b = operands()
    wt.conv2d(x, w, b, accuracy=Accuracy.ELEMENTWISE, nonfinite=NonFinite.WINDOW)  # type: ignore[arg-type]
    wt.conv2d(x, w, b, **STRICT)
    first, second = called
    assert first is second  # one layer has one problem for each pass


@every_function
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": "rowwise"}, "unknown accuracy 'rowwise'; choose one of elementwise, normwise"),
        ({"accuracy": None}, "unknown accuracy None; choose one of elementwise, normwise"),
        ({"nonfinite": "propagate"}, "unknown nonfinite 'propagate'; choose one of window, any"),
        ({"nonfinite": 1}, "unknown nonfinite 1; choose one of window, any"),
    ],
)
def test_unknown_words_are_refused_whoever_computes(
    function: Any, options: dict[str, Any], message: str, called: list[Problem]
) -> None:
    x, w, b = operands()
    for each in ((x, w, b), (x.double(), w.double(), b.double())):  # PyTorch computes float64
        with pytest.raises(BadArgument) as error:
            function(*each, **options)
        assert str(error.value) == message
    with pytest.raises(BadArgument) as error:
        wt.patch(Net(), **options)
    assert str(error.value) == message
    assert not called


def test_commands_tell_both_words(own_folders: Any) -> None:  # noqa: ARG001
    layer = ws.Conv2d((2, 3, 8, 8), (4, 3, 3, 3), **STRICT)
    command = tune_command(layer, "host")
    assert command.endswith("--accuracy elementwise --nonfinite window --device host")
    assert run(["query", *shlex.split(command)[2:]]) == 3  # nothing is stored; a bad option were 2
    odd = ws.Conv2d((2, 3, 8, 8), (4, 3, 3, 3), padding=((1, 0), (2, 2)), **STRICT)  # type: ignore[arg-type]
    namespace = type("warpsmith", (), {"tune": lambda *given: given, "Conv2d": ws.Conv2d})
    assert eval(tune_command(odd, "host"), {"warpsmith": namespace}) == (odd, "host")


def test_warnings_and_reports_name_the_problem_that_was_asked_for(own_folders: Any) -> None:  # noqa: ARG001
    wt.forget()
    x, w, b = operands()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        wt.conv2d(x, w, b, padding=1)
        wt.conv2d(x, w, b, padding=1, **STRICT)
    assert "nonfinite" not in str(warned[0].message)
    assert "accuracy=elementwise nonfinite=window" in str(warned[1].message)
    assert "--accuracy elementwise --nonfinite window" in str(warned[1].message)
    report = wt.patch(Net(), seeded(2, 3, 6, 6), **STRICT)
    assert {(each.accuracy, each.nonfinite) for each in report.missing} == ASKED
    assert all("--accuracy elementwise --nonfinite window" in each for each in report.commands)
