"""`warpsmith.torch`'s convolutions of every element type and layout on CPU tensors, also under autocast and `patch`."""

from __future__ import annotations

import shlex
import warnings
from typing import Any

import pytest

import exhaustive
import warpsmith as ws
import warpsmith.torch as wt
from torch_layers import (
    DTYPES,
    HALVES,
    LAYOUTS,
    ROUNDING,
    check,
    compiled,
    eighths,
    exact,
    gradients,
    of_torch,
    options_of,
    plans_called,
    seeded,
)
from warpsmith.cli.app import run
from warpsmith.generator.conv2d import ImageLayout, Precision
from warpsmith.generator.problem import DType
from warpsmith.torch.answers import tune_command
from warpsmith.torch.convolution import CONV2D
from warpsmith.torch.layer_spec import LayerSpec

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.usefixtures("compile_quickest")

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
LAYERS: dict[str, dict[str, Any]] = {
    "groups, stride": {"x": (2, 4, 9, 8), "w": (6, 2, 3, 2), "groups": 2, "stride": (2, 1), "padding": (1, 0)},
    "reflect": {"x": (2, 3, 6, 7), "w": (3, 3, 3, 3), "padding": 2, "padding_mode": "reflect"},
}


def operands(layer: dict[str, Any], dtype: Any, layout: str = "nchw") -> tuple[Any, Any, Any]:
    """x, w and b, each with a gradient."""
    shapes, form = (layer["x"], layer["w"]), LAYOUTS[layout]
    x, w = (seeded(*shape).to(dtype).contiguous(memory_format=form).requires_grad_() for shape in shapes)
    return x, w, seeded(*layer["w"][:1]).to(dtype).requires_grad_()


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[ws.Conv2d]:
    """List that receives the problems of plans that compute a pass."""
    return plans_called(monkeypatch)


def lie_alike(results: list[Any], others: list[Any]) -> bool:
    return [each.stride() for each in results] == [each.stride() for each in others]


@exhaustive.meeting()
@every_dtype
@every_layout
@pytest.mark.parametrize("name", LAYERS)
def test_results_and_gradients_are_pytorch_s(name: str, layout: str, dtype: Any, called: list[ws.Conv2d]) -> None:
    options, given = options_of(LAYERS[name]), operands(LAYERS[name], dtype, layout)
    references = gradients(lambda *each: of_torch(*each, **options), *exact(*given))
    results = gradients(lambda *each: wt.conv2d(*each, **options, fallback="default"), *given)
    check(results, references, 1.1 * ROUNDING[dtype])
    assert [each.pass_ for each in called] == list(ws.Pass)
    assert {(each.dtype, each.layout) for each in called} == {(DType(str(dtype)[6:]), ImageLayout(layout))}
    assert all(each.dtype is dtype for each in results)
    assert lie_alike(results, gradients(lambda *each: of_torch(*each, **options), *given))
    with pytest.warns(wt.LeftToTorch):
        theirs = gradients(lambda *each: wt.conv2d(*each, **options), *given)
    check(theirs, references, 4 * ROUNDING[dtype])  # PyTorch on the CPU may round intermediate results
    assert lie_alike(theirs, results)


@exhaustive.one_in(3, 1)  # float16 in both layouts
@every_dtype
@every_layout
def test_gradients_of_gradients(layout: str, dtype: Any, called: list[ws.Conv2d]) -> None:
    def second(function: Any, *given: Any) -> list[Any]:
        y = function(*given, stride=(2, 1), padding=(1, 0), groups=2)
        first = torch.autograd.grad(y, given, eighths(y), create_graph=True)
        return list(torch.autograd.grad(sum(each.square().sum() for each in first), given[:2]))

    given = operands(LAYERS["groups, stride"], dtype, layout)
    results = second(lambda *each, **options: wt.conv2d(*each, **options, fallback="default"), *given)
    # The rounded results are squared and summed.
    check(results, second(functional.conv2d, *exact(*given)), 8 * ROUNDING[dtype])
    assert len(called) > 3
    assert all(each.is_contiguous(memory_format=LAYOUTS[layout]) for each in results)


