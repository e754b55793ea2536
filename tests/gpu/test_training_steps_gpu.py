"""Training steps on a GPU: the bits of three plans, streams, graphs, and what is refused across them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warpsmith as ws
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.fourier.sharing import passes_of
from warpsmith.plans.conv2d.training import TrainingStep
from warpsmith.store import location

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

LAYER = ws.Conv2d((16, 24, 40, 36), (32, 24, 7, 5), padding=((2, 3), (2, 1)))
Tensors = dict[str, Any]


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))


@pytest.fixture
def step() -> TrainingStep:
    return ws.training_step(LAYER, "cuda:0", reuse=True)


def tensors(seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": LAYER.input, "w": LAYER.weight, "dy": (LAYER.input[0], LAYER.weight[0], *LAYER.output_size)}
    return {name: torch.randn(shape, generator=generator).cuda() for name, shape in shapes.items()}


def expected(step: TrainingStep, given: Tensors) -> list[Any]:
    """y, dx and dw by plans of the step's families."""
    results = []
    for pass_, problem in passes_of(LAYER).items():
        plan = ws.plan(problem, "cuda:0", method=step.matches[pass_].program.family)
        results.append(plan(*(given[each.name] for each in problem.inputs)).clone())
    return results


def passes(step: TrainingStep, given: Tensors) -> list[Any]:
    return [step.fprop(given["x"], given["w"]), step.dgrad(given["dy"]), step.wgrad()]


def same(results: list[Any], others: list[Any]) -> bool:
    torch.cuda.synchronize()
    return all(torch.equal(one, other) for one, other in zip(results, others, strict=True))


def test_results_have_the_bits_of_three_plans(step: TrainingStep) -> None:
    for seed in (1, 2):
        given = tensors(seed)
        whole = expected(step, given)
        assert same(passes(step, given), whole)
        assert same([step.wgrad(given["dy"]), step.dgrad()], [whole[2], whole[1]])


def test_streams_have_spectra_of_their_own(step: TrainingStep) -> None:
    """One object computes two steps, pass by pass, on two streams that overlap."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    given = [tensors(seed) for seed in (3, 4)]
    whole = [expected(step, each) for each in given]
    torch.cuda.synchronize()
    for _ in range(5):
        results: list[list[Any]] = [[], []]
        for call in (
            lambda each: step.fprop(each["x"], each["w"]),
            lambda each: step.dgrad(each["dy"]),
            lambda _: step.wgrad(),
        ):
            for stream, each, own in zip(streams, given, results, strict=True):
                with torch.cuda.stream(stream):
                    own.append(call(each))
        assert all(same(own, each) for own, each in zip(results, whole, strict=True))
    third = torch.cuda.Stream()
    with torch.cuda.stream(third), pytest.raises(BadArgument, match="wgrad: call fprop first"):
        step.wgrad(given[0]["dy"])


def test_a_graph_has_spectra_of_its_own(step: TrainingStep) -> None:
    """A captured step neither reads data from before its capture nor disturbs data between two calls."""
    captured, eager = tensors(5), tensors(6)
    whole = expected(step, captured), expected(step, eager)
    passes(step, captured)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = passes(step, captured)
    for _ in range(3):
        for result in results:
            result.zero_()
        y = step.fprop(eager["x"], eager["w"])
        graph.replay()
        assert same([y, step.dgrad(eager["dy"]), step.wgrad()], whole[1])
        assert same(results, whole[0])
    fresh = torch.cuda.CUDAGraph()
    with torch.cuda.graph(fresh):
        y.zero_()  # an empty graph is warned of
        with pytest.raises(BadArgument, match="within the same capture of a graph"):
            step.dgrad(eager["dy"])


def test_a_step_without_spectra_is_right_too() -> None:
    cupy = pytest.importorskip("cupy")
    usual = ws.training_step(LAYER, "cuda:0", reuse=False)
    given = tensors(7)
    whole = expected(usual, given)
    assert same(passes(usual, given), whole)
    arrays = {name: cupy.asarray(each.cpu().numpy()) for name, each in given.items()}
    usual.fprop(arrays["x"], arrays["w"])
    arrays["x"][...] = 0  # copies were kept: CuPy's arrays have no versions
    dw = usual.wgrad(arrays["dy"])
    assert torch.equal(torch.from_numpy(dw.get()), whole[2].cpu())
