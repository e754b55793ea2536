"""Verification of conv2d: the reference against PyTorch in float64, the inputs, and PyTorch as a peer."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.fft
from numpy.typing import NDArray

import exhaustive
from conv2d_layers import small_fields
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass, Precision
from warpsmith.generator.conv2d.layer.words import DTYPES
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.conv2d.fourier_oracle import by_transforms, is_by_transforms
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference, smaller, terms
from warpsmith.tuner.operations.conv2d.peers import HALF_TOLERANCES, TF32_TOLERANCE, makers, torch_peer
from warpsmith.tuner.operations.conv2d.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.peer import Unavailable
from warpsmith.tuner.operations.registry import random_operands, stress_operands

torch = pytest.importorskip("torch")

Arrays = dict[str, NDArray[np.float32]]
FIELDS: tuple[dict[str, Any], ...] = tuple(
    small_fields(*options)
    for options in itertools.product((1, 2, (2, 1)), (0, 1, ((0, 2), (1, 0))), (1, 2, (1, 3)), (1, 2, 4))
)
MIRRORED: tuple[dict[str, Any], ...] = tuple(
    {**small_fields(*options), "padding_mode": mode}
    for options, mode in itertools.product(
        ((1, 1, 1, 1), ((2, 1), ((0, 5), (3, 0)), (1, 3), 2), (1, 6, 1, 4)), ("reflect", "replicate", "circular")
    )
)
"""Layers whose padding repeats pixels (mirrored, nearest, circular), up to the widest padding allowed."""
every_pass = pytest.mark.parametrize("pass_", Pass)


def drawn(problem: Conv2d, seed: int = 0) -> Arrays:
    return random_operands(problem, seed)


def by_torch(problem: Conv2d, operands: Arrays) -> NDArray[np.float64]:
    """PyTorch's result in float64, with gradients from its autograd."""
    given = {name: torch.from_numpy(values.astype(np.float64)) for name, values in operands.items()}
    x = given.get("x", torch.zeros(problem.input, dtype=torch.float64)).requires_grad_()
    w = given.get("w", torch.zeros(problem.weight, dtype=torch.float64)).requires_grad_()
    mode = "constant" if problem.padding_mode is PaddingMode.ZEROS else str(problem.padding_mode)
    padded = torch.nn.functional.pad(x, [side for axis in reversed(problem.padding) for side in axis], mode)
    bias = given.get("b") if problem.pass_ is Pass.FPROP else None
    y = torch.nn.functional.conv2d(padded, w, bias, problem.stride, 0, problem.dilation, problem.groups)
    if problem.pass_ is Pass.FPROP:
        result = y
    else:
        (result,) = torch.autograd.grad(y, x if problem.pass_ is Pass.DGRAD else w, given["dy"])
        result = result + given["b"][:, None, None] if problem.bias else result
    result = result.relu() if problem.relu else result
    return np.asarray(result.detach().numpy(), np.float64)


