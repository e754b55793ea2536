"""Fast calls: arrays they take, calls they leave to `CheckedCalls`, and equal results of both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builders import binary, launch
from builders import program as made_program
from warpsmith.devices import fast_calls as module
from warpsmith.devices import native_calls
from warpsmith.devices.array_access import ArrayAccess, cupy_access
from warpsmith.devices.checked_calls import CheckedCalls
from warpsmith.devices.compiler import BinaryKind
from warpsmith.devices.cuda import compiled_launches
from warpsmith.devices.cuda.compiled_launches import can_launch
from warpsmith.devices.fast_calls import calls_of, fast_calls
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Allocation, CallArguments
from warpsmith.devices.signature import Signature
from warpsmith.devices.torch_access import stream_of, torch_access
from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.program import Argument, ByValue, Pointer, Program, Texture
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

torch = pytest.importorskip("torch")

PROBLEM = Filter2d(image=(4, 8), filter=(2, 3))
PITCHED = Filter2d(image=(4, 8), filter=(2, 3), pitch=64, result_pitch=64)
KNOWN = Filter2d(image=(4, 8), filter=(2, 3), weights=tuple(range(6)))
COMPLEX = Fft(size=(8,), batch=4, kind="c2c")  # type: ignore[arg-type]
CARRIED = Filter1d(1, 3, channels=4, mode="causal", state="carried")  # type: ignore[arg-type]
BOTH = Filter1d(8, 3, channels=4, mode="causal", state="both")  # type: ignore[arg-type]
WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
OWN, OTHER = 0x70, 0x80
"""Handles of PyTorch's current stream and of another one."""


def program(problem: Problem, *more: Argument) -> Program:
    is_filter = isinstance(problem, Filter2d)
    arguments = more or tuple(
        ByValue(each.name) if each.name == "weights" and is_filter else Pointer(each.name) for each in problem.operands
    )
    return made_program("", launch(*arguments))


def signature(problem: Problem, *more: Argument) -> Signature:
    return Signature.of(problem, program(problem, *more))


class Noted:
    """Launches noted."""

    def __init__(self) -> None:
        self.latest: tuple[Any, ...] = ()

    def launch(self, *given: Any) -> None:
        self.latest = given

    def launcher(self, *_: Any) -> None:
        return None


Read = Callable[[tuple[Any, ...], Any, object], tuple[Any, ...] | None]
"""A call: its result and its launch (addresses, values, stream); None if it is left to `CheckedCalls`."""


def read_by(access: ArrayAccess, made: Signature) -> Read:
    noted = Noted()
    call = calls_of(access, made, noted, (), native_calls)

    def read(inputs: tuple[Any, ...], out: Any, stream: object) -> tuple[Any, ...] | None:
        noted.latest = ()
        target = call(inputs, out, stream)
        if target is None:
            assert noted.latest == ()
            return None
        *launched, scratch = noted.latest
        assert scratch is None
        return target, *launched

    return read


@pytest.fixture(params=[None, native_calls], ids=["getters", "dlpack"])
def compiled(request: pytest.FixtureRequest) -> ModuleType | None:
    """The compiled tensor reader, or None to read by PyTorch's getters as in releases before 2.10."""
    module: ModuleType | None = request.param
    return module


@pytest.fixture
def fast(compiled: ModuleType | None) -> Callable[..., Read]:
    def made(problem: Problem, *more: Argument) -> Read:
        of = signature(problem, *more)
        return read_by(torch_access(torch, of, torch.device("cpu"), compiled, lambda: OWN), of)

    return made


@pytest.fixture
def image() -> Any:
    return torch.zeros(4, 8)


@pytest.fixture
def out() -> Any:
    return torch.zeros(3, 6)


def pitched(rows: int, columns: int, pitch: int = 16) -> Any:
    return torch.zeros(rows, pitch)[:, :columns]


def negated(x: Any) -> Any:
    return torch._neg_view(x)


def test_scratch_memory_of_a_call_is_passed_on(compiled: ModuleType | None) -> None:
    noted, of, scratch = Noted(), signature(COMPLEX), Allocation(0x100, 64)
    access = torch_access(torch, of, torch.device("cpu"), compiled, lambda: OWN)
    call, x = calls_of(access, of, noted, (), native_calls), torch.zeros(4, 8, dtype=torch.complex64)
    result = call((x,), None, None, scratch)
    assert noted.latest == ((x.data_ptr(), result.data_ptr()), (), OWN, scratch)