@pytest.mark.parametrize("last", ["x", "w"])
def test_one_operand_in_channels_last_makes_all_so(last: str, called: list[ws.Conv2d]) -> None:
    x, w, b = (each.detach() for each in operands(LAYERS["groups, stride"], torch.float32))
    options = options_of(LAYERS["groups, stride"])
    if last == "x":
        x = x.to(memory_format=torch.channels_last)
    else:
        w = w.to(memory_format=torch.channels_last)
    given = [each.requires_grad_() for each in (x, w, b)]
    results = gradients(lambda *each: wt.conv2d(*each, **options, fallback="default"), *given)
    theirs = gradients(lambda *each: functional.conv2d(*each, **options), *given)
    assert {each.layout for each in called} == {ImageLayout.NHWC}
    check(results, [each.double() for each in theirs], 4e-6)
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in results[:3])
    assert results[0].stride() == theirs[0].stride()


@exhaustive.meeting()
@pytest.mark.parametrize("size", [(2, 1, 6, 6), (2, 4, 1, 1), (2, 1, 1, 1), (1, 4, 6, 5)])
@pytest.mark.parametrize("layouts", [("nchw", "nhwc"), ("nhwc", "nchw"), ("nhwc", "nhwc"), ("nchw", "nchw")])
def test_shapes_that_lie_in_both_layouts(size: tuple[int, ...], layouts: tuple[str, str]) -> None:
    """PyTorch's rule reads strides, also those of dimensions of one element."""
    x, w = seeded(*size), seeded(3, size[1], 1, 1)
    x, w = (each.to(memory_format=LAYOUTS[layout]) for each, layout in zip((x, w), layouts, strict=True))
    y, theirs = wt.conv2d(x, w, fallback="default"), functional.conv2d(x, w)
    check([y], [theirs.double()])
    assert y.is_contiguous() == theirs.is_contiguous()
    last = [each.is_contiguous(memory_format=torch.channels_last) for each in (y, theirs)]
    assert last[0] == last[1]


@exhaustive.one_in(6, 4)  # float16 in channels last; test_torch_conv2d.py has float32
@every_dtype
@every_layout
def test_operators_are_what_pytorch_wants_of_them(layout: str, dtype: Any) -> None:
    layer = LAYERS["groups, stride"]
    x, w, b = operands(layer, dtype, layout)
    spec = LayerSpec.of(x, w, b, (layer["stride"], layer["padding"], 1, 2, "zeros"))
    assert spec is not None
    words = *spec.words, "ieee", "default", None
    dy = CONV2D.forward(x, w, b, *words).detach().requires_grad_()
    tolerances = {"rtol": 0.0, "atol": 0.0}  # a plan gives the same bits each time
    torch.library.opcheck(CONV2D.forward, (x, w, b, *words), **tolerances)
    torch.library.opcheck(CONV2D.input_gradient, (dy, w, list(x.shape), *words), **tolerances)
    torch.library.opcheck(CONV2D.weight_gradient, (x, dy, list(w.shape), *words), **tolerances)


@exhaustive.one_in(3, 2)  # bfloat16 in both layouts
@every_dtype
@every_layout
def test_a_compiled_function_is_one_graph(layout: str, dtype: Any, called: list[ws.Conv2d]) -> None:
    options = options_of(LAYERS["reflect"])

    def layer(x: Any, w: Any, b: Any) -> Any:
        return torch.relu(wt.conv2d(x, w, b, **options, fallback="default"))

    given = operands(LAYERS["reflect"], dtype, layout)
    expected = gradients(layer, *given)
    called.clear()
    results = gradients(compiled(layer), *given)
    assert [each.pass_ for each in called] == list(ws.Pass)
    assert {each.layout for each in called} == {ImageLayout(layout)}
    assert all(torch.equal(one, other) for one, other in zip(results[:3], expected[:3], strict=True))
    assert lie_alike(results, expected)