class TestReference:
    @every_pass
    def test_is_what_pytorch_computes_in_float64(self, pass_: Pass) -> None:
        layers = list(enumerate((*FIELDS, *MIRRORED)))
        # Five divides neither 2 nor 3, so that each pass meets every dtype, layout, stride, padding and dilation.
        for number, fields in exhaustive.share(layers, list(Pass).index(pass_), 5):
            epilogue = {"bias": number % 2 == 0, "relu": number % 3 == 0} if pass_ is not Pass.WGRAD else {}
            arithmetic = {"dtype": tuple(DTYPES)[number % 3], "layout": tuple(ImageLayout)[number % 2]}
            problem = Conv2d(**fields, pass_=pass_, **epilogue, **arithmetic)
            operands = drawn(problem, number)
            assert {values.dtype.name for values in operands.values()} == {str(problem.dtype)}
            expected, scale = reference(problem, operands)
            assert expected.shape == scale.shape == problem.output.shape
            assert (np.abs(expected) <= scale * (1 + 1e-12)).all()
            np.testing.assert_allclose(expected, by_torch(problem, operands), rtol=0, atol=1e-13, err_msg=problem.key())

    @every_pass
    def test_the_scale_is_the_sum_of_the_magnitudes_of_all_terms(self, pass_: Pass) -> None:
        for fields in (*FIELDS[::5], *MIRRORED):
            epilogue = {"bias": pass_ is not Pass.WGRAD, "relu": pass_ is not Pass.WGRAD}
            problem = Conv2d(**fields, pass_=pass_, accuracy="elementwise", **epilogue)
            operands = drawn(problem)
            _, scale = reference(problem, operands)
            positive, _ = reference(problem, {name: np.abs(values) for name, values in operands.items()})
            np.testing.assert_allclose(scale, positive, rtol=1e-12)

    @every_pass
    def test_normwise_the_scale_is_at_least_twice_the_root_mean_square_of_an_images_results(self, pass_: Pass) -> None:
        problem = Conv2d((2, 3, 9, 9), (4, 3, 3, 3), pass_=pass_)
        operands = drawn(problem)
        if pass_ is Pass.WGRAD:
            operands["dy"][:, -1] *= 1e-3
        else:
            operands[problem.inputs[0].name][-1] *= 1e-3
        expected, scale = reference(problem, operands)
        _, own = reference(dataclasses.replace(problem, accuracy="elementwise"), operands)
        axes = None if pass_ is Pass.WGRAD else (1, 2, 3)
        norm = 2 * np.sqrt(np.mean(expected**2, axis=axes, keepdims=True))
        np.testing.assert_allclose(scale, np.maximum(own, norm), rtol=1e-12)
        assert (own < norm).any()
        assert (own > norm).any()

    @pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e25])
    def test_an_image_changes_nothing_that_is_asked_of_the_others(self, pass_: Pass, value: float) -> None:
        problem = Conv2d((3, 2, 9, 9), (4, 2, 3, 3), pass_=pass_)
        operands = drawn(problem)
        before = reference(problem, operands)
        operands[problem.inputs[0].name][1, 0, 4, 4] = value
        for was, found in zip(before, reference(problem, operands), strict=True):
            assert np.array_equal(was[::2], found[::2])
            assert not np.isclose(was[1], found[1]).all()
        assert np.isnan(reference(problem, operands)[1][1]).all() == (not np.isfinite(value))

    @pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
    @pytest.mark.parametrize("images", [1, 2, 3, 8])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_stress_sets_images_of_a_batch_apart(self, pass_: Pass, images: int, dtype: DType) -> None:
        problem = Conv2d((images, 2, 20, 20), (4, 2, 3, 3), pass_=pass_, dtype=dtype)
        seen = set()
        for seed in range(12):
            given = stress_inputs(problem, np.random.default_rng(seed))[problem.inputs[0].name].astype(np.float32)
            spoilt = [not np.isfinite(image).all() for image in given]
            large = [float(np.nanmedian(np.abs(image))) > 2.0**12 for image in given]
            seen.add((sum(spoilt), sum(large)))
        may_be_large = dtype is not DType.FLOAT16
        several = {(1, int(may_be_large))}
        assert seen >= ({(0, 0)} if images == 1 else {(0, 1), (1, 0)} if images == 2 and may_be_large else several)

    @every_pass
    def test_of_many_channels_and_images_too(self, pass_: Pass) -> None:
        """Matrix products of these sizes are cut into pieces and images are spread over threads."""
        problem = Conv2d((9, 96, 30, 31), (72, 96, 3, 3), padding=1, pass_=pass_)  # type: ignore[arg-type]
        operands = drawn(problem)
        expected, _ = reference(problem, operands)
        np.testing.assert_allclose(expected, by_torch(problem, operands), rtol=0, atol=1e-9)

    @every_pass
    @pytest.mark.parametrize("mode", PaddingMode)
    @exhaustive.meeting(2)
    @pytest.mark.parametrize("padding", [0, 2, ((0, 2), (1, 0)), ((8, 8), (0, 7))])
    def test_by_transforms_is_the_same(self, pass_: Pass, padding: Any, mode: PaddingMode) -> None:
        fields: dict[str, Any] = {"padding": padding, "padding_mode": mode, "bias": pass_ is not Pass.WGRAD}
        problem = Conv2d((11, 3, 9, 14), (5, 3, 4, 3), pass_=pass_, **fields)
        operands = drawn(problem)
        expected, _ = reference(problem, operands)
        got = by_transforms(problem, operands, lambda values: values.astype(np.float64), 1 << 30)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 * np.abs(expected).max())

    def test_is_by_transforms_only_of_large_plain_layers_that_are_accurate_as_a_whole(self) -> None:
        large: dict[str, Any] = {"input": (128, 64, 64, 64), "weight": (64, 64, 9, 9)}
        assert is_by_transforms(Conv2d(**large))
        assert not is_by_transforms(Conv2d((8, 64, 16, 16), (64, 64, 3, 3)))
        for fields in ({"accuracy": "elementwise"}, {"stride": 2}, {"dilation": 2}):
            assert not is_by_transforms(Conv2d(**large, **fields))
        assert not is_by_transforms(Conv2d((128, 64, 64, 64), (64, 1, 9, 9), groups=64))

    def test_terms_are_as_many_as_ones_add_up_to(self) -> None:
        for pass_ in Pass:
            problem = Conv2d((3, 4, 9, 9), (6, 2, 3, 2), groups=2, stride=(1, 1), pass_=pass_)
            ones = {each.name: np.ones(each.shape, np.float32) for each in problem.inputs}
            assert reference(problem, ones)[0].max() == terms(problem)

    @pytest.mark.parametrize("mode", PaddingMode)
    def test_terms_of_a_gradient_are_those_of_all_places_of_a_pixel(self, mode: PaddingMode) -> None:
        problem = Conv2d((1, 1, 6, 5), (3, 1, 1, 1), padding=4, pass_=Pass.DGRAD, padding_mode=mode)  # type: ignore[arg-type]
        ones = {each.name: np.ones(each.shape, np.float32) for each in problem.inputs}
        assert reference(problem, ones)[0].max() == terms(problem)


