"""Training steps on the CPU: the same bits as three plans, torch's gradients, and the arguments that they refuse."""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import forking
import warpsmith as ws
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Allocation
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, WrongResult
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.sharing import Kernel, SharedPrograms, Spectra, passes_of, spectra_of
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.plans import make as make_plans
from warpsmith.plans.conv2d import shared_step as first_use
from warpsmith.plans.conv2d import training as make_step
from warpsmith.plans.conv2d.shared_step import SharedStep
from warpsmith.plans.conv2d.spectra_choice import SharedKernels
from warpsmith.plans.conv2d.training_step import Choice, ChosenBy, SeparateStep, TooLittleWorkspace, TrainingStep
from warpsmith.plans.first_use import verdicts
from warpsmith.plans.loaded import Verified, Verify
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.plans.poisoned import WrongProgram

FAMILY, TENSOR = FOURIER["conv2d_fft"], FOURIER["conv2d_fft_tensor"]
DEVICE = DeviceRef(DeviceKind.HOST).device()
CHOICE = Choice(True, ChosenBy.CALLER, "a test")
PADDED = Conv2d((3, 4, 8, 7), (5, 4, 3, 4), padding=((2, 0), (1, 3)), bias=True)
PLAIN = Conv2d((2, 3, 6, 6), (4, 3, 3, 3))
Floats = NDArray[np.float32]
Arrays = dict[str, Floats]
Families = Mapping[Pass, Conv2dFft]
ALL_ONE: Families = dict.fromkeys(Pass, FAMILY)


def matches(layer: Conv2d, families: Families) -> dict[Pass, Match]:
    found = {}
    for pass_, problem in passes_of(layer).items():
        program = families[pass_].program(problem, families[pass_].default(problem, DEVICE))
        found[pass_] = Match(MatchKind.DEFAULT, program, None, ())
    return found


def spectra_of_layer(layer: Conv2d) -> Spectra:
    spectra = spectra_of(FAMILY, layer, DEVICE)
    assert isinstance(spectra, Spectra)
    return spectra


def shared_step(
    runtime: HostRuntime,
    compiler: Compiler,
    layer: Conv2d,
    families: Families = ALL_ONE,
    workspace: int | None = None,
) -> SharedStep:
    """`workspace` is a limit in bytes that applies only after the programs are made."""
    problems, found = passes_of(layer), matches(layer, families)
    kernels = {pass_: Kernel(problems[pass_], families[pass_], found[pass_].program.config) for pass_ in Pass}
    spectra = spectra_of_layer(layer)
    programs = SharedPrograms.of({pass_: kernel.fitting(spectra, DEVICE) for pass_, kernel in kernels.items()}, DEVICE)
    if workspace is not None:
        problems = passes_of(dataclasses.replace(layer, workspace=workspace))
    return SharedStep(problems, found, programs, compiler, runtime, CHOICE)


def plans(runtime: HostRuntime, compiler: Compiler, layer: Conv2d, families: Families = ALL_ONE) -> dict[Pass, Plan]:
    problems, found = passes_of(layer), matches(layer, families)
    return {
        pass_: Plan.load(problems[pass_], match, compiler.compile_program(match.program), runtime)
        for pass_, match in found.items()
    }


def usual_step(runtime: HostRuntime, compiler: Compiler, layer: Conv2d) -> SeparateStep:
    return SeparateStep(passes_of(layer), plans(runtime, compiler, layer), dataclasses.replace(CHOICE, reuse=False))


def arrays(layer: Conv2d, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    shapes = {"x": layer.input, "w": layer.weight, "dy": (layer.input[0], layer.weight[0], *layer.output_size)}
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()} | {
        "b": rng.standard_normal(layer.weight[0], np.float32)
    }


def given(layer: Conv2d, some: Arrays) -> tuple[Floats, ...]:
    return (some["x"], some["w"], some["b"]) if layer.bias else (some["x"], some["w"])


def expected(made: Mapping[Pass, Plan], layer: Conv2d, some: Arrays) -> tuple[Floats, Floats, Floats]:
    """y, dx and dw computed by three plans."""
    y = made[Pass.FPROP](*given(layer, some))
    return y, made[Pass.DGRAD](some["dy"], some["w"]), made[Pass.WGRAD](some["x"], some["dy"])


