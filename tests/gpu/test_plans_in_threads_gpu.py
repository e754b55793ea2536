"""One plan on a GPU called by many threads and graphs, in forked children, and on unresolved tensors of PyTorch."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.devices import fast_calls
from warpsmith.devices.cuda import runtime as cuda_runtime
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.cuda.compiled_launches import CompiledLaunches
from warpsmith.devices.launches import BoundLaunches
from warpsmith.devices.native import native
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.plans.make import forget_plans
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan, open_runtime

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
PROBLEM = Filter2d(image=(480, 640), filter=(5, 5), border=Border.REFLECT)
THREADS, CALLS, DIFFERENT = 8, 300, 4


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def plan_with(**wanted: str) -> Plan:
    """A plan of the plain family's default config with some words changed."""
    family, device = Filter2dPlain(), CUDA.device()
    config = family.space(PROBLEM, device).like({**family.default(PROBLEM, device).values(), **wanted})
    assert config is not None
    assert {name: config.values()[name] for name in wanted} == wanted
    program = family.program(PROBLEM, config)
    binaries = CUDA.compiler().compile_program(program)
    return Plan.load(PROBLEM, Match(MatchKind.DEFAULT, program, None, ()), binaries, open_runtime(CUDA))


def drawn(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(PROBLEM.image, np.float32), rng.standard_normal(PROBLEM.filter, np.float32)


def reference(image: Any, weights: Any) -> Any:
    ndimage = pytest.importorskip("scipy.ndimage")
    return ndimage.correlate(image.astype(float), weights.astype(float), mode="reflect")


@pytest.mark.parametrize("stream_of_its_own", [True, False], ids=["a stream each", "one stream"])
@pytest.mark.parametrize("wanted", [{"weights": "constant"}, {"weights": "argument"}, {"path": "texture"}])
def test_every_thread_gets_its_own_result(torch: Any, wanted: dict[str, str], stream_of_its_own: bool) -> None:
    plan, barrier, failed = plan_with(**wanted), threading.Barrier(THREADS), list[BaseException]()
    before = sys.getswitchinterval()

    def work(index: int) -> None:
        try:
            given = [drawn(DIFFERENT * index + i) for i in range(DIFFERENT)]
            images = [torch.from_numpy(image).cuda() for image, _ in given]
            torch.cuda.synchronize()
            expected = [torch.from_numpy(reference(*each)).cuda() for each in given]
            stream = torch.cuda.Stream() if stream_of_its_own else torch.cuda.default_stream()
            with torch.cuda.stream(stream):
                off = torch.zeros((), device="cuda", dtype=torch.float64)
                barrier.wait(120)
                for call in range(CALLS):
                    i = call % DIFFERENT
                    result = plan(images[i], given[i][1])
                    off = torch.maximum(off, (result - expected[i]).abs().max())
                stream.synchronize()
            assert float(off) < 1e-4
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed, failed[0]


@pytest.mark.parametrize("weights", ["constant", "argument"])
def test_graphs_run_beside_calls_with_other_weights(torch: Any, weights: str) -> None:
    plan = plan_with(weights=weights)
    given = [drawn(seed) for seed in range(3)]
    images = [torch.from_numpy(image).cuda() for image, _ in given]
    expected = [torch.from_numpy(reference(*each)).cuda() for each in given]
    outs = [torch.empty(PROBLEM.image, device="cuda") for _ in given]
    graphs, streams = [torch.cuda.CUDAGraph() for _ in range(2)], [torch.cuda.Stream() for _ in range(3)]
    for i, graph in enumerate(graphs):
        with torch.cuda.graph(graph):
            plan(images[i], given[i][1], out=outs[i])
    torch.cuda.synchronize()
    for _ in range(200):
        for i, graph in enumerate(graphs):
            with torch.cuda.stream(streams[i]):
                graph.replay()
        with torch.cuda.stream(streams[2]):
            plan(images[2], given[2][1], out=outs[2])
    torch.cuda.synchronize()
    for out, right in zip(outs, expected, strict=True):
        assert float((out - right).abs().max()) < 1e-4


@pytest.mark.parametrize("elsewhere", [False, True], ids=["its own stream", "another stream"])
def test_conjugated_and_negated_tensors_are_resolved(torch: Any, elsewhere: bool) -> None:
    asked = torch.cuda.Stream() if elsewhere else None
    problem = ws.Fft(size=(64,), batch=4096, kind="c2c")  # type: ignore[arg-type]
    transform = ws.plan(problem, "cuda:0")
    filtered = plan_with(weights="argument")
    image, weights = drawn(1)
    right = torch.from_numpy(reference(image, weights))
    for turn in range(20):
        x = torch.randn(4096, 64, dtype=torch.complex64, device="cuda")
        spectrum = transform(x.conj(), stream=asked)
        negated = torch.complex(torch.zeros(PROBLEM.image), -torch.from_numpy(image)).cuda().conj().imag
        assert negated.is_neg()
        result = filtered(negated, weights, stream=asked)
        torch.full_like(x, turn)  # would reuse the memory of a copy that was given back too early
        torch.full(PROBLEM.image, float(turn), device="cuda")
        torch.cuda.synchronize()
        assert torch.allclose(spectrum, torch.fft.fft(x.conj()), atol=1e-3)
        assert float((result.cpu() - right).abs().max()) < 1e-4
    with pytest.raises(BadArgument, match="out= has PyTorch's conjugate or negative bit set"):
        transform(x, out=torch.empty_like(x).conj())


def test_gradients_are_refused(torch: Any) -> None:
    plan = plan_with(weights="argument")
    image, weights = drawn(1)
    x = torch.from_numpy(image).cuda().requires_grad_()
    with pytest.raises(BadArgument, match="image: requires a gradient, and plans compute none"):
        plan(x, weights)
    with torch.no_grad():
        assert float((plan(x, weights).cpu() - torch.from_numpy(reference(image, weights))).abs().max()) < 1e-4


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_an_array_on_another_gpu_is_refused(library: str) -> None:
    if cuda_device_count() < 2:
        pytest.skip("one GPU here")
    image, weights = drawn(1)
    if library == "torch":
        x = pytest.importorskip("torch").from_numpy(image).to("cuda:1")
    else:
        cupy = pytest.importorskip("cupy")
        with cupy.cuda.Device(1):
            x = cupy.asarray(image)
    with pytest.raises(BadArgument, match="image: is on cuda:1, and the plan on cuda:0"):
        plan_with(weights="argument")(x, weights)


def test_fast_calls_are_compiled_and_leave_refusals_as_they_are(torch: Any) -> None:
    """The first call makes every check, the next ones are fast: on any stream, with any weights, into any result."""
    plan = plan_with(weights="argument")
    assert isinstance(plan.loaded.launches, CompiledLaunches)
    given = [drawn(seed) for seed in range(4)]
    images = [torch.from_numpy(image).cuda() for image, _ in given]
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
    outs = [torch.full(PROBLEM.image, float("nan"), device="cuda") for _ in given]
    torch.cuda.synchronize()
    for i in (0, 1, 2, 3, 3, 2, 1, 0):
        with torch.cuda.stream(streams[i]):
            assert plan(images[i], given[i][1], out=outs[i]) is outs[i]
            made = plan(images[i], torch.from_numpy(given[i][1]))
            assert torch.equal(made, outs[i])
    torch.cuda.synchronize()
    for out, each in zip(outs, given, strict=True):
        assert float((out.cpu() - torch.from_numpy(reference(*each))).abs().max()) < 1e-4
    assert torch.Tensor in plan.fast
    weights = given[0][1].copy()
    weights[0, 0] += 1
    changed = plan(images[0], weights)
    assert float((changed.cpu() - torch.from_numpy(reference(given[0][0], weights))).abs().max()) < 1e-4
    for image, out, told in (
        (images[0].cpu(), None, "image: is in host memory"),
        (images[0].double(), None, "image: expected float32"),
        (images[0].T.contiguous().T, None, "image: must be C-contiguous"),
        (images[0], images[0], "out: shares memory with image"),
        (images[0], outs[0].cpu(), "result: is in host memory"),
    ):
        with pytest.raises(BadArgument, match=told):
            plan(image, weights, out=out)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_package_without_compiled_code_binds_each_call(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fast_calls, cuda_runtime):
        monkeypatch.setattr(module, "native", lambda: None)
    arrays, given = pytest.importorskip(library), [drawn(seed) for seed in range(2)]
    plan = plan_with(weights="argument")
    assert isinstance(plan.loaded.launches, BoundLaunches)
    for image, weights in (*given, *given):
        x = arrays.from_numpy(image).cuda() if library == "torch" else arrays.asarray(image)
        made = plan(x, weights)
        result = made.cpu().numpy() if library == "torch" else arrays.asnumpy(made)
        assert abs(result - reference(image, weights)).max() < 1e-4
    assert not any(plan.fast.values())


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_calls_after_the_first_are_fast(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast call that always gave up would be right, and slow."""
    assert native() is not None
    image, weights = drawn(1)
    arrays = pytest.importorskip(library)
    x = arrays.from_numpy(image).cuda() if library == "torch" else arrays.asarray(image)
    plan = plan_with(weights="argument")
    expected = plan(x, weights)

    def with_care(*_: object) -> None:
        raise AssertionError("made every check")

    monkeypatch.setattr(plan.loaded.calls, "read", with_care)
    for made in (plan(x, weights), plan(x, weights, out=arrays.empty_like(x))):
        assert (made.dtype, tuple(made.shape), made.device) == (x.dtype, tuple(x.shape), x.device)
        assert bool((made == expected).all())
    if library == "torch":
        with arrays.inference_mode():
            assert plan(x, weights).is_inference()
        made = plan(x, weights)
        assert (made.is_inference(), made.requires_grad, made._version) == (False, False, 0)


def test_fast_calls_with_arrays_of_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    plan = plan_with(weights="argument")
    image, weights = drawn(1)
    x, right = cupy.asarray(image), reference(image, weights)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null):
        with stream:
            y, out = cupy.asarray(image), cupy.zeros_like(x)
            made = plan(y, weights)
            assert plan(y, weights, out=out) is out
            assert isinstance(made, cupy.ndarray)
            stream.synchronize()
            assert abs(cupy.asnumpy(made) - right).max() < 1e-4
            assert abs(cupy.asnumpy(out) - right).max() < 1e-4
    assert plan.fast[cupy.ndarray] is not None


def test_a_plan_is_remembered() -> None:
    problem = ws.Filter2d(image=(64, 80), filter=(3, 3))
    plan = ws.plan(problem, "cuda:0")
    assert ws.plan(ws.Filter2d(image=(64, 80), filter=(3, 3)), "cuda:0") is plan
    forget_plans()
    again = ws.plan(problem, "cuda:0")
    assert again is not plan
    assert (again.match, again.binaries) == (plan.match, plan.binaries)


FORK = """
import os
import numpy as np
import warpsmith as ws
from warpsmith.errors import DeviceError

problem = ws.Filter2d(image=(64, 64), filter=(3, 3))
plan = ws.plan(problem, "cuda:0")
for work in (lambda: plan(np.zeros((64, 64), np.float32), np.ones((3, 3))), lambda: ws.plan(problem, "auto")):
    if os.fork() == 0:
        try:
            work()
        except DeviceError as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_forked_child_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=120)
    told = "cannot be used in a forked child; start processes with the spawn method"
    assert done.stdout.splitlines() == [f"cuda:0 {told}", f"CUDA {told}"]
