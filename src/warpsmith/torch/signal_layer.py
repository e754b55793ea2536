"""Filters of signals of one shape, forward and backward, by tuned plans or by PyTorch's own operations."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, SignalLayout
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Role
from warpsmith.plans.plan import Plan
from warpsmith.torch.answers import STORED, Answer, CachedAnswer
from warpsmith.torch.arguments import LeftToTorch, Source
from warpsmith.torch.tensors import call, usable

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
"""Gradients of signals, weights and bias; None for each one that is not needed."""


class Needed(NamedTuple):
    """Operands whose gradients are needed."""

    signal: bool
    weights: bool
    bias: bool


_ALIGNMENT = 16
"""Bytes at which an operand of a plan must begin."""
_TRANSFORM_TAPS = 256
"""Taps from which on PyTorch's transforms replace its sums, where PyTorch computes a filter."""
_SLOW_TAPS = {"filter1d_plain": _TRANSFORM_TAPS, "filter1d_gradients_plain": 33}
"""Families that solve every problem, term by term, and the taps from which on PyTorch is faster: its transforms, and
its sums of a weight's gradient, for which `filter1d_gradients_plain` reads a signal from global memory for each tap."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Outputs of a filter, and what is made of them."""

    first_lag: int
    """Sample under the first tap of the first output's window."""
    outputs: int
    down: int = 1
    """Samples from one output to the next."""
    convolve: bool = False
    activation: str | None = None
    precision: str = "ieee"
    """Precision of the filter and of the signal's gradient, a value of `Precision` that filters have."""

    @property
    def last_lag(self) -> int:
        return self.first_lag + (self.outputs - 1) * self.down


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Order and gaps of the dimensions of signals (batch, channels, samples) in memory."""

    layout: SignalLayout
    pitch: int | None = None
    """Elements from row to row, if there are gaps between rows."""

    @classmethod
    def of(cls, x: Tensor) -> Placement | None:
        """None if a plan cannot read the tensor as it lies in memory."""
        (batch, channels, samples), (batch_step, channel_step, step) = x.shape, x.stride()
        by_channels = SignalLayout.BCT, samples, channels, channel_step, step
        by_samples = SignalLayout.BTC, channels, samples, step, channel_step
        for layout, row, rows, pitch, inner in (by_channels, by_samples):
            if layout is SignalLayout.BTC and channels == 1:
                continue
            is_row = inner == 1 or row == 1
            pitch = pitch if rows > 1 else batch_step if batch > 1 else row
            if is_row and pitch >= row and (batch == 1 or batch_step == rows * pitch):
                return cls(layout, None if pitch == row else pitch)
        return None


def placed(x: Tensor) -> tuple[Tensor, Placement]:
    """Signals as a plan can read them; copied if they are not."""
    placement = Placement.of(x)
    if placement is not None and x.data_ptr() % _ALIGNMENT == 0:
        return x, placement
    return dense(x, SignalLayout.BCT if placement is None else placement.layout)


def dense(x: Tensor, layout: SignalLayout) -> tuple[Tensor, Placement]:
    """Signals without gaps in a layout, aligned; copied if they are not."""
    lying = x.mT if layout is SignalLayout.BTC else x
    lying = lying.contiguous()
    lying = lying.clone() if lying.data_ptr() % _ALIGNMENT else lying
    return (lying.mT if layout is SignalLayout.BTC else lying), Placement(layout)


class SignalLayer:
    """A filter of signals (batch, channels, samples) by weights (filters, taps), with or without a bias (channels,).

    Args:
        problem: the filter.
        source: device, fallback and store of the plans.
    """

    def __init__(self, problem: Filter1d, source: Source) -> None:
        self._problem, self._source = problem, source
        self._forward = CachedAnswer(problem, source)
        self._backward: dict[tuple[bool, bool, bool], CachedAnswer | None] = {}
        self._has_warned = False
        activation = None if problem.activation is None else str(problem.activation)
        self.slice = Slice(problem.first_lag, problem.result_length, problem.down, problem.convolve, activation)

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """The outputs, (batch, channels, outputs), in the layout of the signals."""
        answer = self._forward.get()
        if answer.plan is None:
            self._warn(answer)
        if answer.plan is None or self._is_slow(answer):
            return self._laid(composed(x, w, b, self.slice))
        found = results_of(answer.plan, {"signal": x, "weights": w, "bias": b})
        return self._signals(found["result"], self._problem.result_length)

    def gradients(self, dy: Tensor, x: Tensor, w: Tensor, b: Tensor | None, needed: Needed) -> Gradients:
        """The gradients that are needed, by plans, or by PyTorch where no plan computes them."""
        found: list[Tensor | None] = [None, None, None]
        dense_dy: Tensor | None = None
        for part, answer in self._gradient_answers(needed):
            if answer is None or answer.plan is None or self._is_slow(answer):
                dx, dw, db = composed_gradients(dy, x, w, b, self.slice, part)
                own: Gradients = (None if dx is None else self._laid(dx), dw, db)
            else:
                dense_dy = dense(dy, self._problem.layout)[0] if dense_dy is None else dense_dy
                own = self._planned_gradients(answer.plan, dense_dy, x, w, b, part)
            found = [old if new is None else new for old, new in zip(found, own, strict=True)]
        return found[0], found[1], found[2]

    def _planned_gradients(
        self, plan: Plan, dy: Tensor, x: Tensor, w: Tensor, b: Tensor | None, needed: Needed
    ) -> Gradients:
        given = {"signal": x, "weights": w, "bias": b, "gradient": dy}
        if isinstance(plan.problem, Filter1d) and not plan.problem.pass_.is_gradient:
            given["signal"] = dy  # the gradient of a signal is a filter of the gradient
        results = results_of(plan, given)
        dx = results.get("result", results.get("signal_gradient"))
        dw, db = results.get("weights_gradient"), results.get("bias_gradient")
        return (
            self._signals(dx, self._problem.signal) if needed.signal and dx is not None else None,
            dw.view(w.shape) if needed.weights and dw is not None else None,
            db if needed.bias else None,
        )

    def _gradient_answers(self, needed: Needed) -> list[tuple[Needed, Answer | None]]:
        """The answers that together compute these gradients: one for all, or one for each where families for long
        filters compute them apart. A bias' gradient is then PyTorch's sum.
        """
        whole = self._gradient_answer(needed)
        is_whole = whole is not None and whole.plan is not None and not self._is_slow(whole)
        parts = _apart(needed, self._problem.activation is None)
        if is_whole or len(parts) == 1:
            return [(needed, whole)]
        answers = [(part, self._gradient_answer(part) if part.signal or part.weights else None) for part in parts]
        if all(each is None or each.plan is None or self._is_slow(each) for _, each in answers):
            return [(needed, whole)]
        return answers

    def _gradient_answer(self, needed: Needed) -> Answer | None:
        """The answer for the pass that computes these gradients; None if there is no such problem."""
        if needed not in self._backward:
            of_weights = needed.weights or needed.bias
            pass_ = Filter1dPass.DGRAD if not of_weights else Filter1dPass.WGRAD
            pass_ = Filter1dPass.BACKWARD if of_weights and needed.signal else pass_
            bias = self._problem.bias and (needed.bias or self._problem.activation is not None)
            precision = Precision.IEEE if pass_ is Filter1dPass.WGRAD else self._problem.precision
            try:
                problem = dataclasses.replace(self._problem, pass_=pass_, bias=bias, precision=precision)
            except BadArgument:
                self._backward[needed] = None
            else:
                self._backward[needed] = CachedAnswer(problem, self._source)
        cached = self._backward[needed]
        return None if cached is None else cached.get()

    def _is_slow(self, answer: Answer) -> bool:
        """True if a default adds up a long filter term by term, where PyTorch has better ways."""
        assert answer.plan is not None
        is_default = answer.match is None or answer.match.kind not in STORED
        family = answer.plan.match.program.family
        return is_default and self._problem.taps >= _SLOW_TAPS.get(family, self._problem.taps + 1)

    def _signals(self, result: Tensor, samples: int) -> Tensor:
        problem = self._problem
        return rows_of(result, problem.layout, (problem.batch, problem.channels, samples))

    def _laid(self, y: Tensor) -> Tensor:
        """PyTorch's result in the layout of the signals."""
        return y.mT.contiguous().mT if self._problem.layout is SignalLayout.BTC else y.contiguous()

    def _warn(self, answer: Answer) -> None:
        if not self._has_warned:
            self._has_warned = True
            remedy = "tune it with warpsmith.tune, or take fallback='default'"
            text = f"PyTorch computes {self._problem.key()}: {answer.why_not}; {remedy}"
            warnings.warn(text, LeftToTorch, stacklevel=4)


