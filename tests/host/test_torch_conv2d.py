"""`warpsmith.torch.conv2d` and `conv_transpose2d` on CPU tensors: PyTorch's results, gradients, words and errors."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import warpsmith as ws
import warpsmith.torch as wt
from builders import winner
from torch_layers import check, derivatives, of_torch, options_of, plans_called, seeded
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.plans.match import MatchKind
from warpsmith.store.store import Store
from warpsmith.torch.convolution import CONV2D
from warpsmith.torch.layer_spec import Geometry

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.usefixtures("compile_quickest")

LAYERS: dict[str, dict[str, Any]] = {
    "usual": {"x": (2, 3, 8, 9), "w": (4, 3, 3, 3), "padding": 1},
    "groups, stride": {"x": (2, 4, 9, 8), "w": (6, 2, 3, 2), "groups": 2, "stride": (2, 1), "padding": (1, 0)},
    "dilation": {"x": (1, 2, 11, 10), "w": (3, 2, 3, 3), "dilation": (2, 3), "stride": 2, "padding": 2},
    "same": {"x": (2, 2, 6, 7), "w": (3, 2, 4, 3), "padding": "same"},
    "reflect": {"x": (2, 2, 6, 7), "w": (3, 2, 3, 3), "padding": 2, "padding_mode": "reflect"},
    "circular": {"x": (2, 2, 4, 5), "w": (3, 2, 3, 3), "padding": (3, 1), "padding_mode": "circular"},
}


def operands(layer: dict[str, Any], dtype: Any = torch.float32) -> tuple[Any, Any, Any]:
    """x, w and b, each with a gradient."""
    shapes = layer["x"], layer["w"], layer["w"][:1]
    x, w, b = (seeded(*shape).to(dtype).requires_grad_() for shape in shapes)
    return x, w, b


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[ws.Conv2d]:
    """List that receives the problems of plans that compute a pass."""
    return plans_called(monkeypatch)


def passes(problems: list[ws.Conv2d]) -> list[ws.Pass]:
    return [each.pass_ for each in problems]


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", LAYERS)
def test_results_and_gradients_are_pytorch_s_in_float64(name: str, used: list[ws.Conv2d]) -> None:
    layer = LAYERS[name]
    options = options_of(layer)
    given, exact = operands(layer), operands(layer, torch.float64)
    references = derivatives(lambda x, w, b: of_torch(x, w, b, **options), exact)
    check(derivatives(lambda *each: wt.conv2d(*each, **options, fallback="default"), given), references)
    assert set(passes(used)) == set(ws.Pass)
    used.clear()
    with pytest.warns(wt.LeftToTorch):
        check(derivatives(lambda *each: wt.conv2d(*each, **options), given), references)
    assert not used


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", LAYERS)
def test_rules_of_the_operators_are_the_derivatives(name: str) -> None:
    layer = LAYERS[name]
    numbers = Geometry.of(
        layer.get("stride", 1),
        layer.get("padding", 0),
        layer.get("dilation", 1),
        layer.get("groups", 1),
        layer.get("padding_mode", "zeros"),
        layer["w"][2:],
    )
    words = *numbers.words, "nchw", "ieee", "torch", None
    x, w, b = operands(layer, torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        y = CONV2D.forward(x, w, b, *words)
        dy = torch.randn_like(y).requires_grad_()
        for function, given in (
            (lambda x, w, b: CONV2D.forward(x, w, b, *words), (x, w, b)),
            (lambda dy, w: CONV2D.input_gradient(dy, w, x.shape, *words), (dy, w)),
            (lambda x, dy: CONV2D.weight_gradient(x, dy, w.shape, *words), (x, dy)),
        ):
            assert torch.autograd.gradcheck(function, given, fast_mode=True)
            assert torch.autograd.gradgradcheck(function, given, fast_mode=True)


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", ["groups, stride", "circular"])
def test_operators_are_what_pytorch_wants_of_them(name: str) -> None:
    layer = LAYERS[name]
    x, w, b = operands(layer)
    mode = layer.get("padding_mode", "zeros")
    numbers = Geometry.of(layer.get("stride", 1), layer["padding"], 1, layer.get("groups", 1), mode, layer["w"][2:])
    words = *numbers.words, "nchw", "ieee", "default", None
    dy = CONV2D.forward(x, w, b, *words).detach().requires_grad_()
    torch.library.opcheck(CONV2D.forward, (x, w, b, *words))
    torch.library.opcheck(CONV2D.input_gradient, (dy, w, list(x.shape), *words))
    torch.library.opcheck(CONV2D.weight_gradient, (x, dy, list(w.shape), *words))


def test_a_compiled_function_is_one_graph(used: list[ws.Conv2d]) -> None:
    given = operands(LAYERS["usual"])

    def loss(x: Any, w: Any, b: Any) -> Any:
        return torch.relu(wt.conv2d(x, w, b, padding=1, fallback="default")).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    check([compiled(*given).detach()], [loss(*given).double().detach()])
    used.clear()
    compiled_grads = torch.autograd.grad(compiled(*given), given)
    assert set(passes(used)) == set(ws.Pass)
    check(list(compiled_grads), [each.double() for each in torch.autograd.grad(loss(*given), given)])


def test_who_intercepts_operators_sees_ours() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):  # type: ignore[misc]
        seen: list[str] = []  # noqa: RUF012

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x, w, _ = operands(LAYERS["usual"])
    with Names() as names:
        wt.conv2d(x, w, padding=1, fallback="default")
    assert names.seen == ["warpsmith.conv2d.default"]


def test_function_transforms_are_pytorch_s(used: list[ws.Conv2d]) -> None:
    x, w, _ = operands(LAYERS["usual"])
    loss = lambda x, w: wt.conv2d(x, w, padding=1, fallback="default").square().sum()  # noqa: E731
    grads = torch.func.grad(loss, (0, 1))(x.detach(), w.detach())
    batch = torch.vmap(lambda x: wt.conv2d(x, w.detach(), padding=1))(x.detach()[:, None])
    assert not used
    exact = of_torch(x.double(), w.double(), padding=1)
    check([*grads, batch[:, 0]], [*torch.autograd.grad(exact.square().sum(), (x, w)), exact.detach()], 5e-6)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_only_gradients_that_are_needed_are_computed(wanted: tuple[int, ...], used: list[ws.Conv2d]) -> None:
    given = [each.detach().requires_grad_(place in wanted) for place, each in enumerate(operands(LAYERS["usual"]))]
    wt.conv2d(*given, padding=1, fallback="default").sum().backward()
    of_place = {0: ws.Pass.DGRAD, 1: ws.Pass.WGRAD}
    assert passes(used) == [ws.Pass.FPROP, *(of_place[place] for place in wanted if place in of_place)]
    assert [place for place, each in enumerate(given) if each.grad is not None] == [*wanted]


def test_operands_of_any_strides_and_addresses() -> None:
    _, w, b = (each.detach() for each in operands(LAYERS["usual"]))
    image = seeded(2, 3, 8, 9)
    views = {
        "transposed": image.transpose(2, 3).contiguous().transpose(2, 3),
        "strided": torch.repeat_interleave(image, 2, 3)[..., ::2],
        "misaligned": torch.cat([torch.zeros(1), image.flatten()])[1:].view_as(image),
        "negated": torch.complex(torch.zeros_like(image), -image).conj().imag,
        "parameter": torch.nn.Parameter(image),
    }
    expected = functional.conv2d(image.double(), w.double(), b.double(), padding=1)
    for x in views.values():
        assert torch.equal(x, image)
        check([wt.conv2d(x, w, b, padding=1, fallback="default").detach()], [expected])
    x = image.requires_grad_()
    y = wt.conv2d(x, w, b, padding=1, fallback="default")
    y.sum().backward()  # of an expanded gradient
    check([x.grad], [torch.autograd.grad(functional.conv2d(x.double(), w.double(), padding=1).sum(), x)[0]])


def test_a_single_image_and_an_empty_batch() -> None:
    x, w, b = (each.detach() for each in operands(LAYERS["usual"]))
    check(
        [wt.conv2d(x[0], w, b, padding=1, fallback="default")],
        [functional.conv2d(x[0].double(), w.double(), b.double(), padding=1)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = x[:0].requires_grad_()
        y = wt.conv2d(empty, w, b, padding=1)
        assert y.shape == (0, 4, 8, 9)
        y.sum().backward()
        assert empty.grad.shape == empty.shape


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda x, w, b: (x[:, :2], w, b), {}),
        (lambda x, w, b: (x[..., :2, :2], w, b), {}),
        (lambda x, w, b: (x, w, b[:2]), {}),
        (lambda x, w, b: (x, w.double(), b), {}),
        (lambda x, w, b: (x[0, 0], w, b), {}),
        (lambda x, w, b: (x, w, b), {"stride": 0}),
        (lambda x, w, b: (x, w, b), {"stride": (1, 2, 3)}),
        (lambda x, w, b: (x, w, b), {"padding": -1}),
        (lambda x, w, b: (x, w, b), {"padding": "sane"}),
        (lambda x, w, b: (x, w, b), {"padding": "same", "stride": 2}),
        (lambda x, w, b: (x, w, b), {"groups": 2}),
    ],
)
@pytest.mark.parametrize("fallback", ["torch", "default"])
def test_errors_are_pytorch_s(change: Any, options: dict[str, Any], fallback: str) -> None:
    given = change(*(each.detach() for each in operands(LAYERS["usual"])))
    with pytest.raises((RuntimeError, ValueError, TypeError)) as theirs:
        functional.conv2d(*given, **options)
    with pytest.raises(type(theirs.value)) as ours:
        wt.conv2d(*given, **options, fallback=fallback)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("word", ["precision", "fallback", "padding_mode"])
def test_unknown_words_are_refused(word: str) -> None:
    x, w, _ = operands(LAYERS["usual"])
    with pytest.raises(BadArgument, match="none-such"):
        wt.conv2d(x, w, padding=1, **{word: "none-such"})


def test_a_layer_that_is_left_to_pytorch_is_told_of_once_with_its_remedy(own_folders: Path) -> None:  # noqa: ARG001
    x, w, b = operands({"x": (2, 4, 9, 8), "w": (6, 2, 3, 2)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            wt.conv2d(x, w, b, stride=2, padding=(1, 0), groups=2).sum().backward()
    (told,) = caught
    assert told.category is wt.LeftToTorch
    assert told.filename == __file__
    text = str(told.message)
    assert "\n" not in text
    assert text.startswith("PyTorch computes conv2d pass=fprop input=2x4x9x8")
    command = text.partition("; to tune it: ")[2]
    name, verb, *options = shlex.split(command)
    assert (name, verb) == ("warpsmith", "tune")
    assert run(["query", *options]) == 3  # nothing is stored; a bad option would give 2
    assert ws.Conv2d(x.shape, w.shape, 2, (1, 0), groups=2, bias=True).key() in text  # type: ignore[arg-type]


def test_a_remedy_that_only_python_has_words_for() -> None:
    import warpsmith
    from warpsmith.torch.answers import tune_command

    layer = ws.Conv2d((2, 3, 8, 8), (4, 3, 3, 3), padding=((1, 0), (2, 2)), pass_="wgrad")  # type: ignore[arg-type]
    command = tune_command(layer, "cuda:1")
    asked: list[Any] = []
    namespace = type("warpsmith", (), {"tune": lambda *given: asked.extend(given), "Conv2d": warpsmith.Conv2d})
    eval(command, {"warpsmith": namespace})
    assert asked == [layer, "cuda:1"]
    same = ws.Conv2d((2, 3, 8, 8), (4, 3, 2, 3), padding="same")  # type: ignore[arg-type]
    assert "--padding same" in tune_command(same, "host")


def test_what_has_no_kernels_is_pytorch_s() -> None:
    x, w, b = (each.detach() for each in operands(LAYERS["usual"]))
    with pytest.warns(wt.LeftToTorch, match="float64"):
        y = wt.conv2d(x.double(), w.double(), b.double(), padding=1, fallback="default")
    assert torch.equal(y, functional.conv2d(x.double(), w.double(), b.double(), padding=1))
    assert wt.conv2d(x.to("meta"), w.to("meta"), padding=1).shape == (2, 4, 8, 9)


def test_autocast_casts_as_pytorch_does(used: list[ws.Conv2d]) -> None:
    x, w, b = operands(LAYERS["usual"])
    with torch.autocast("cpu", dtype=torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("ignore", wt.LeftToTorch)
        ours, theirs = (call(x, w, b, padding=1) for call in (lambda *a, **k: wt.conv2d(*a, **k), functional.conv2d))
        assert ours.dtype is theirs.dtype is torch.bfloat16
        assert torch.equal(ours, theirs)
        ours.float().sum().backward()
        assert x.grad.dtype is torch.float32
        with torch.autocast("cpu", enabled=False):
            y = wt.conv2d(x, w, b, padding=1, fallback="default")
            assert y.dtype is torch.float32
    assert passes(used) == [ws.Pass.FPROP]
    compiled = torch.compile(lambda: wt.conv2d(x, w, b, padding=1), fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled().dtype is torch.bfloat16


def test_without_gradients() -> None:
    x, w, b = operands(LAYERS["usual"])
    expected = functional.conv2d(x.double(), w.double(), b.double(), padding=1).detach()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            y = wt.conv2d(x, w, b, padding=1, fallback="default")
            assert not y.requires_grad
            check([y], [expected])


def test_stored_winners_are_used_as_soon_as_they_are_there(used: list[ws.Conv2d], tmp_path: Path) -> None:
    x, w, b = operands(LAYERS["usual"])
    layer, smaller = (ws.Conv2d((n, 3, 8, 9), w.shape, padding=1) for n in (2, 1))
    expected = functional.conv2d(x.double(), w.double(), b.double(), padding=1).detach()
    with pytest.warns(wt.LeftToTorch):
        check([wt.conv2d(x, w, b, padding=1).detach()], [expected])
    ws.tune(layer, "host", trials=1, method="conv2d_plain")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        check([wt.conv2d(x, w, b, padding=1)], [expected])  # the bias is added to its result
        assert passes(used) == [ws.Pass.FPROP]
        check([wt.conv2d(x[:1], w, b, padding=1)], [expected[:1]])
    assert passes(used) == [ws.Pass.FPROP] * 2
    assert [ws.query(each, "host").kind for each in (layer, smaller)] == [MatchKind.EXACT, MatchKind.NEAR]
    wt.forget()
    with pytest.warns(wt.LeftToTorch, match="pass=dgrad"):  # the passes without a stored winner
        wt.conv2d(x, w, b, padding=1).sum().backward()
    check([x.grad], [torch.autograd.grad(functional.conv2d(x.double(), w.double(), padding=1).sum(), x)[0]])
    own = str(tmp_path / "own.db")
    with Store.open(own, write=True) as store:
        cropped = ws.Conv2d((1, 3, 5, 5), w.shape)
        store.put_winner(winner(cropped, device=DeviceRef.parse("host").device(), family=Conv2dPlain()))
    used.clear()
    with torch.no_grad():
        wt.conv2d(x[:1, :, :5, :5], w, store=own)
    assert passes(used) == [ws.Pass.FPROP]


TRANSPOSED: dict[str, dict[str, Any]] = {
    "usual": {"x": (2, 4, 5, 6), "w": (4, 3, 4, 4), "stride": 2, "padding": 1},
    "groups": {"x": (2, 4, 5, 4), "w": (4, 2, 3, 2), "stride": (2, 3), "output_padding": (1, 2), "groups": 2},
    "dilation": {"x": (1, 2, 5, 4), "w": (2, 3, 3, 3), "dilation": 2, "padding": (1, 2)},
}


@exhaustive.one_in(2)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, used: list[ws.Conv2d]) -> None:
    layer = TRANSPOSED[name]
    options = options_of(layer)
    channels = layer["w"][1] * options.get("groups", 1)

    def given(dtype: Any) -> tuple[Any, ...]:
        return tuple(seeded(*shape).to(dtype).requires_grad_() for shape in (layer["x"], layer["w"], (channels,)))

    references = derivatives(lambda *each: functional.conv_transpose2d(*each, **options), given(torch.float64))
    ours = lambda *each: wt.conv_transpose2d(*each, **options, fallback="default")  # noqa: E731
    check(derivatives(ours, given(torch.float32)), references)
    assert set(passes(used)) == set(ws.Pass)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    check([compiled(*given(torch.float32)).detach()], references[:1])
    with pytest.warns(wt.LeftToTorch, match="dgrad"):
        theirs = wt.conv_transpose2d(*given(torch.float32), **options)
    check([theirs.detach()], references[:1])
