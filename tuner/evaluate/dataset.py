"""Inputs of a problem on a device, with their float64 reference and the check of results against it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.executable import Executable
from warpsmith.devices.module import BoundLaunch
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import CompileError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Operand, Problem, Role
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.evaluate.buffers import POISON, GuardedBuffer, GuardedSets, poisons
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.evaluate.device_reference import (
    DeviceReference,
    WrongReference,
    sampled_count,
    sampled_indices,
)
from warpsmith.tuner.evaluate.timing import Work
from warpsmith.tuner.evaluate.verify import DeviceVerifier, Findings, device_verifier, verify, wrong_message
from warpsmith.tuner.faults import Faults, Part
from warpsmith.tuner.operations.judge import Judge, Operands, References
from warpsmith.tuner.operations.registry import QUICK_TERMS, is_quick, judge_of, references

Draw = Callable[[], Operands]
"""Function that returns the same inputs at each call."""
KEPT_BYTES = 1 << 20
"""Bytes of an input up to which it stays in host memory even if the reference lies on the device: kernels may take it
by value.
"""


class Dataset:
    """One draw of inputs in one or more identical sets of buffers, with guarded outputs and a float64 reference.

    Args:
        runtime: the device.
        problem: problem to compute.
        sets: number of buffer sets.
        guard_bytes: bytes of guard on each side of a buffer.
        compiler: compiler of the kernels that verify results on the device; None to verify on the host. If they do not
            compile, or the reference does not fit beside the buffers, results are verified on the host too.
        draw: returns the inputs, the same ones at each call; large inputs are drawn again when they are needed.
        slack: factor on the error bound for these inputs.
        judge: says what the results must be; None for the operation's own judge.
        lock: held while inputs go to the device, if another process times on it.
        checks: compare a sample of a reference computed on the device with the host's.
        verifies_there: verify results on the device if `compiler` allows it; False to do so only if the host cannot
            compute the reference.
        makes_there: compute the reference on the device if possible; None to do so only if the host takes long.
        faults: collects ways of computing the reference that failed and were replaced by another way.

    Raises:
        OutOfMemory: the buffers do not fit.
        DeviceError: the device failed.
        Exception: whatever the last way of computing the reference raises.
    """

    def __init__(
        self,
        runtime: Runtime,
        problem: Problem,
        sets: int,
        guard_bytes: int,
        compiler: Compiler | None,
        draw: Draw,
        slack: float = 1.0,
        judge: Judge[Any] | None = None,
        lock: DeviceLock | None = None,
        *,
        checks: bool = False,
        verifies_there: bool = True,
        makes_there: bool | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._compiler, self._faults = compiler, Faults() if faults is None else faults
        self._judge, self._lock = judge or judge_of(problem), lock or DeviceLock(None)
        self._runtime, self._outputs = runtime, problem.outputs
        self._problem, self._slack = problem, slack
        self.has_state = any(operand.role is Role.STATE for operand in problem.operands)
        """True if a run changes data that the next run reads."""
        self._verifiers: dict[str, DeviceVerifier] = {}
        self._references: References = {}
        self._made: DeviceReference | None = None
        with contextlib.ExitStack() as opened:
            self._opened = opened
            self._memory: dict[str, GuardedSets] = {}
            for operand in problem.operands:
                self._memory[operand.name] = GuardedSets(runtime, operand, guard_bytes, sets)
                opened.callback(self._memory[operand.name].free)
            self._sets: list[dict[str, GuardedBuffer]] = [
                {name: memory.buffers[i] for name, memory in self._memory.items()} for i in range(sets)
            ]
            if compiler is not None and verifies_there:
                self._verifiers = self._made_verifiers(compiler)
                if makes_there is None:  # for a small problem the host takes less time than a compilation
                    makes_there = not is_quick(problem, QUICK_TERMS, self._judge)
                self._made = self._made_reference(compiler) if makes_there else None
            self.draw(draw, checks=checks)
            self._opened = opened.pop_all()

    def _made_verifiers(self, compiler: Compiler) -> dict[str, DeviceVerifier]:
        """One verifier per output. If any of them cannot be made, an empty dict, because all buffers are checked either
        on the device or on the host.
        """
        names, made = [output.name for output in self._outputs], {}
        for output in self._outputs:
            bound = self._judge.error_bound(self._problem, output)
            verifier = device_verifier(self._runtime, compiler, self._sets, output, names, bound)
            if verifier is None:
                return {}
            self._opened.callback(verifier.close)
            made[output.name] = verifier
        return made

    def _made_reference(self, compiler: Compiler) -> DeviceReference | None:
        """Kernels that compute the reference on the device; None if there are none or they fail."""
        kernels = self._judge.kernels(self._problem)
        if kernels is None or kernels.why_not(self._problem) or not self._verifiers:
            return None
        verifier = self._verifiers[self._problem.output.name]
        inputs = {each.name: self._sets[0][each.name].address for each in self._problem.inputs}
        given = self._runtime, compiler, self._problem, kernels, inputs, verifier.reference, self._slack
        try:
            made = DeviceReference(*given)
        except (CompileError, LaunchError, OutOfMemory) as error:
            self._faults.add(Part.REFERENCE, "on the device", error)
            return None
        self._opened.callback(made.close)
        return made

    @property
    def is_made_on_device(self) -> bool:
        """True if the reference is computed on the device and lies only there."""
        return self._made is not None

    @property
    def operands(self) -> Operands:
        """The inputs. If some are too large to be kept, all of them are drawn again."""
        return self._draw() if self._kept.keys() < self._names else self._kept

    def draw(self, draw: Draw, *, checks: bool = False) -> None:
        """Replaces the inputs and computes their reference.

        With `checks`, a sample of a reference computed on the device is compared with the host's. If the device fails,
        the host computes the reference, and the other way round. Raises the exception of the last way.
        """
        operands = draw()
        self._draw, self._names = draw, operands.keys()
        self._kept: Operands = {}
        if self._made is not None:
            try:
                self._draw_there(operands, checks=checks)
                return
            except (CompileError, LaunchError, OutOfMemory, WrongReference) as error:
                self._faults.add(Part.REFERENCE, "on the device", error)
                self._made = None
        try:
            exact = references(self._problem, operands, self._judge)
        except Exception as error:
            if self._compiler is None:
                raise
            self._verifiers = self._verifiers or self._made_verifiers(self._compiler)
            self._made = self._made_reference(self._compiler)
            if self._made is None:
                raise
            self._faults.add(Part.REFERENCE, "on the host", error)
            self._draw_there(operands, checks=checks)
            return
        self._kept = operands
        # An error is divided by the scale, so a larger scale allows a larger error.
        self._references = {
            name: each if self._slack == 1.0 else dataclasses.replace(each, scale=each.scale * self._slack)
            for name, each in exact.items()
        }
        with self._lock:
            self._upload(operands)

    def _draw_there(self, operands: Operands, *, checks: bool) -> None:
        assert self._made is not None
        self._references = self._judge.copied(self._problem, operands)
        self._kept = {name: array for name, array in operands.items() if array.nbytes <= KEPT_BYTES}
        with self._lock:
            self._upload(operands)
            if checks:
                count = sampled_count(self._judge.terms(self._problem))
                indices = sampled_indices(self._problem.output, count)
                self._made.check(self._judge.samples(self._problem, operands, indices))

    def upload(self) -> None:
        """Writes the inputs, the guards and the reference again."""
        self._upload(self.operands)

    def _upload(self, operands: Operands) -> None:
        for name, array in operands.items():
            self._memory[name].poison()
            for buffers in self._sets:
                buffers[name].upload(array)
        for name, verifier in self._verifiers.items():
            if name in self._references:
                verifier.upload(self._references[name])
            elif self._made is not None:
                self._made.compute()
                self._sums = verifier.reference_sums()
            verifier.remember_inputs()

    def restore(self) -> None:
        """Uploads everything again if something changed, for example through a wrong kernel."""
        if not self._is_intact():
            self.upload()

    def _is_intact(self) -> bool:
        """True if nothing on the device changed. Checking this pays only if the reference was computed there."""
        if self._made is None:
            return False
        verifier = self._verifiers[self._problem.output.name]
        guards = (buffers[name].damage() for buffers in self._sets for name in self._names)
        return not verifier.changed_inputs() and verifier.reference_sums() == self._sums and not any(guards)

    def error_of(self, results: NDArray[Any] | Mapping[str, NDArray[Any]]) -> float:
        """Largest scaled error of what another library computed from the same inputs: a result, or several by name."""
        given = results if isinstance(results, Mapping) else {self._problem.output.name: results}
        return max(self._error_of(output, given[output.name]) for output in self._outputs if output.name in given)

    def _error_of(self, output: Operand, result: NDArray[Any]) -> float:
        if self._made is None:
            bound = self._judge.error_bound(self._problem, output)
            return verify(result, self._references[output.name], output.dtype, bound).max_error
        with self._lock:
            self._sets[0][output.name].poison()
            self._sets[0][output.name].upload(result)
            return self._verifiers[output.name].findings(POISON).max_error

    def bound(self, executable: Executable, workspaces: Callable[[], Mapping[str, int]]) -> Work:
        """Function that runs a program on buffer set i. `workspaces` is called once per set and returns workspace
        addresses.
        """
        by_value = executable.program.by_value
        given = self._kept if by_value <= self._kept.keys() else self.operands
        values = {name: array.tobytes() for name, array in given.items() if name in by_value}
        bound: list[BoundLaunch] = []
        for buffers in self._sets:
            addresses = {name: buffer.address for name, buffer in buffers.items()}
            bound.append(executable.bind(addresses, values, workspaces()))

        def run(index: int, /, stream: int | None = None) -> None:
            bound[index](stream)

        return run

    def check(self, run: Work) -> float | Failure:
        """Runs on set 0 and returns the largest scaled error of right results, or the failure."""
        error = 0.0
        for byte in dict.fromkeys(each for output in self._outputs for each in poisons(output.dtype)):
            self._fill(self._sets[0], byte)
            run(0)
            self._runtime.synchronize()
            for output in self._outputs:
                checked = self._checked(output, byte)
                if isinstance(checked, Failure):
                    return checked
                error = max(error, checked)
        return error

    def _fill(self, buffers: Mapping[str, GuardedBuffer], byte: int) -> None:
        """Fills the outputs of a set with `byte`; state outputs get their initial values."""
        for output in self._outputs:
            buffers[output.name].poison(byte)
            if output.role is Role.STATE:
                buffers[output.name].upload(self.operands[output.name])

    def _checked(self, output: Operand, byte: int) -> float | Failure:
        """Checks one result of set 0, which was filled with `byte` before the run."""
        verifier = self._verifiers.get(output.name)
        found = verifier.findings(byte) if verifier else None
        return found.max_error if found and found.right else self._diagnosed(output, 0, found)

    def poison_results(self) -> None:
        """Fills the results of all sets, so that elements that a run does not write are detected."""
        for output in self._outputs:
            self._memory[output.name].poison()
        if self.has_state:
            for buffers in self._sets:
                self._fill(buffers, POISON)

    def check_sets(self, numbers: Iterable[int]) -> tuple[int, Failure] | None:
        """First of the given sets whose results or inputs are wrong after runs on poisoned results, with the failure.

        A changed input counts as wrong.
        """
        checked = sorted(numbers)
        self._runtime.synchronize()
        for output in self._outputs:
            for number, findings in self._suspects(output, checked):
                found = self._diagnosed(output, number, findings)
                if isinstance(found, Failure):
                    return number, found
        for name, number in self._changed_inputs(checked):
            if difference := self._sets[number][name].difference(np.ascontiguousarray(self.operands[name])):
                return number, Failure(FailureKind.WRONG, f"changed its input {name}: {difference}")
        return None

    def _suspects(self, output: Operand, numbers: list[int]) -> list[tuple[int, Findings | None]]:
        """Sets whose result the device does not find right, with its findings; all sets if it cannot verify."""
        if output.name not in self._verifiers:
            return [(number, None) for number in numbers]
        findings = self._verifiers[output.name].findings_on_all()
        return [(number, findings[number]) for number in numbers if not findings[number].right]

    def _changed_inputs(self, numbers: list[int]) -> list[tuple[str, int]]:
        """Inputs that may have changed, each with its set number."""
        if not self._verifiers:
            written = {output.name for output in self._outputs}
            return [(name, number) for number in numbers for name in self._names if name not in written]
        changed = next(iter(self._verifiers.values())).changed_inputs()
        return [each for each in changed if each[1] in numbers]

    def _diagnosed(self, output: Operand, number: int, findings: Findings | None) -> float | Failure:
        """Largest scaled error of one result in a set, or the failure with its message."""
        for each, buffer in self._sets[number].items():
            if damage := buffer.damage():
                return Failure(FailureKind.OUT_OF_BOUNDS, f"{each}: {damage}")
        if self._made is not None and findings is not None and output.name not in self._references:
            return self._device_failure(output, number, findings)
        return self._checked_on_host(output, number)

    def _device_failure(self, output: Operand, number: int, findings: Findings) -> Failure:
        """Failure from the device's findings, if the reference lies only on the device."""
        name, verifier = output.name, self._verifiers[output.name]
        if verifier.reference_sums() != self._sums:
            return Failure(FailureKind.OUT_OF_BOUNDS, "it wrote into the float64 reference")
        if findings.written:
            return Failure(FailureKind.OUT_OF_BOUNDS, f"{name}: {findings.written} bytes written between the rows")
        worst, size = verifier.worst(number), output.components.size
        return Failure(FailureKind.WRONG, wrong_message(findings.wrong, size, worst.index, worst.got, worst.expected))

    def _checked_on_host(self, output: Operand, number: int) -> float | Failure:
        name = output.name
        result, between = self._sets[number][name].download()
        if between:
            return Failure(FailureKind.OUT_OF_BOUNDS, f"{name}: {between}")
        bound = self._judge.error_bound(self._problem, output)
        verdict = verify(result, self._references[name], output.dtype, bound)
        if not verdict.right:
            message = f"{name}: {verdict.message}" if len(self._outputs) > 1 else verdict.message
            return Failure(FailureKind.WRONG, message)
        if name in self._verifiers:  # a kernel has overwritten the reference there, and perhaps inputs
            self._verifiers[name].upload(self._references[name])
        return verdict.max_error

    def close(self) -> None:
        self._opened.close()