@exhaustive.one_in(3, 2)  # bfloat16 in both layouts
@every_dtype
@every_layout
def test_transposed_convolutions(layout: str, dtype: Any, called: list[ws.Conv2d]) -> None:
    options = {"stride": 2, "padding": 1, "output_padding": 1}
    x, w = (
        seeded(*shape).to(dtype).contiguous(memory_format=LAYOUTS[layout]) for shape in ((2, 4, 5, 6), (4, 3, 3, 3))
    )
    given = [each.requires_grad_() for each in (x, w, seeded(3).to(dtype))]
    references = gradients(lambda *each: functional.conv_transpose2d(*each, **options), *exact(*given))
    results = gradients(lambda *each: wt.conv_transpose2d(*each, **options, fallback="default"), *given)
    check(results, references, 2.1 * ROUNDING[dtype])  # the bias is added to a rounded sum
    assert {each.pass_ for each in called} == set(ws.Pass)
    assert lie_alike(results, gradients(lambda *each: functional.conv_transpose2d(*each, **options), *given))


@pytest.mark.parametrize(
    "options", [{"groups": 0}, {"stride": 0}, {"dilation": 0}, {"groups": 2}, {"output_padding": 3}]
)
def test_numbers_of_no_transposed_convolution_are_pytorch_s_error(options: dict[str, Any]) -> None:
    x, w, _ = (each.detach() for each in operands({"x": (2, 3, 6, 7), "w": (3, 2, 3, 3)}, torch.float32))
    with pytest.raises(RuntimeError) as theirs:
        functional.conv_transpose2d(x, w, **options)
    with pytest.raises(RuntimeError) as ours:
        wt.conv_transpose2d(x, w, **options, fallback="default")
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("change", [lambda x, w, b: (x, w.float(), b), lambda x, w, b: (x, w, b.float())])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_dtypes_that_differ_are_pytorch_s_error(dtype: Any, change: Any) -> None:
    given = change(*(each.detach() for each in operands(LAYERS["reflect"], dtype)))
    with pytest.raises(RuntimeError) as theirs:
        functional.conv2d(*given)
    with pytest.raises(RuntimeError) as ours:
        wt.conv2d(*given, fallback="default")
    assert str(ours.value) == str(theirs.value)


def test_a_precision_is_that_of_the_data_that_have_it(called: list[ws.Conv2d]) -> None:
    kept = {
        torch.float32: ("ieee", "tf32", "f16", "bf16"),
        torch.float16: ("ieee", "ieee", "f16", "ieee"),
        torch.bfloat16: ("ieee", "ieee", "ieee", "bf16"),
    }
    expected = {
        (dtype, precision): found for dtype in DTYPES for precision, found in zip(Precision, kept[dtype], strict=True)
    }
    # Precisions that the data have, and those that they have not: each by every precision and every dtype.
    asked = exhaustive.chosen(expected, lambda each: frozenset((one, expected[each] == each[1]) for one in each))
    for dtype, precision in asked:
        x, w, _ = operands(LAYERS["reflect"], dtype)
        wt.conv2d(x, w, precision=precision, fallback="default")
    told = [(str(each.dtype), str(each.precision)) for each in called]
    assert told == [(str(dtype)[6:], expected[dtype, precision]) for dtype, precision in asked]


def test_pytorch_s_switch_for_tf32_is_not_asked(called: list[ws.Conv2d]) -> None:
    x, w, _ = operands(LAYERS["reflect"], torch.float32)
    for is_allowed in (True, False):
        # Not by assignment: PyTorch's own test utilities, which opcheck imports, forbid that for the rest of a process.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=is_allowed):
            wt.conv2d(x, w, fallback="default")
    assert {each.precision for each in called} == {Precision.IEEE}