class TestTransposed:
    def test_is_what_pytorch_computes(self) -> None:
        options = itertools.product((1, 2, 3), (0, 1), (0, 1, 2), (1, 2), (1, 2))
        seen = 0
        for stride, padding, more, dilation, groups in options:
            if more >= max(stride, dilation) or more // stride * stride > padding:
                continue
            seen += 1
            problem = Conv2d.transposed(
                (2, 4, 5, 6), (4, 3, 2, 3), stride, padding, more, dilation, groups, bias=True, relu=seen % 2 == 0
            )
            operands = drawn(problem, seen)
            given, weight, bias = (torch.from_numpy(operands[name]).double() for name in ("dy", "w", "b"))
            theirs = torch.nn.functional.conv_transpose2d(given, weight, bias, stride, padding, more, groups, dilation)
            theirs = theirs.relu() if problem.relu else theirs
            np.testing.assert_allclose(reference(problem, operands)[0], theirs.numpy(), rtol=0, atol=1e-13)
        assert seen > 30


class TestBounds:
    @pytest.mark.parametrize(
        ("fields", "bound"),
        [
            ({}, 1e-6),
            ({"precision": "tf32"}, 1e-3),
            ({"precision": "f16"}, 1e-3),
            ({"precision": "bf16"}, 8e-3),
            ({"dtype": "bfloat16"}, 1e-6),
            ({"dtype": "float16", "precision": "f16"}, 1e-3),
        ],
    )
    def test_follow_from_the_precision(self, fields: dict[str, Any], bound: float) -> None:
        problem = Conv2d(**FIELDS[0], **fields)
        assert Conv2dJudge().error_bound(problem, problem.output) == bound

    @every_pass
    @pytest.mark.parametrize(("precision", "bits"), [("tf32", 11), ("bf16", 8)])
    def test_factors_rounded_to_the_precisions_bits_keep_it_and_two_bits_less_do_not(
        self, pass_: Pass, precision: str, bits: int
    ) -> None:
        """Results have one term, so nothing cancels; the worst of many is compared."""
        problem = Conv2d((1, 64, 1, 1), (64, 1, 1, 1), groups=64, pass_=pass_, precision=precision)  # type: ignore[arg-type]
        problem = dataclasses.replace(problem, accuracy="elementwise")
        worst = {bits: 0.0, bits - 2: 0.0}
        for seed in range(20):
            operands = drawn(problem, seed)
            expected, scale = reference(problem, operands)
            for kept in worst:
                cut = {name: rounded(values, kept) for name, values in operands.items()}
                got, _ = reference(problem, cut)
                worst[kept] = max(worst[kept], float((np.abs(got - expected) / scale).max()))
        bound = Conv2dJudge().error_bound(problem, problem.output)
        assert worst[bits] <= bound < worst[bits - 2]