@pytest.fixture(scope="module")
def cached(quickest: HostCompiler, tmp_path_factory: pytest.TempPathFactory) -> CachedCompiler:
    """Compiler that caches binaries, because steps and plans share most of their texts."""
    return CachedCompiler(quickest, tmp_path_factory.mktemp("compiled") / "binaries")


@pytest.fixture
def make(host: HostRuntime, cached: CachedCompiler) -> Callable[[str, Conv2d], TrainingStep]:
    ways: dict[str, Any] = {"shared": shared_step, "usual": usual_step}
    return lambda way, layer: ways[way](host, cached, layer)


either_way = pytest.mark.parametrize("way", ["shared", "usual"])
MIXED: Families = {**ALL_ONE, Pass.DGRAD: TENSOR}


@pytest.mark.parametrize(("layer", "families"), [(PADDED, ALL_ONE), (PLAIN, MIXED)], ids=["padded", "mixed products"])
def test_results_have_the_bits_of_three_plans(
    host: HostRuntime, cached: CachedCompiler, layer: Conv2d, families: Families
) -> None:
    step, made = shared_step(host, cached, layer, families), plans(host, cached, layer, families)
    for seed in (1, 2):
        some = arrays(layer, seed)
        y, dx, dw = expected(made, layer, some)
        for turned in (False, True):
            assert np.array_equal(step.fprop(*given(layer, some)), y)
            if turned:
                assert np.array_equal(step.wgrad(some["dy"]), dw)
                assert np.array_equal(step.dgrad(), dx)
            else:
                assert np.array_equal(step.dgrad(some["dy"]), dx)
                assert np.array_equal(step.wgrad(), dw)
    out = np.full(layer.input, np.nan, np.float32)
    assert step.dgrad(out=out) is out
    assert np.array_equal(out, dx)


def test_is_torch_s_gradient(make: Callable[[str, Conv2d], TrainingStep]) -> None:
    """The Euclidean norm of the error is within 1e-6 of float64."""
    torch = pytest.importorskip("torch")
    some = {name: torch.from_numpy(each) for name, each in arrays(PADDED, 3).items()}
    step = make("shared", PADDED)
    y = step.fprop(some["x"], some["w"], some["b"])
    ours = {"y": y, "x": step.dgrad(some["dy"]), "w": step.wgrad()}
    assert all(isinstance(each, torch.Tensor) for each in ours.values())
    leaves = {name: each.double().requires_grad_() for name, each in some.items()}
    (above, below), (left, right) = PADDED.padding
    padded = torch.nn.functional.pad(leaves["x"], (left, right, above, below))
    whole = torch.nn.functional.conv2d(padded, leaves["w"], leaves["b"])
    whole.backward(some["dy"].double())
    theirs = {"y": whole.detach(), "x": leaves["x"].grad, "w": leaves["w"].grad}
    for name, result in ours.items():
        assert torch.linalg.norm(result.double() - theirs[name]) <= 1e-6 * torch.linalg.norm(theirs[name]), name


@either_way
class TestArrays:
    def test_that_change_between_the_passes_change_nothing(
        self, way: str, make: Callable[[str, Conv2d], TrainingStep], host: HostRuntime, cached: CachedCompiler
    ) -> None:
        """The second gradient is that of the dy given to the first, even if dy has changed since."""
        step, some = make(way, PLAIN), arrays(PLAIN, 4)
        _, dx, dw = expected(plans(host, cached, PLAIN), PLAIN, some)
        step.fprop(some["x"], some["w"])
        some["x"][...] = some["w"][...] = 7
        assert np.array_equal(step.dgrad(some["dy"]), dx)
        some["dy"][...] = 0
        assert np.array_equal(step.wgrad(), dw)
        assert np.array_equal(step.dgrad(), dx)

    def test_that_are_given_are_always_read(self, way: str, make: Callable[[str, Conv2d], TrainingStep]) -> None:
        """The same array object with other numbers in it counts as another dy."""
        step, some = make(way, PLAIN), arrays(PLAIN, 4)
        step.fprop(some["x"], some["w"])
        assert step.dgrad(some["dy"]).any()
        some["dy"][...] = 0
        assert not step.wgrad(some["dy"]).any()
        assert not step.dgrad().any()

    def test_are_checked(self, way: str, make: Callable[[str, Conv2d], TrainingStep]) -> None:
        step, some = make(way, PLAIN), arrays(PLAIN)
        with pytest.raises(BadArgument, match="takes x, w; got 3 arrays"):
            step.fprop(some["x"], some["w"], some["b"])
        step.fprop(some["x"], some["w"])
        with pytest.raises(BadArgument, match="dy: expected"):
            step.dgrad(some["dy"][:1])
        with pytest.raises(BadArgument, match="give dy"):
            step.wgrad()