def test_commands_tell_dtype_layout_and_precision(own_folders: Any) -> None:  # noqa: ARG001
    layer = ws.Conv2d((2, 3, 8, 8), (4, 3, 3, 3), dtype="bfloat16", layout="nhwc", precision="bf16")  # type: ignore[arg-type]
    command = tune_command(layer, "host")
    assert command.endswith("--precision bf16 --dtype bfloat16 --layout nhwc --device host")
    assert run(["query", *shlex.split(command)[2:]]) == 3  # nothing is stored; a bad option would give 2
    odd = ws.Conv2d((2, 3, 8, 8), (4, 3, 3, 3), padding=((1, 0), (2, 2)), dtype="float16")  # type: ignore[arg-type]
    namespace = type("warpsmith", (), {"tune": lambda *given: given, "Conv2d": ws.Conv2d})
    assert eval(tune_command(odd, "host"), {"warpsmith": namespace}) == (odd, "host")


@exhaustive.meeting()
@every_layout
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_computes_by_plans_of_its_dtype(dtype: Any, layout: str, called: list[ws.Conv2d]) -> None:
    options, given = options_of(LAYERS["groups, stride"]), operands(LAYERS["groups, stride"], torch.float32, layout)

    def layer(x: Any, w: Any, b: Any) -> Any:
        with torch.autocast("cpu", dtype=dtype):
            return wt.conv2d(x, w, b, **options, fallback="default")

    results = gradients(layer, *given)
    assert [each.pass_ for each in called] == list(ws.Pass)
    assert {(str(each.dtype), each.layout) for each in called} == {(str(dtype)[6:], ImageLayout(layout))}
    assert [each.dtype for each in results] == [dtype, *(torch.float32,) * 3]
    rounded = exact(*(each.to(dtype) for each in given))
    check(results, gradients(lambda *each: of_torch(*each, **options), *rounded), 1.1 * ROUNDING[dtype])
    traced = gradients(compiled(layer), *given)
    assert all(torch.equal(one, other) for one, other in zip(traced[:3], results[:3], strict=True))
    with torch.autocast("cpu", dtype=dtype), torch.autocast("cpu", enabled=False):
        assert wt.conv2d(*given, **options, fallback="default").dtype is torch.float32


@exhaustive.one_in(2)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_patch_takes_models_of_16_bits_in_channels_last(dtype: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 2, 4, 2, 1, bias=False)),
    )
    model.to(dtype=dtype, memory_format=torch.channels_last)
    x = seeded(2, 3, 6, 6).to(dtype)
    expected = model(x)
    report = wt.patch(model, x, fallback="default")
    assert [each.name for each in report.replaced] == ["0", "2"]
    problems = [each.problem for layer in report.replaced for each in layer.passes]
    assert {(str(each.dtype), str(each.layout)) for each in problems} == {(str(dtype)[6:], "nhwc")}
    told = str(report.replaced[0])
    assert told.endswith(f"; {str(dtype)[6:]}, channels_last")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = model(x)
    assert y.stride() == expected.stride()
    check([y.detach()], [expected.detach().double()], 4 * ROUNDING[dtype])  # both round each layer's results
    missing = wt.patch(model, x).missing
    assert missing[0] == ws.Conv2d((2, 3, 6, 6), (4, 3, 3, 3), padding=1, bias=True, dtype=dtype, layout="nhwc")  # type: ignore[arg-type]


def test_patch_within_autocast_sees_its_dtype() -> None:
    model, x = torch.nn.Conv2d(3, 4, 3), seeded(2, 3, 6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        report = wt.patch(model, x)
    assert {each.dtype for each in report.missing} == {DType.BFLOAT16}
    assert "--dtype bfloat16" in report.commands[0]
    assert {each.dtype for each in wt.patch(model, x).missing} == {DType.FLOAT32}
