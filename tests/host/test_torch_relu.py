"""`warpsmith.torch.conv2d` with a ReLU: fused if a plan computes it, otherwise PyTorch's results."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import warpsmith as ws
import warpsmith.torch as wt
from builders import winner
from torch_layers import LAYOUTS, check, compiled, derivatives, exact, plans_called, seeded
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.store.store import Store

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.usefixtures("compile_quickest")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[ws.Conv2d]:
    """List that receives the problems of plans that compute a pass."""
    return plans_called(monkeypatch)


def operands(layout: str = "nchw") -> list[Any]:
    """x, w and b, each with a gradient."""
    x, w = (seeded(*shape).to(memory_format=LAYOUTS[layout]) for shape in ((2, 3, 8, 9), (4, 3, 3, 3)))
    return [x.requires_grad_(), w.requires_grad_(), seeded(4).requires_grad_()]


def ours(x: Any, w: Any, b: Any, **options: Any) -> Any:
    return wt.conv2d(x, w, b, padding=1, relu=True, **options)


def theirs(x: Any, w: Any, b: Any) -> Any:
    return functional.relu(functional.conv2d(x, w, b, padding=1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_and_gradients_are_pytorch_s(layout: str, used: list[ws.Conv2d]) -> None:
    given = operands(layout)
    references = derivatives(theirs, exact(*given))
    check(derivatives(lambda *each: ours(*each, fallback="default"), given), references)
    assert (used[0].pass_, used[0].bias, used[0].relu) == (ws.Pass.FPROP, True, True)
    assert {each.pass_ for each in used} == set(ws.Pass)
    used.clear()
    with pytest.warns(wt.LeftToTorch, match="--bias --relu"):
        check(derivatives(ours, given), references)
    assert not used


@pytest.mark.parametrize(("bias", "relu"), [(False, False), (True, False), (False, True)])
def test_what_is_stored_of_a_layer_answers_and_the_rest_comes_behind(
    bias: bool, relu: bool, used: list[ws.Conv2d], tmp_path: Path
) -> None:
    x, w, b = (each.detach() for each in operands())
    shown, path = ws.Conv2d(x.shape, w.shape, padding=1, bias=bias, relu=relu), str(tmp_path / "store.db")
    with Store.open(path, write=True) as store:
        store.put_winner(winner(shown, device=DeviceRef.parse("host").device(), family=Conv2dPlain()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = b if bias or not relu else None
        expected = theirs(*(None if each is None else each.double() for each in (x, w, own)))
        check([ours(x, w, own, store=path)], [expected])
    assert used == [shown]


def test_a_nan_stays_one() -> None:
    x, w, b = (each.detach() for each in operands())
    x[0, 0, 0, 0] = torch.nan
    assert torch.equal(ours(x, w, b, fallback="default").isnan(), theirs(x, w, b).isnan())


def test_only_gradients_that_are_needed_are_computed(used: list[ws.Conv2d]) -> None:
    x, w, b = operands()
    ours(x, w.detach(), b.detach(), fallback="default").sum().backward()
    assert [each.pass_ for each in used] == [ws.Pass.FPROP, ws.Pass.DGRAD]


def test_by_the_dispatcher_and_by_function_transforms() -> None:
    given = operands()
    loss = lambda *each: ours(*each, fallback="default").square().sum()  # noqa: E731
    double = exact(*given)
    expected = torch.autograd.grad(theirs(*double).square().sum(), double)
    check(list(torch.autograd.grad(compiled(loss)(*given), given)), list(expected), 5e-6)
    plain = [each.detach() for each in given]
    check(list(torch.func.grad(loss, (0, 1, 2))(*plain)), list(expected), 5e-6)
