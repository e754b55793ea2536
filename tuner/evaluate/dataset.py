"""Inputs of a problem on a device, and what is made of them held against their reference."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from warpsmith.devices.base import BoundLaunch, Compiler, Runtime
from warpsmith.devices.executable import Executable
from warpsmith.generator.problem import Problem
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.evaluate.buffers import GuardedBuffer, GuardedSets, poisons
from warpsmith.tuner.evaluate.device_verify import device_verifier
from warpsmith.tuner.evaluate.timing import Work
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.oracle import Operands, Reference, reference


class Dataset:
    """One draw of inputs in one or more sets of buffers, all alike, with guarded outputs and their float64 reference.

    Args:
        runtime: the device.
        problem: what is computed.
        sets: of buffers.
        guard_bytes: on each side of a buffer.
        compiler: of the kernels that verify results on the device; None to verify on the host. Where they do not
            compile, or the reference does not fit beside the buffers, results are verified on the host too.
        operands: the inputs.
        slack: how many times the error bound a result may be off on these inputs.

    Raises OutOfMemory where the buffers do not fit.
    """

    def __init__(
        self,
        runtime: Runtime,
        problem: Problem,
        sets: int,
        guard_bytes: int,
        compiler: Compiler | None,
        operands: Operands,
        slack: float = 1.0,
    ) -> None:
        self._runtime, self._output = runtime, problem.output
        self._problem, self._slack = problem, slack
        with contextlib.ExitStack() as opened:
            self._memory: dict[str, GuardedSets] = {}
            for operand in problem.operands:
                self._memory[operand.name] = GuardedSets(runtime, operand, guard_bytes, sets)
                opened.callback(self._memory[operand.name].free)
            self._sets: list[dict[str, GuardedBuffer]] = [
                {name: memory.buffers[i] for name, memory in self._memory.items()} for i in range(sets)
            ]
            self._verifier = device_verifier(runtime, compiler, self._sets, self._output) if compiler else None
            if self._verifier:
                opened.callback(self._verifier.close)
            self.draw(operands)
            self._opened = opened.pop_all()

    def draw(self, operands: Operands) -> None:
        """Takes other inputs."""
        self.operands = operands
        exact = reference(self._problem, operands)
        # An error is told in units of the scale, so that a larger one gives room.
        self.reference: Reference = dataclasses.replace(exact, scale=exact.scale * self._slack)
        self.upload()

    def upload(self) -> None:
        """Writes the inputs, the guards and the reference, whatever has become of them."""
        for name, array in self.operands.items():
            self._memory[name].poison()
            for buffers in self._sets:
                buffers[name].upload(array)
        if self._verifier:
            self._verifier.upload(self.reference)
            self._verifier.remember_inputs()

    def bound(self, executable: Executable, workspaces: Callable[[], Mapping[str, int]]) -> Work:
        """What runs a program on buffer set i; `workspaces` gives the addresses of each set's."""
        by_value = executable.program.by_value
        values = {name: array.tobytes() for name, array in self.operands.items() if name in by_value}
        bound: list[BoundLaunch] = []
        for buffers in self._sets:
            addresses = {name: buffer.address for name, buffer in buffers.items()}
            bound.append(executable.bind(addresses, values, workspaces()))

        def run(index: int, /, stream: int | None = None) -> None:
            bound[index](stream)

        return run

    def check(self, run: Work) -> float | Failure:
        """Runs on set 0. The largest scaled error of a right result, or what is wrong with it."""
        output = self._sets[0][self._output.name]
        error = 0.0
        for poison in poisons(self._output.dtype):
            output.poison(poison)
            run(0)
            self._runtime.synchronize()
            found = self._verifier.findings(poison) if self._verifier else None
            checked = found.max_error if found and found.right else self._checked_on_host(0)
            if isinstance(checked, Failure):
                return checked
            error = max(error, checked)
        return error

    def poison_results(self) -> None:
        """Fills the results of all sets, so that what a run does not write there is found."""
        self._memory[self._output.name].poison()

    def check_sets(self, numbers: Iterable[int]) -> tuple[int, Failure] | None:
        """Looks at the sets on which runs have written to poisoned results: the first that is not right, and why.

        So that inputs are changed counts as wrong.
        """
        checked = sorted(numbers)
        self._runtime.synchronize()
        if self._verifier is None:
            suspects, changed = checked, [(name, number) for number in checked for name in self.operands]
        else:
            findings = self._verifier.findings_on_all()
            suspects = [number for number in checked if not findings[number].right]
            changed = [each for each in self._verifier.changed_inputs() if each[1] in checked]
        for number in suspects:
            found = self._checked_on_host(number)
            if isinstance(found, Failure):
                return number, found
        for name, number in changed:
            if difference := self._sets[number][name].difference(np.ascontiguousarray(self.operands[name])):
                return number, Failure(FailureKind.WRONG, f"changed its input {name}: {difference}")
        return None

    def _checked_on_host(self, number: int) -> float | Failure:
        """The largest scaled error of the result that lies in a set, or what is wrong with it, in words."""
        buffers, name = self._sets[number], self._output.name
        result, between = buffers[name].download()
        damages = {each: buffer.damage() for each, buffer in buffers.items()}
        damages[name] = damages[name] or between
        for each, damage in damages.items():
            if damage:
                return Failure(FailureKind.OUT_OF_BOUNDS, f"{each}: {damage}")
        verdict = verify(result, self.reference, self._output.dtype)
        if not verdict.right:
            return Failure(FailureKind.WRONG, verdict.message)
        if self._verifier:  # some kernel has written into the reference there, and perhaps into inputs
            self._verifier.upload(self.reference)
        return verdict.max_error

    def close(self) -> None:
        """Gives the memory back."""
        self._opened.close()
