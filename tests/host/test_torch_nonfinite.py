"""`nonfinite` and `accuracy` of `warpsmith.torch`'s convolutions by plans on the CPU: which results show a NaN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import warpsmith as ws
import warpsmith.torch as wt
from builders import winner
from torch_layers import plans_called, seeded
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.registry import FAMILIES
from warpsmith.plans.match import MatchKind
from warpsmith.store.store import Store

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.usefixtures("compile_quickest")

X, W = (3, 4, 12, 12), (5, 4, 3, 3)
LAYER = ws.Conv2d(X, W, padding=1)  # type: ignore[arg-type]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Any:
    wt.forget()
    yield plans_called(monkeypatch)
    wt.forget()


def spoilt(shape: tuple[int, ...], value: float) -> Any:
    """Normal deviates, except one element `value` in image 1."""
    x = seeded(*shape)
    x[1, 0, 2, 3] = value
    return x


def broken(function: Any, *given: Any) -> list[Any]:
    """Masks of non-finite elements in the result and its gradients. The gradient of the result is normal deviates."""
    leaves = [each.clone().requires_grad_() for each in given]
    y = function(*leaves)
    found = torch.autograd.grad(y, leaves, seeded(*y.shape))
    return [~torch.isfinite(each) for each in (y.detach(), *found)]


@exhaustive.one_in(2)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_a_window_shows_what_pytorch_s_sums_show(value: float, called: list[ws.Conv2d]) -> None:
    options = {"padding": 1, "nonfinite": "window", "fallback": "default"}
    for ours, theirs, x, w in (
        (wt.conv2d, functional.conv2d, X, W),
        (wt.conv_transpose2d, functional.conv_transpose2d, X, (4, 5, 3, 3)),
    ):
        called.clear()
        given = spoilt(x, value), seeded(*w)
        found = broken(lambda *each, ours=ours: ours(*each, **options), *given)
        expected = broken(lambda *each, theirs=theirs: theirs(*each, padding=1), *given)
        assert {each.pass_ for each in called} == set(ws.Pass)
        assert expected[0].any()
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[ws.Conv2d, str], str]:
    """Makes a store with one winner: the given family for the given problem."""

    def made(problem: ws.Conv2d, family: str) -> str:
        path = str(tmp_path / f"{family}.db")
        (found,) = (each for each in FAMILIES if each.name == family)
        with Store.open(path, write=True) as opened:
            opened.put_winner(winner(problem, device=DeviceRef.parse("host").device(), family=found))
        return path

    return made


def test_a_winner_that_lets_a_nan_spread_is_none_where_that_is_forbidden(
    stored: Callable[[ws.Conv2d, str], str], called: list[ws.Conv2d]
) -> None:
    options: dict[str, Any] = {"padding": 1, "store": stored(LAYER, "conv2d_fft")}
    x, w = spoilt(X, float("nan")), seeded(*W)
    spread, theirs = (
        ~torch.isfinite(each) for each in (wt.conv2d(x, w, **options), functional.conv2d(x, w, padding=1))
    )
    assert spread.sum() > theirs.sum()
    assert not spread[[0, 2]].any()
    with pytest.warns(wt.LeftToTorch, match="--nonfinite window"):
        y = wt.conv2d(x, w, **options, nonfinite="window")
    assert torch.equal(~torch.isfinite(y), theirs)
    with pytest.warns(wt.LeftToTorch, match="--accuracy elementwise"):
        wt.conv2d(x, w, **options, accuracy="elementwise")
    assert [each.nonfinite for each in called] == ["any"]

    model, store = torch.nn.Conv2d(4, 5, 3, padding=1, bias=False), options["store"]
    (layer,) = wt.patch(model, x, store=store).replaced
    assert (layer.passes[0].kind, layer.passes[0].family) == (MatchKind.EXACT, "conv2d_fft")
    report = wt.patch(model, x, store=store, nonfinite="window")
    assert "nothing is stored" in report.left[0].reason
    assert {each.nonfinite for each in report.missing} == {"window"}


def test_a_winner_of_direct_sums_answers_for_all_words(
    stored: Callable[[ws.Conv2d, str], str], called: list[ws.Conv2d]
) -> None:
    x, w, store = seeded(*X), seeded(*W), stored(LAYER, "conv2d_direct")
    for words in ({}, {"accuracy": "elementwise"}, {"nonfinite": "window"}):
        wt.conv2d(x, w, padding=1, store=store, **words)
    assert len(called) == 3