def _apart(needed: Needed, is_linear: bool) -> list[Needed]:
    """Parts of gradients: the signal's, the weights', and the bias', which with an activation are one with those of
    the weights.
    """
    others = [needed._replace(signal=False)]
    if is_linear:
        others = [Needed(False, needed.weights, False), Needed(False, False, needed.bias)]
    return [each for each in (Needed(needed.signal, False, False), *others) if any(each)]


def rows_of(result: Tensor, layout: SignalLayout, shape: tuple[int, int, int]) -> Tensor:
    """A plan's result with the dimensions batch, channels and samples."""
    batch, channels, samples = shape
    if layout is SignalLayout.BTC:
        return result.view(batch, samples, channels).mT
    return result.view(batch, channels, samples)


def key_of(x: Tensor, w: Tensor, b: Tensor | None, placement: Placement, part: Slice) -> tuple[Any, ...]:
    """What the problem of a call depends on, and its device: making the problem at each call would take longer."""
    return x.shape, w.shape, x.dtype, w.dtype, b is None, placement, part, x.device


def problem_of(x: Tensor, w: Tensor, b: Tensor | None, placement: Placement, part: Slice, **states: Any) -> Filter1d:
    """The filter of signals (batch, channels, samples) by weights (filters, taps), with the fields of its states."""
    batch, channels, samples = x.shape
    return Filter1d(
        signal=samples,
        taps=w.shape[1],
        batch=batch,
        channels=channels,
        filters=len(w),
        layout=placement.layout,
        dtype=x.dtype,  # type: ignore[arg-type]  # its name counts
        lags=(part.first_lag, part.last_lag),
        down=part.down,
        convolve=part.convolve,
        taps_dtype=w.dtype,  # type: ignore[arg-type]
        pitch=None if placement.pitch is None else placement.pitch * x.element_size(),
        bias=b is not None,
        activation=part.activation,  # type: ignore[arg-type]
        precision=part.precision,  # type: ignore[arg-type]
        **states,
    )