def test_a_tensor_that_changed_is_refused_where_it_is_read_again(make: Callable[[str, Conv2d], TrainingStep]) -> None:
    """A step without spectra keeps no copies of tensors, because the version of a tensor shows a change."""
    torch = pytest.importorskip("torch")
    some = {name: torch.from_numpy(each) for name, each in arrays(PLAIN, 4).items()}
    usual, shared = make("usual", PLAIN), make("shared", PLAIN)
    for step in (usual, shared):
        step.fprop(some["x"], some["w"])
        step.dgrad(some["dy"])
    before = shared.wgrad().clone()
    some["x"].add_(1)
    with pytest.raises(BadArgument, match="wgrad: x was changed in place since it was given"):
        usual.wgrad(some["dy"])
    assert torch.equal(shared.wgrad(), before)
    some["dy"].add_(1)
    with pytest.raises(BadArgument, match="dgrad: dy was changed in place"):
        usual.dgrad()
    with torch.inference_mode():  # tensors without versions are copied
        x = some["x"].clone()
    usual.fprop(x, some["w"])
    with torch.inference_mode():
        x.zero_()
    assert usual.wgrad(some["dy"]).any()


@either_way
class TestOrder:
    def test_a_gradient_comes_behind_the_forward_pass(
        self, way: str, make: Callable[[str, Conv2d], TrainingStep]
    ) -> None:
        step, some = make(way, PLAIN), arrays(PLAIN)
        for pass_, gradient in ((Pass.DGRAD, step.dgrad), (Pass.WGRAD, step.wgrad)):
            with pytest.raises(BadArgument, match=f"{pass_}: call fprop first"):
                gradient(some["dy"])

    def test_a_gradient_without_dy_comes_behind_one_with_it(
        self, way: str, make: Callable[[str, Conv2d], TrainingStep]
    ) -> None:
        step, some = make(way, PLAIN), arrays(PLAIN)
        for _ in range(2):  # the dy of the step before does not count for this one
            step.fprop(some["x"], some["w"])
            for pass_, gradient in ((Pass.DGRAD, step.dgrad), (Pass.WGRAD, step.wgrad)):
                with pytest.raises(BadArgument, match=f"{pass_}: give dy"):
                    gradient()
            step.wgrad(some["dy"])
            step.dgrad()

    def test_a_pass_that_was_refused_changes_nothing(
        self, way: str, make: Callable[[str, Conv2d], TrainingStep]
    ) -> None:
        step, some = make(way, PLAIN), arrays(PLAIN)
        step.fprop(some["x"], some["w"])
        before = step.wgrad(some["dy"]).copy()
        with pytest.raises(BadArgument):
            step.fprop(some["x"][:1], some["w"])
        assert np.array_equal(step.wgrad(), before)


@either_way
def test_two_steps_have_nothing_in_common(way: str, make: Callable[[str, Conv2d], TrainingStep]) -> None:
    steps = [make(way, PLAIN), make(way, PLAIN)]
    some = [arrays(PLAIN, seed) for seed in (5, 6)]
    alone = []
    for step, each in zip(steps, some, strict=True):
        step.fprop(each["x"], each["w"])
        alone.append((step.dgrad(each["dy"]).copy(), step.wgrad().copy()))
    for step, each in zip(steps, some, strict=True):
        step.fprop(each["x"], each["w"])
    for step, each in zip(steps, some, strict=True):
        step.dgrad(each["dy"])
    for step, (dx, dw) in zip(steps, alone, strict=True):
        assert np.array_equal(step.wgrad(), dw)
        assert np.array_equal(step.dgrad(), dx)