def rounded(values: NDArray[Any], bits: int) -> NDArray[np.float32]:
    """Rounds to `bits` significant bits."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**bits), exponent - bits).astype(np.float32)


class TestInputs:
    @every_pass
    @pytest.mark.parametrize("make", [Conv2dJudge().inputs, stress_inputs], ids=["drawn", "stress"])
    def test_are_dense_and_the_same_in_every_run(self, make: Any, pass_: Pass) -> None:
        problem = Conv2d((3, 70, 70, 17), (5, 70, 3, 2), pass_=pass_, bias=pass_ is Pass.FPROP)
        first, again, other = (make(problem, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert list(first) == [each.name for each in problem.inputs]
        for each in problem.inputs:
            values = first[each.name]
            assert values.shape == each.shape
            assert values.dtype == np.float32
            assert values.flags.c_contiguous
            spoilt = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
            is_set_apart = make is stress_inputs and pass_ is not Pass.WGRAD and each is problem.inputs[0]
            assert np.count_nonzero(spoilt) == is_set_apart
            assert np.array_equal(values, again[each.name], equal_nan=True)
            assert not np.array_equal(values, other[each.name])

    @every_pass
    def test_stress_has_magnitudes_far_apart_and_sums_that_float32_holds(self, pass_: Pass) -> None:
        problem = Conv2d((3, 6, 40, 50), (8, 6, 3, 3), pass_=pass_)
        operands = stress_inputs(problem, np.random.default_rng(0))
        image = np.abs(operands[problem.inputs[0].name])
        assert image[image > 0].min() < 2**-18
        assert image[np.isfinite(image)].max() > 2**18
        expected, scale = reference(problem, operands)
        assert np.nanmax(scale) < np.finfo(np.float32).max / 1e6
        if pass_ is not Pass.WGRAD:  # whose sums are over all regions of the images
            assert (np.abs(expected) < 1e-3 * scale).any()
            assert (np.abs(expected) > 0.99 * scale).any()

    @pytest.mark.parametrize("seed", range(3))
    def test_stress_of_a_gradient_of_weights_admits_transforms(self, seed: int) -> None:
        """Float32 transforms and products keep the bound; they would not if regions of both were drawn apart."""
        problem = Conv2d((64, 32, 16, 16), (32, 32, 7, 7), pass_=Pass.WGRAD)
        operands = stress_inputs(problem, np.random.default_rng(seed))
        x, dy = (scipy.fft.rfft2(operands[name], s=(16, 16)).transpose(2, 3, 0, 1) for name in ("x", "dy"))
        assert x.dtype == np.complex64
        spectra = np.matmul(dy.conj().swapaxes(2, 3), x).transpose(2, 3, 0, 1)
        found = scipy.fft.irfft2(spectra, s=(16, 16))[:, :, :7, :7]
        expected, scale = reference(problem, operands)
        assert np.max(np.abs(found - expected) / scale) <= 1e-6 * stress_slack(problem)

    @pytest.mark.parametrize("seed", [5, 9, 11])
    def test_stress_of_few_terms_admits_transforms(self, seed: int) -> None:
        """Float32 transforms keep the bound; they would not if it allowed for the root of the terms alone."""
        problem = Conv2d((8, 96, 28, 28), (96, 1, 7, 7), groups=96, padding=3, pass_=Pass.DGRAD)
        operands = stress_operands(problem, seed)
        spectra = scipy.fft.rfft2(operands["dy"], s=(35, 36)) * scipy.fft.rfft2(operands["w"][:, 0], s=(35, 36))
        assert spectra.dtype == np.complex64
        expected, scale = reference(problem, operands)
        error = np.nanmax(np.abs(scipy.fft.irfft2(spectra, s=(35, 36))[..., 3:31, 3:31] - expected) / scale)
        own = dataclasses.replace(problem, accuracy=Accuracy.ELEMENTWISE)
        assert 1e-6 * stress_slack(own) < error < 0.7e-6 * stress_slack(problem)

    def test_slack_grows_with_the_sums_of_one_thread(self) -> None:
        small, large = ((1, channels, 8, 8) for channels in (1, 512))
        for pass_ in (Pass.FPROP, Pass.DGRAD):
            assert stress_slack(Conv2d(small, (1, 1, 3, 3), pass_=pass_)) == 15
            assert stress_slack(Conv2d(small, (1, 1, 3, 3), pass_=pass_, accuracy="elementwise")) == 1  # type: ignore[arg-type]
        assert stress_slack(Conv2d((1, 128, 8, 8), (1, 128, 3, 3))) == 15
        assert stress_slack(Conv2d(large, (1, 512, 5, 5))) == pytest.approx(0.3 * 12800**0.5)
        assert stress_slack(Conv2d(small, (1, 1, 3, 3), pass_=Pass.WGRAD)) == 15
        strict = Conv2d(small, (1, 1, 3, 3), pass_=Pass.WGRAD, accuracy="elementwise")  # type: ignore[arg-type]
        assert stress_slack(strict) == 1
        many = dataclasses.replace(strict, input=(32, 1, 58, 58))
        assert stress_slack(many) == pytest.approx(0.3 * 1568**0.5)

    def test_a_smaller_problem_differs_in_its_sizes_alone(self) -> None:
        for fields in (*FIELDS, *MIRRORED):
            problem = Conv2d(**{**fields, "input": (8, 4, 200, 300)}, pass_=Pass.WGRAD)
            small = smaller(problem)
            assert problem.is_resized(small)
            assert small.flops < (40_000 if "padding_mode" in fields else 20_000)  # with as much padding
            assert min(small.output_size) >= 1


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Handles of the streams entered, with a PyTorch whose GPU memory is host memory."""
    streams: list[int] = []

    @contextlib.contextmanager
    def stream(handle: int) -> Iterator[None]:
        streams.append(handle)
        yield

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: handle)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    # What the peer sets for its whole process.
    monkeypatch.setattr(torch.backends, "cudnn", types.SimpleNamespace(version=lambda: 91900))
    return streams