class TestTorch:
    def test_takes_tensors_where_they_lie(self, fast: Callable[..., Read], image: Any, out: Any) -> None:
        read = fast(PROBLEM)
        addresses = image.data_ptr(), out.data_ptr()
        assert read((image, WEIGHTS), out, None) == (out, addresses, (WEIGHTS.tobytes(),), OWN)
        assert read((image, WEIGHTS), out, OWN) is not None
        made, (source, target), _, _ = read((image, WEIGHTS), None, None) or pytest.fail("refused")
        assert (tuple(made.shape), made.dtype, source, target) == ((3, 6), torch.float32, addresses[0], made.data_ptr())

    def test_takes_rows_with_gaps_and_makes_such(self, fast: Callable[..., Read]) -> None:
        read, image = fast(PITCHED), pitched(4, 8)
        made, (_, target), _, _ = read((image, WEIGHTS), None, None) or pytest.fail("refused")
        assert (made.stride(), made.data_ptr()) == ((16, 1), target)
        assert made.untyped_storage().nbytes() == 3 * 64
        assert read((image, WEIGHTS), pitched(3, 6), None) is not None
        assert read((image.contiguous(), WEIGHTS), None, None) is None
        assert read((image, WEIGHTS), pitched(3, 6, 8), None) is None

    def test_takes_known_weights_from_the_problem(self, fast: Callable[..., Read], image: Any) -> None:
        read = fast(KNOWN)
        _, _, values, _ = read((image,), None, None) or pytest.fail("refused")
        assert values == (WEIGHTS.tobytes(),)
        assert read((image, WEIGHTS), None, None) is None

    @pytest.mark.parametrize(
        "weights",
        [
            WEIGHTS,
            WEIGHTS.astype(np.float64),
            np.asfortranarray(WEIGHTS),
            WEIGHTS.ravel(),
            WEIGHTS.tolist(),
            torch.from_numpy(WEIGHTS.copy()),
            negated(torch.from_numpy(-WEIGHTS)),
            torch.from_numpy(WEIGHTS).double(),
        ],
    )
    def test_takes_weights_of_any_kind(self, fast: Callable[..., Read], image: Any, weights: Any) -> None:
        _, _, values, _ = fast(PROBLEM)((image, weights), None, None) or pytest.fail("refused")
        assert values == (WEIGHTS.tobytes(),)

    def test_sees_weights_that_are_changed_in_place(self, fast: Callable[..., Read], image: Any) -> None:
        read, weights = fast(PROBLEM), WEIGHTS.copy()
        for weights[0, 0] in (5, 6):
            assert (read((image, weights), None, None) or ((),) * 3)[2] == (weights.tobytes(),)

    @pytest.mark.parametrize(
        "change",
        {
            "dtype": lambda x: x.double(),
            "shape": lambda x: x[:3],
            "strides": lambda x: x.T.contiguous().T,
            "gradient": lambda x: x.requires_grad_(),
            "negated": negated,
            "start": lambda _: torch.zeros(33)[1:].view(4, 8),
            "sparse": lambda x: x.to_sparse(),
            "device": lambda x: x.to("meta"),
            "subclass": lambda x: x.as_subclass(type("Own", (torch.Tensor,), {})),
            "parameter with a gradient": torch.nn.Parameter,
            "another library": lambda x: x.numpy(),
        }.items(),
        ids=lambda item: item[0],
    )
    def test_leaves_the_unusual_to_checked_calls(
        self, fast: Callable[..., Read], image: Any, out: Any, change: Any
    ) -> None:
        assert fast(PROBLEM)((change[1](image), WEIGHTS), out, None) is None
        if change[0] not in ("shape", "start"):
            assert fast(PROBLEM)((image, WEIGHTS), change[1](out), None) is None

    def test_takes_parameters_and_what_requires_a_gradient_while_gradients_are_off(
        self, fast: Callable[..., Read], image: Any
    ) -> None:
        read = fast(PROBLEM)
        for x in (torch.nn.Parameter(image, requires_grad=False), torch.nn.Parameter(image), image.requires_grad_()):
            with torch.no_grad():
                assert (read((x, WEIGHTS), None, None) or ((), ()))[1][0] == x.data_ptr()
            assert (read((x, WEIGHTS), None, None) is None) == x.requires_grad

    def test_leaves_conjugated_tensors_to_checked_calls(self, fast: Callable[..., Read]) -> None:
        x = torch.zeros(4, 8, dtype=torch.complex64)
        assert fast(COMPLEX)((x,), None, None) is not None
        assert fast(COMPLEX)((x.conj(),), None, None) is None
        assert fast(COMPLEX)((x,), torch.zeros_like(x).conj(), None) is None

    def test_leaves_tensors_without_memory_to_checked_calls(self, fast: Callable[..., Read]) -> None:
        read, seen = fast(PROBLEM), []

        def one(x: Any) -> Any:
            seen.append(read((x, WEIGHTS), None, None))
            return x

        torch.vmap(one)(torch.zeros(2, 4, 8))
        assert seen == [None]

    def test_leaves_other_streams_and_counts_to_checked_calls(
        self, fast: Callable[..., Read], image: Any, out: Any
    ) -> None:
        read = fast(PROBLEM)
        assert read((image, WEIGHTS), out, OTHER) is None
        assert read((image, WEIGHTS), out, SimpleNamespace(cuda_stream=OTHER)) is None
        assert read((image, WEIGHTS), out, SimpleNamespace(cuda_stream=OWN)) is not None
        assert read((image,), out, None) is None
        with pytest.raises(BadArgument, match="stream: expected a CUDA stream"):
            read((image, WEIGHTS), out, "fast")
        with pytest.raises(BadArgument, match=r"weights: expected shape \(2, 3\)"):
            read((image, np.zeros((3, 3))), out, None)

    @pytest.mark.parametrize("offset", [-80, -64, 0, 112, 128])
    def test_leaves_what_shares_memory_to_checked_calls(self, fast: Callable[..., Read], offset: int) -> None:
        """The image has 128 bytes and the result 72."""
        memory = torch.zeros(1000)
        image = memory[400:432].view(4, 8)
        start = 400 + offset // 4
        out = memory[start : start + 18].view(3, 6)
        shares = -72 < offset < 128
        assert (fast(PROBLEM)((image, WEIGHTS), out, None) is None) == shares
        care = CheckedCalls(signature(PROBLEM), HostRuntime())
        if shares:
            with pytest.raises(BadArgument, match="out: shares memory with image"):
                care.read((image, WEIGHTS), out, None)
        else:
            assert care.read((image, WEIGHTS), out, None).addresses == (image.data_ptr(), out.data_ptr())

    def test_tells_autograd_of_what_is_written(self, fast: Callable[..., Read], image: Any, out: Any) -> None:
        read, before = fast(PROBLEM), out._version
        read((image, WEIGHTS), out, None)
        assert out._version == before + 1
        assert read((image.T.contiguous().T, WEIGHTS), out, None) is None
        assert out._version == before + 1
        with torch.inference_mode():
            inference = torch.zeros(3, 6)
            assert read((image, WEIGHTS), inference, None) is not None
        assert read((image, WEIGHTS), inference, None) is not None

    def test_takes_a_state_and_tells_autograd_of_it(self, fast: Callable[..., Read]) -> None:
        read, (x, w, state) = fast(CARRIED), (torch.zeros(4, 1), torch.zeros(3), torch.zeros(4, 2))
        before = state._version
        found = read((x, w, state), None, None)
        assert found is not None
        result, addresses, *_ = found
        assert addresses == tuple(each.data_ptr() for each in (x, w, state, result))
        assert state._version == before + 1
        assert x._version == 0

    def test_leaves_a_state_that_shares_memory_to_checked_calls(self, fast: Callable[..., Read]) -> None:
        read, memory = fast(CARRIED), torch.zeros(16)
        w, apart = torch.zeros(3), torch.zeros(4, 1)
        state = memory[:8].view(4, 2)
        assert read((memory[8:12].view(4, 1), w, state), None, None) is not None
        assert read((memory[4:8].view(4, 1), w, state), None, None) is None
        assert read((apart, w, state), memory[4:8].view(4, 1), None) is None
        assert read((apart, memory[4:7], state), None, None) is None

    def test_takes_several_results(self, fast: Callable[..., Read]) -> None:
        read, x, w, before = fast(BOTH), torch.zeros(4, 8), torch.zeros(3), torch.zeros(4, 2)
        found = read((x, w, before), None, None)
        assert found is not None
        (result, after), addresses, *_ = found
        assert (result.shape, after.shape) == ((4, 8), (4, 2))
        assert addresses == tuple(each.data_ptr() for each in (x, w, before, result, after))
        given = torch.zeros(4, 8), torch.zeros(4, 2)
        found = read((x, w, before), given, None)
        assert found is not None
        assert found[0] is given
        assert [each._version for each in given] == [1, 1]
        for out in (given[0], given[:1], (given[0], before), (given[0], given[0][:, :2])):
            assert read((x, w, before), out, None) is None

    def test_a_texture_must_start_where_textures_do(self, image: Any) -> None:
        device = SimpleNamespace(
            type="cuda", index=-1
        )  # textures need 512-byte alignment here; the tensors claim addresses there

        class There(SimpleNamespace):
            def __eq__(self, _: object) -> bool:
                return True

        texture = Texture("image", DType.FLOAT32, 8, 4, 32)
        made = signature(PROBLEM, texture, Pointer("result"), ByValue("weights"))
        read = read_by(torch_access(torch, made, There(**vars(device)), None, lambda: OWN), made)
        memory = torch.zeros(1000)
        start = -memory.data_ptr() % 512 // 4
        out = torch.zeros(3, 6)
        assert read((memory[start : start + 32].view(4, 8), WEIGHTS), out, None) is not None
        assert read((memory[start + 4 : start + 36].view(4, 8), WEIGHTS), out, None) is None
        assert image is not None

    def test_the_stream_is_pytorchs_current_one(self) -> None:
        device = SimpleNamespace(index=3, type="cuda")
        raw = SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 100 + index))
        assert stream_of(raw, device, None)() == 103
        public = SimpleNamespace(
            _C=SimpleNamespace(),
            cuda=SimpleNamespace(current_stream=lambda where: SimpleNamespace(cuda_stream=200 + where.index)),
        )
        assert stream_of(public, device, None)() == 203
        exchange = native_calls.tensors.ExchangeApi(torch.Tensor.__dlpack_c_exchange_api__)
        assert isinstance(stream_of(torch, device, exchange), native_calls.tensors.CurrentStream)