class Counting(HostRuntime):
    """A device that counts the memory that it allocates."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.live: dict[int, int] = {}

    def allocate(self, nbytes: int) -> Allocation:
        allocation = super().allocate(nbytes)
        self.live[allocation.address] = nbytes
        return allocation

    def free(self, allocation: Allocation) -> None:
        del self.live[allocation.address]
        super().free(allocation)


class TestMemory:
    def test_is_the_spectra_and_one_call_s_and_goes_with_the_step(self, cached: CachedCompiler) -> None:
        runtime, some = Counting(), arrays(PLAIN)
        step = shared_step(runtime, cached, PLAIN)
        assert step.workspace_bytes == spectra_of_layer(PLAIN).least_bytes
        for _ in range(2):
            step.fprop(some["x"], some["w"])
            step.dgrad(some["dy"])
            step.wgrad()
        assert sum(runtime.live.values()) == step.workspace_bytes
        del step
        gc.collect()
        assert not runtime.live
        runtime.close()

    def test_is_never_above_the_layer_s_limit(self, host: HostRuntime, cached: CachedCompiler) -> None:
        """Library workspaces count too. Their sizes on the device are known once the libraries are loaded."""
        least = spectra_of_layer(PLAIN).least_bytes
        fitting = dataclasses.replace(PLAIN, workspace=least)
        assert shared_step(host, cached, fitting).workspace_bytes == least
        with pytest.raises(TooLittleWorkspace, match=f"needs {least} bytes .* the layer allows {least - 1}"):
            shared_step(host, cached, PLAIN, workspace=least - 1)


@pytest.fixture
def compile_into_one_folder(cached: CachedCompiler, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles as `compile_quickest` does, into one cache folder for all tests of this file."""
    monkeypatch.setenv("CXX", str(quickest.executable))
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(cached.folder.parent))


@pytest.mark.usefixtures("compile_into_one_folder")
class TestChoice:
    def test_is_none_of_spectra_where_nothing_is_known_of_this_device(self) -> None:
        step = ws.training_step(PLAIN, "host")
        assert step.choice == Choice(
            False,
            ChosenBy.KERNELS,
            "no times are known here, and plans would be conv2d_direct, conv2d_direct, conv2d_direct",
        )
        assert {match.program.family for match in step.matches.values()} == {"conv2d_direct"}

    def test_is_of_the_best_family_for_each_pass(self) -> None:
        """A family may win one pass and not solve the others: the products of both gradients have three columns."""
        layer = Conv2d((5, 3, 6, 6), (6, 3, 3, 3))
        some = arrays(layer)
        with_spectra, without = (ws.training_step(layer, "host", reuse=reuse) for reuse in (True, False))
        families = {pass_: match.program.family for pass_, match in with_spectra.matches.items()}
        thin = "conv2d_fft_thin"
        assert families == {Pass.FPROP: "conv2d_fft", Pass.DGRAD: thin, Pass.WGRAD: thin}
        one, other = (step.fprop(some["x"], some["w"]) for step in (with_spectra, without))
        assert np.linalg.norm(one - other) <= 2e-6 * np.linalg.norm(other)
        for name in ("dgrad", "wgrad"):
            one, other = (getattr(step, name)(some["dy"]) for step in (with_spectra, without))
            assert np.linalg.norm(one - other) <= 2e-6 * np.linalg.norm(other)

    def test_is_the_caller_s(self) -> None:
        some = arrays(PLAIN)
        with_spectra, without = (ws.training_step(PLAIN, "host", reuse=reuse) for reuse in (True, False))
        assert (with_spectra.choice.reuse, without.choice.reuse) == (True, False)
        assert with_spectra.choice.by is without.choice.by is ChosenBy.CALLER
        assert {match.program.family for match in with_spectra.matches.values()} == {"conv2d_fft_thin"}  # two images
        assert with_spectra.problems == passes_of(PLAIN)
        for step in (with_spectra, without):
            step.fprop(some["x"], some["w"])
        for name in ("dgrad", "wgrad"):
            one, other = (getattr(step, name)(some["dy"]) for step in (with_spectra, without))
            assert np.linalg.norm(one - other) <= 2e-6 * np.linalg.norm(other)

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"workspace": 4096}, "bytes of workspace for the spectra of x, w and dy and one call beside them"),
            ({"stride": 2}, "takes stride 1, dilation 1 and one group"),
            ({"accuracy": "elementwise"}, "has errors relative to the whole result"),
        ],
    )
    def test_falls_on_three_plans_where_spectra_cannot_be_kept(self, fields: dict[str, Any], why: str) -> None:
        layer = dataclasses.replace(PLAIN, **fields)
        with pytest.raises(BadArgument, match=why):
            ws.training_step(layer, "host", reuse=True)
        choice = ws.training_step(layer, "host").choice
        assert (choice.reuse, choice.by) == (False, ChosenBy.NECESSITY)
        assert why in choice.reason

    @pytest.mark.parametrize(
        ("layer", "why"),
        [
            (dataclasses.replace(PLAIN, pass_=Pass.DGRAD), "is made of a layer's forward pass; got pass dgrad"),
            (dataclasses.replace(PLAIN, relu=True), "has no relu"),
        ],
    )
    def test_is_of_a_forward_pass_without_a_relu(self, layer: Conv2d, why: str) -> None:
        with pytest.raises(BadArgument, match=why):
            ws.training_step(layer, "host", reuse=False)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compile_into_one_folder: None) -> Iterator[None]:  # noqa: ARG001
    """Enables checks of steps, in a process without known verdicts."""
    monkeypatch.setenv("WARPSMITH_VERIFY", "first")
    monkeypatch.setattr(verdicts, "_path", lambda: tmp_path / "verified")
    verdicts.VERDICTS.forget()
    make_plans.forget_plans()
    yield
    verdicts.VERDICTS.forget()
    make_plans.forget_plans()