class TestPeer:
    @every_pass
    def test_is_right_in_every_set(self, pass_: Pass) -> None:
        layers = list(enumerate((*FIELDS[::2], *MIRRORED)))
        for number, fields in exhaustive.share(layers, list(Pass).index(pass_), 2):
            epilogue = {"bias": True, "relu": True} if pass_ is not Pass.WGRAD else {}
            problem = Conv2d(**fields, pass_=pass_, **epilogue)
            operands = drawn(problem)
            peer = torch_peer(problem, operands, DeviceKind.HOST, sets=2, channels_last=number % 3 == 0)
            expected, scale = reference(problem, operands)
            for index in (1, 0):
                peer.run(index)
            result = peer.result()
            assert result.shape == problem.output.shape
            assert (np.abs(result - expected) <= 1e-6 * scale).all(), problem.key()

    @every_pass
    def test_on_a_gpu_is_cudnn_without_tf32_on_the_stream_it_is_given(
        self, pass_: Pass, as_on_a_gpu: list[int]
    ) -> None:
        problem = Conv2d(**FIELDS[0], pass_=pass_)
        peer = torch_peer(problem, drawn(problem), DeviceKind.CUDA)
        assert peer.name == f"cudnn 91900 through torch {torch.__version__} conv2d {pass_}"
        assert torch.backends.cudnn.allow_tf32 is False
        peer.run(0, 77)
        assert as_on_a_gpu == [77]
        assert peer.result().shape == problem.output.shape

    @every_pass
    def test_computes_in_the_layout_that_it_is_given(self, pass_: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[bool] = []

        def noted(*given: Any) -> Any:
            tensors = [each for each in given if isinstance(each, torch.Tensor)]
            seen.extend(each.is_contiguous(memory_format=torch.channels_last) for each in tensors)
            return function(*given)

        where = torch.nn.functional if pass_ is Pass.FPROP else torch.ops.aten
        name = "conv2d" if pass_ is Pass.FPROP else "convolution_backward"
        function = getattr(where, name)
        monkeypatch.setattr(where, name, noted)
        problem = Conv2d(**FIELDS[0], pass_=pass_)
        for channels_last in (True, False):
            seen.clear()
            peer = torch_peer(problem, drawn(problem), DeviceKind.HOST, channels_last=channels_last)
            peer.run()
            assert seen
            assert set(seen) == {channels_last}
            assert peer.name.endswith(", channels last") is channels_last

    def test_says_where_it_is(self) -> None:
        problem = Conv2d(**FIELDS[0])
        assert torch_peer(problem, drawn(problem), DeviceKind.HOST).name.endswith("conv2d fprop on the CPU")
        if not torch.cuda.is_available():
            with pytest.raises(Unavailable, match="no GPU"):
                torch_peer(problem, drawn(problem), DeviceKind.CUDA)

    @pytest.mark.parametrize("layout", ImageLayout)
    @pytest.mark.parametrize("kind", DeviceKind)
    def test_is_the_only_library_and_needs_torch(self, kind: DeviceKind, layout: ImageLayout) -> None:
        """A GPU has both layouts, the problem's own first."""
        problem = Conv2d(**FIELDS[0], layout=layout)
        found = makers(problem, drawn(problem), kind)
        assert all(maker.packages == ("torch",) for maker in found)
        are_last = [maker.name.endswith(", channels last") for maker in found]
        own = layout is ImageLayout.NHWC
        if kind is DeviceKind.HOST:
            assert are_last == [own]
            assert found[0].make().name.startswith("torch")
            assert found[0].make().name.endswith(", channels last") is own
        else:
            assert are_last == [own, not own]

    @every_pass
    @pytest.mark.parametrize(("dtype", "tolerance"), HALF_TOLERANCES.items())
    def test_computes_in_the_type_of_the_data(self, dtype: DType, tolerance: float, pass_: Pass) -> None:
        for fields in FIELDS[:2]:
            problem = Conv2d(**fields, pass_=pass_, dtype=dtype, layout="nhwc", bias=pass_ is not Pass.WGRAD)
            operands = drawn(problem)
            peer = torch_peer(problem, operands, DeviceKind.HOST)
            assert peer.name.endswith(f"conv2d {pass_} in {dtype} on the CPU, channels last")
            assert peer.tolerance == tolerance
            peer.run()
            result = peer.result()
            assert result.dtype.name == dtype
            verdict = verify(result, Reference(*reference(problem, operands)), dtype, tolerance)
            assert verdict.right, verdict.message

    @pytest.mark.parametrize("precision", [each for each in Precision if each is not Precision.IEEE])
    def test_of_float32_data_in_less_than_float32_is_tf32_while_it_runs(
        self, precision: Precision, as_on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        problem = Conv2d(**FIELDS[0], precision=precision)
        peer = torch_peer(problem, drawn(problem), DeviceKind.CUDA)
        assert peer.name.endswith("conv2d fprop in tf32")
        assert peer.tolerance == TF32_TOLERANCE
        seen: list[bool] = []
        function = torch.nn.functional.conv2d

        def noted(*given: Any) -> Any:
            seen.append(torch.backends.cudnn.allow_tf32)
            return function(*given)

        monkeypatch.setattr(torch.nn.functional, "conv2d", noted)
        peer.run(0, 5)
        assert seen == [True]
        assert as_on_a_gpu == [5]
        assert torch.backends.cudnn.allow_tf32 is False

    def test_has_no_result_before_its_run(self) -> None:
        problem = Conv2d(**FIELDS[0])
        with pytest.raises(RuntimeError, match="has not run"):
            torch_peer(problem, drawn(problem), DeviceKind.HOST).result()

    def test_does_not_write_to_its_inputs(self) -> None:
        problem = dataclasses.replace(Conv2d(**FIELDS[0]), relu=True)
        operands = drawn(problem)
        kept = {name: values.copy() for name, values in operands.items()}
        torch_peer(problem, operands, DeviceKind.HOST).run()
        assert all(np.array_equal(values, kept[name]) for name, values in operands.items())