class Memory(SimpleNamespace):
    """A piece of CuPy's memory."""


class FakeArray:
    """A CuPy array whose address is made up."""

    def __init__(self, shape: Any, dtype: Any, memptr: Memory | None = None, strides: Any = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.strides = strides or np.empty(shape, dtype).strides
        self.data = memptr or Memory(ptr=0x10000, device_id=0)


class FakeCupy:
    """The functions of `cupy` that a call needs."""

    ndarray = FakeArray

    def __init__(self) -> None:
        self.stream, self.current, self.entered = OWN, 0, []
        this = self

        class Device:
            def __init__(self, ordinal: int) -> None:
                this.entered.append(ordinal)

            def __enter__(self) -> None:
                pass

            def __exit__(self, *_: object) -> None:
                pass

        self.cuda = SimpleNamespace(
            get_current_stream=lambda: SimpleNamespace(ptr=self.stream),
            runtime=SimpleNamespace(getDevice=lambda: self.current),
            alloc=lambda nbytes: Memory(ptr=0x90000, device_id=0, nbytes=nbytes),
            Device=Device,
        )


class TestCupy:
    @pytest.fixture
    def cupy(self) -> FakeCupy:
        return FakeCupy()

    @pytest.fixture
    def read(self, cupy: FakeCupy) -> Read:
        return read_by(cupy_access(cupy, signature(PROBLEM), 0), signature(PROBLEM))

    def test_takes_arrays_where_they_lie(self, cupy: FakeCupy, read: Read) -> None:
        x, out = FakeArray((4, 8), "f4"), FakeArray((3, 6), "f4", Memory(ptr=0x20000, device_id=0))
        assert read((x, WEIGHTS), out, None) == (out, (0x10000, 0x20000), (WEIGHTS.tobytes(),), OWN)
        cupy.stream = 1  # the legacy default stream
        assert (read((x, WEIGHTS), out, None) or ())[3] == 0
        made, addresses, _, _ = read((x, WEIGHTS), None, None) or pytest.fail("refused")
        assert (made.shape, made.strides, made.data.nbytes, addresses) == ((3, 6), (24, 4), 72, (0x10000, 0x90000))
        assert cupy.entered == []
        cupy.current = 1
        read((x, WEIGHTS), None, None)
        assert cupy.entered == [0]

    @pytest.mark.parametrize(
        "x",
        [
            FakeArray((4, 8), "f8"),
            FakeArray((8, 4), "f4"),
            FakeArray((4, 8), "f4", strides=(64, 4)),
            FakeArray((4, 8), "f4", Memory(ptr=0x10004, device_id=0)),
            FakeArray((4, 8), "f4", Memory(ptr=0x10000, device_id=1)),
            FakeArray((4, 8), "f4", Memory(ptr=0x20010, device_id=0)),
            np.zeros((4, 8), np.float32),
        ],
        ids=["dtype", "shape", "strides", "start", "device", "shared", "library"],
    )
    def test_leaves_the_unusual_to_checked_calls(self, read: Read, x: Any) -> None:
        out = FakeArray((3, 6), "f4", Memory(ptr=0x20000, device_id=0))
        assert read((x, WEIGHTS), out, None) is None


class TestChoice:
    @pytest.fixture
    def host(self) -> HostRuntime:
        return HostRuntime()

    def test_on_the_host_tensors_alone_have_fast_calls(self, host: HostRuntime, image: Any) -> None:
        noted = Noted()

        def made_for(array: Any) -> Any:
            return fast_calls(array, signature(PROBLEM), host, noted, (WEIGHTS.tobytes(),))

        assert made_for(image)((image, WEIGHTS), None, None) is not None
        assert noted.latest[2] is None
        assert made_for(image.numpy()) is None
        assert made_for(torch.nn.Parameter(image)) is None

    def test_without_compiled_code_there_are_none(
        self, host: HostRuntime, image: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "native", lambda: None)
        assert fast_calls(image, signature(PROBLEM), host, Noted(), (WEIGHTS.tobytes(),)) is None

    def test_on_a_gpu_those_of_cupy_too(self, monkeypatch: pytest.MonkeyPatch, host: HostRuntime) -> None:
        monkeypatch.setitem(sys.modules, "cupy", FakeCupy())  # type: ignore[arg-type]
        array = FakeArray((4, 8), "f4")
        assert fast_calls(array, signature(PROBLEM), host, Noted(), ()) is None
        monkeypatch.setattr(host, "device", H200)
        assert fast_calls(array, signature(PROBLEM), host, Noted(), ()) is not None


@pytest.mark.parametrize(("arguments", "fits"), [(native_calls.MOST_ARGUMENTS, True), (40, False)])
def test_kernels_of_very_many_arguments_are_bound(arguments: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_launches, "driver_function", lambda *_: 0x1000)
    many = made_program("", launch(*[Pointer("image")] * arguments))
    assert can_launch(many, CallArguments(("image",), ()), native_calls) == fits


def test_a_plan_is_fast_after_its_first_call(image: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[Any] = []
    module = SimpleNamespace(
        close=lambda: None,
        bind=lambda _, addresses, values: lambda stream: launched.append((addresses, values, stream)),
    )
    runtime = HostRuntime()
    monkeypatch.setattr(runtime, "load", lambda _: module)
    plan = Plan.load(
        PROBLEM,
        Match(MatchKind.DEFAULT, program(PROBLEM), None, ()),
        {"": binary(kind=BinaryKind.LIBRARY)},
        runtime,
    )
    careful = []
    real = plan.loaded.calls.read
    monkeypatch.setattr(plan.loaded.calls, "read", lambda *given: (careful.append(1), real(*given))[1])
    for _ in range(3):
        plan(image, WEIGHTS)
    plan(image.numpy(), WEIGHTS)
    plan(image, WEIGHTS)
    assert len(careful) == 2
    with pytest.raises(BadArgument, match="a plan of filter2d takes image, weights; got 0 arrays"):
        plan()
    with pytest.raises(BadArgument, match="image: expected float32 of shape"):
        plan(image.double(), WEIGHTS)
    assert len(launched) == 5
