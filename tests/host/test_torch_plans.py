"""Plans on CPU tensors of PyTorch: results are tensors and equal those of PyTorch's own operators."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import warpsmith as ws
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

torch = pytest.importorskip("torch")

IMAGE, FILTER = (24, 32), (3, 3)
REMEDY = "pass x.detach(), or call the plan within torch.no_grad()"


@pytest.fixture(scope="module")
def plan() -> Any:
    return ws.plan(ws.Filter2d(image=IMAGE, filter=FILTER, border="edge"), "host")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def transform() -> Any:
    return ws.plan(ws.Fft(size=(16,), batch=4, kind="c2c"), "host")  # type: ignore[arg-type]


@pytest.fixture
def spectrum() -> Any:
    torch.manual_seed(3)
    return torch.randn(4, 16, dtype=torch.complex64)


@pytest.fixture
def image() -> Any:
    torch.manual_seed(1)
    return torch.randn(*IMAGE)


@pytest.fixture
def weights() -> Any:
    torch.manual_seed(2)
    return torch.randn(*FILTER)


def check(result: Any, image: Any, weights: Any) -> None:
    assert isinstance(result, torch.Tensor)
    assert result.device == image.device
    given = (each.detach().resolve_neg().numpy().astype(float) for each in (image, weights))
    np.testing.assert_allclose(result.numpy(), ndimage.correlate(*given, mode="nearest"), atol=1e-5)


def refusal(call: Any, *given: Any, **options: Any) -> str:
    with pytest.raises(BadArgument) as caught:
        call(*given, **options)
    return str(caught.value)


def negated(x: Any) -> Any:
    """Tensor of the same values with PyTorch's negative bit: its memory holds them with the opposite sign."""
    view = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert view.is_neg()
    assert torch.equal(view, x)
    return view


def test_tensors_give_tensors(plan: Any, image: Any, weights: Any) -> None:
    check(plan(image, weights), image, weights)
    check(plan(image, weights.numpy()), image, weights)
    out = torch.empty(IMAGE)
    assert plan(image, weights, out=out) is out
    check(out, image, weights)
    assert isinstance(plan(image.numpy(), weights), np.ndarray)


def test_a_conjugated_tensor_is_taken_for_its_values(transform: Any, spectrum: Any) -> None:
    view = spectrum.conj()
    assert view.is_conj()
    assert torch.allclose(transform(view), torch.fft.fft(view), atol=1e-5)
    assert torch.equal(view.resolve_conj(), spectrum.conj().resolve_conj())  # the arguments are unchanged
    assert torch.allclose(transform(view.conj()), torch.fft.fft(spectrum), atol=1e-5)


def test_a_negated_tensor_is_taken_for_its_values(plan: Any, image: Any, weights: Any) -> None:
    check(plan(negated(image), weights), image, weights)
    check(plan(image, negated(weights)), image, weights)


def test_a_negated_tensor_with_gaps_between_its_rows(image: Any, weights: Any) -> None:
    problem = ws.Filter2d(image=IMAGE, filter=FILTER, border="edge", pitch=256)  # type: ignore[arg-type]
    view = negated(image)
    assert view.stride() == (64, 2)
    check(ws.plan(problem, "host")(view, weights), image, weights)


def test_a_view_that_cannot_be_written_to_is_refused(plan: Any, transform: Any, image: Any, weights: Any) -> None:
    x, out = torch.randn(4, 16, dtype=torch.complex64), torch.zeros(4, 16, dtype=torch.complex64).conj()
    told = (
        "out= has PyTorch's conjugate or negative bit set, so its memory does not hold its values; "
        "give a tensor that is no conjugated or negated view"
    )
    assert refusal(transform, x, out=out) == f"spectrum: {told}"
    assert torch.equal(out, torch.zeros(4, 16, dtype=torch.complex64))
    assert refusal(plan, image, weights, out=negated(torch.zeros(IMAGE))) == f"result: {told}"