def results_of(plan: Plan, given: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """Results of a plan by name, from operands by name."""
    found = call(plan, *operands_of(plan, given))
    names = [each.name for each in plan.problem.outputs if each.role is Role.OUTPUT]
    return dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))


def operands_of(plan: Plan, given: Mapping[str, Tensor | None]) -> list[Tensor]:
    """Operands of a plan from tensors by name: views without dimensions of 1. A state stays the caller's memory."""
    operands = []
    for operand in plan.problem.inputs:
        x = given[operand.name]
        assert x is not None
        x = x.detach() if x.requires_grad or type(x) is not Tensor else x
        if operand.name in ("weights", "bias"):
            by_value = operand.name in plan.match.program.by_value
            x = (x.cpu() if by_value else usable(x)).reshape(operand.shape)
        else:
            x = x.as_strided(operand.shape, operand.element_strides)
        operands.append(x)
    return operands


def composed(x: Tensor, w: Tensor, b: Tensor | None, part: Slice) -> Tensor:
    """The filter by PyTorch's operations, which record derivatives themselves."""
    channels, samples, taps = x.shape[1], x.shape[2], w.shape[1]
    w = w.to(x.device, x.dtype)
    filters = w.flip(-1) if part.convolve else w
    if len(w) != channels:
        filters = filters.repeat_interleave(channels // len(w), 0)
    left, right = -part.first_lag, part.last_lag + taps - samples
    padded = functional.pad(x, (left, right))
    if taps < _TRANSFORM_TAPS or not x.dtype.is_floating_point:
        # oneDNN's float16 convolution does not return with 16 taps on CPUs with AVX-512 FP16 (PyTorch 2.13).
        number = torch.float32 if x.dtype is torch.float16 and x.device.type == "cpu" else x.dtype
        of_number = padded.to(number), filters[:, None].to(number)
        y = functional.conv1d(*of_number, None, part.down, groups=channels).to(x.dtype)
    else:
        size, wide = padded.shape[-1], torch.promote_types(x.dtype, torch.float32)
        spectra = [torch.fft.rfft(each.to(wide), size) for each in (padded, filters)]
        y = torch.fft.irfft(spectra[0] * spectra[1].conj(), size)[..., : size - taps + 1 : part.down].to(x.dtype)
    y = y if b is None else y + b.to(x.device, x.dtype)[:, None]
    return functional.silu(y) if part.activation is not None else y


def composed_gradients(dy: Tensor, x: Tensor, w: Tensor, b: Tensor | None, part: Slice, needed: Needed) -> Gradients:
    """The gradients that are needed, by PyTorch's operations, which record derivatives if they are asked for."""
    if b is not None and needed == Needed(False, False, True) and part.activation is None:
        return None, None, dy.sum((0, 2)).to(b.device, b.dtype)  # no filter is computed for it
    is_recorded = torch.is_grad_enabled()
    given = [None if each is None else each if each.requires_grad else each.detach() for each in (x, w, b)]
    wanted = [each for each, is_needed in zip(given, needed, strict=True) if is_needed and each is not None]
    with torch.enable_grad():
        again = [each if each is None or each.requires_grad else each.requires_grad_() for each in given]
        y = composed(again[0], again[1], again[2], part)  # type: ignore[arg-type]  # x and w are tensors
        found = iter(torch.autograd.grad(y, wanted, dy, create_graph=is_recorded))
    dx, dw, db = (next(found) if is_needed else None for is_needed in needed)
    return dx, dw, db