def with_a_mistake(program: Program) -> Program:
    """Copy of the program whose inverse transform multiplies one row in six by 1.5."""
    stored = "store_signal(target, t, j, x, v[j]);"
    changed = [
        dataclasses.replace(
            unit, source=unit.source.replace(stored, f"if (j == 2) v[j].x *= 1.5f;\n            {stored}")
        )
        for unit in program.units
    ]
    assert sum(one != other for one, other in zip(changed, program.units, strict=True)) == 1
    return dataclasses.replace(program, units=tuple(changed))


@pytest.fixture
def mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the weight gradients wrong in steps that keep spectra."""
    right = SharedKernels.programs

    def wrong(self: SharedKernels, *rest: Any) -> SharedPrograms:
        made = right(self, *rest)
        given, kept = ({**each, Pass.WGRAD: with_a_mistake(each[Pass.WGRAD])} for each in (made.given_dy, made.kept_dy))
        return dataclasses.replace(made, given_dy=given, kept_dy=kept)

    monkeypatch.setattr(SharedKernels, "programs", wrong)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """List that receives each check of a step from now on."""
    found: list[Any] = []
    check = first_use._check
    monkeypatch.setattr(first_use, "_check", lambda *given: found.append(given) or check(*given))
    return found


@pytest.mark.usefixtures("unknown")
class TestFirstUse:
    @pytest.mark.parametrize("layer", [PLAIN, PADDED])
    def test_programs_that_nobody_tuned_are_checked_once(self, layer: Conv2d, monkeypatch: pytest.MonkeyPatch) -> None:
        checks, some = counted(monkeypatch), arrays(layer)
        for _ in range(2):
            step = ws.training_step(layer, "host", reuse=True)
            assert {each.by for each in step.verified.values()} == {Verified.CHECKED}
            assert all(each.samples > 100 and (each.largest_error or 1) < 1e-6 for each in step.verified.values())
        assert len(checks) == 1
        with pytest.raises(BadArgument, match="call fprop first"):  # nothing is left of the check
            step.dgrad(some["dy"])

    @pytest.mark.usefixtures("mistaken")
    def test_three_plans_take_the_place_of_a_wrong_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(make_step, "choose", lambda *_: CHOICE)
        checks = counted(monkeypatch)
        for _ in range(2):
            with pytest.warns(WrongProgram, match=r"gave wrong results .* wgrad: .* three plans take its place"):
                step = ws.training_step(PLAIN, "host")
            assert (step.choice.reuse, step.choice.by) == (False, ChosenBy.NECESSITY)
            assert "should be" in step.choice.reason
        assert len(checks) == 1
        assert {each.by for each in step.verified.values()} == {Verified.CHECKED}

    @pytest.mark.usefixtures("mistaken")
    def test_a_caller_who_wants_spectra_is_told(self) -> None:
        with pytest.raises(WrongResult, match=r"conv2d_fft_thin .* gave wrong results .* wgrad: "):
            ws.training_step(PLAIN, "host", reuse=True)

    @pytest.mark.usefixtures("mistaken")
    def test_never_checks_nothing(self) -> None:
        step = ws.training_step(PLAIN, "host", reuse=True, verify="never")
        assert {each.by for each in step.verified.values()} == {Verified.NOT}

    def test_stored_winners_are_exempt_unless_always_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checks = counted(monkeypatch)
        step = ws.training_step(PLAIN, "host", reuse=True, verify="never")
        assert isinstance(step, SharedStep)
        step.matches = {
            pass_: dataclasses.replace(match, kind=MatchKind.EXACT) for pass_, match in step.matches.items()
        }
        compiler = DeviceRef(DeviceKind.HOST).compiler
        assert first_use.verify_step(step, Verify.FIRST, compiler) is None
        assert (step.verification.by, checks) == (Verified.STORED, [])
        assert first_use.verify_step(step, Verify.ALWAYS, compiler) is None
        assert (step.verification.by, len(checks)) == (Verified.CHECKED, 1)

    def test_a_check_that_cannot_be_carried_out_is_no_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(first_use, "MOST_TIMES", 0)
        step = ws.training_step(PLAIN, "host", reuse=True)
        assert {(each.by, each.reason) for each in step.verified.values()} == {
            (Verified.NOT, "the layer takes too long to be run on random data")
        }


TINY = Conv2d((1, 2, 2, 2), (1, 2, 1, 2))


def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """A separate process checks that every access lies within the memory that the programs share."""
    compiler = HostCompiler(sanitize=True)
    kernels = {
        pass_: Kernel(problem, FAMILY, FAMILY.default(problem, DEVICE)) for pass_, problem in passes_of(TINY).items()
    }
    programs = SharedPrograms.of(kernels, DEVICE)
    compile_once = functools.cache(compiler.compile)
    texts = {unit.source: compile_once(unit) for each in programs.programs for unit in each.compilations().values()}
    path = tmp_path / "step"
    path.write_bytes(pickle.dumps((TINY, programs, texts, arrays(TINY))))
    done = forking.run(
        [sys.executable, "-c", SANITIZED, str(path)],
        env={**os.environ, **compiler.sanitizer_environment()},
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "right\n"


SANITIZED = """
import pickle, sys
from pathlib import Path