@pytest.mark.parametrize("name", ["image", "weights", "result"])
def test_what_requires_a_gradient_is_refused_while_gradients_are_recorded(
    plan: Any, image: Any, weights: Any, name: str
) -> None:
    given = {"image": image, "weights": weights, "result": torch.empty(IMAGE)}
    given[name].requires_grad_()
    told = f"{name}: requires a gradient, and plans compute none; {REMEDY}"
    assert refusal(plan, given["image"], given["weights"], out=given["result"]) == told
    with torch.no_grad():
        check(plan(given["image"], given["weights"], out=given["result"]).detach(), image, weights)
    with torch.inference_mode():
        check(plan(given["image"], given["weights"], out=torch.empty(IMAGE)), image, weights)


def test_a_detached_tensor_is_accepted(plan: Any, image: Any, weights: Any) -> None:
    parameter = torch.nn.Parameter(weights)
    check(plan(image, parameter.detach()), image, weights)
    assert REMEDY in refusal(plan, image, parameter)


def test_autograd_notices_what_is_written_to(plan: Any, image: Any, weights: Any) -> None:
    factor, out = torch.ones(IMAGE, requires_grad=True), torch.zeros(IMAGE)
    loss = (factor * out).sum()
    plan(image, weights, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tensors_without_memory_of_their_own(plan: Any, image: Any, weights: Any) -> None:
    sparse = image.to_sparse()
    assert refusal(plan, sparse, weights) == (
        "image: is a tensor of layout torch.sparse_coo; make it dense first, with x.to_dense()"
    )
    nowhere = torch.empty(IMAGE, device="meta")
    assert refusal(plan, nowhere, weights) == "image: is on meta; the host device takes arrays in host memory"
    batched = torch.stack([image, image])
    told = refusal(torch.vmap(lambda each: plan(each, weights)), batched)
    assert told == "image: is a Tensor of PyTorch's without memory of its own"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda x: x.double(), r"image: expected float32 of shape \(24, 32\); got float64"),
        (lambda x: negated(x)[1:], r"image: expected float32 of shape \(24, 32\); got float32 of shape \(23, 32\)"),
        (lambda x: x.T.contiguous().T, "image: must be C-contiguous"),
        (lambda _: torch.zeros(1000)[1:769].view(IMAGE), "image: must start at a multiple of 16 bytes"),
    ],
)
def test_tensors_that_do_not_fit(plan: Any, image: Any, weights: Any, changed: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        plan(changed(image), weights)


def test_weights_of_a_type_that_numpy_has_not(plan: Any, image: Any, weights: Any) -> None:
    """A bfloat16 is a float32 with fewer digits, so that it needs no rounding."""
    rounded = weights.bfloat16()
    assert torch.equal(plan(image, rounded), plan(image, rounded.float()))
    assert refusal(plan, image, weights.to(torch.complex64)) == "weights: expected real numbers; got complex64"


ALONE = """
import sys
import numpy as np
import warpsmith as ws

problem = ws.Filter2d(image=(24, 32), filter=(3, 3), dtype=np.float32, border="edge")
ws.plan(problem, "host")(np.ones((24, 32), np.float32), np.ones((3, 3)))
print("torch" in sys.modules)
"""


def test_pytorch_is_not_imported_for_other_arrays() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_call_on_given_memory_uses_that_and_is_fast(
    host: Runtime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(4)
    layer, family = ws.Conv2d(input=(2, 3, 9, 9), weight=(4, 3, 3, 3)), Conv2dWarpgroup()
    program = family.program(layer, family.default(layer, host.device))
    match = Match(MatchKind.DEFAULT, program, None, ())
    plan = Plan.load(layer, match, quickest.compile_program(program), host)
    x, w = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
    expected = plan(x, w)
    memory = np.full(plan.workspace_bytes + 256, 0x55, np.uint8)
    aligned = Allocation(-(-memory.ctypes.data // 256) * 256, plan.workspace_bytes)
    monkeypatch.setattr(plan, "_call_checked", None)  # only the first call of a kind is checked
    assert torch.equal(plan.call_on(aligned, x, w), expected)
    assert (memory != 0x55).any()