import numpy as np

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.conv2d.fourier.sharing import passes_of
from warpsmith.plans.poisoned import WrongProgram
from warpsmith.plans.conv2d import shared_step as first_use
from warpsmith.plans.conv2d import training as make_step
from warpsmith.plans.conv2d.spectra_choice import SharedKernels
from warpsmith.plans.conv2d.shared_step import SharedStep
from warpsmith.plans.conv2d.training_step import Choice, ChosenBy

layer, programs, texts, some = pickle.loads(Path(sys.argv[1]).read_bytes())


class Compiled(HostCompiler):
    def compile(self, unit):
        return texts[unit.source]


runtime = HostRuntime(workers=1)
step = SharedStep(passes_of(layer), {}.fromkeys(passes_of(layer)), programs, Compiled(), runtime, None)
y = step.fprop(some["x"], some["w"])
expected = np.einsum("nchs,kcs->nkh", some["x"], some["w"][:, :, 0])[..., None]
assert np.allclose(y, expected, atol=1e-5)
dx, dw = step.dgrad(some["dy"]), step.wgrad()
assert np.allclose(dx, np.einsum("nkhq,kcs->nchs", some["dy"], some["w"][:, :, 0]), atol=1e-5)
assert np.allclose(dw[:, :, 0], np.einsum("nkhq,nchs->kcs", some["dy"], some["x"]), atol=1e-5)
print("right")
"""
