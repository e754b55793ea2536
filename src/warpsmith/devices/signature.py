"""Facts that all calls of one program share: the arrays that a caller passes, and how kernels take them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.module import CallArguments
from warpsmith.devices.tensors import check_tensor, torch_of
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType, Operand, Problem, Role
from warpsmith.generator.program import Program, Texture


def weights_bytes(w: object, operand: Operand) -> bytes:
    """Small inputs that a kernel takes by value, as bytes in host memory, rounded to the operand's dtype.

    Args:
        w: nested lists, or an array of any library and device, of real numbers, or of complex ones for a complex
            operand. Its shape is the operand's, or it lists the operand's elements in row order. An array on a GPU is
            copied to the host, which waits.
        operand: shape and dtype.

    Raises:
        BadArgument: another shape, or no such numbers.
    """
    array = _on_host(w, operand)
    is_complex = operand.dtype is DType.COMPLEX64 and array.dtype.kind == "c"
    if array.dtype.kind not in "fiub" and array.dtype.name != DType.BFLOAT16.value and not is_complex:
        raise BadArgument(f"{operand.name}: expected real numbers; got {array.dtype}")
    if array.shape not in (operand.shape, (operand.size,)):
        raise BadArgument(f"{operand.name}: expected shape {operand.shape}; got {array.shape}")
    return array.astype(numpy_dtype(operand.dtype)).tobytes()


def _on_host(x: Any, operand: Operand) -> np.ndarray[Any, Any]:
    """Any array or nested list as a NumPy array."""
    torch = torch_of(x)
    if torch is not None:
        check_tensor(torch, x, operand.name)
    try:
        if torch is not None:
            x = x.detach().resolve_conj().resolve_neg().cpu()
            x = (x.float() if x.dtype is torch.bfloat16 else x).numpy()  # NumPy has no bfloat16 of PyTorch's
        elif hasattr(x, "__cuda_array_interface__") and hasattr(x, "get"):  # CuPy, PyCUDA
            x = x.get()
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadArgument(f"{operand.name}: cannot be read as an array of numbers ({reason})") from None


TEXTURE_ALIGNMENT = 512
"""Bytes: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT of every GPU so far. On the host a texture may start anywhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class CallerOperand:
    """An operand that the caller passes."""

    place: int
    """Index among the caller's arrays."""
    operand: Operand


@dataclasses.dataclass(frozen=True, slots=True)
class FixedOperand:
    """An operand whose values are the same for all calls."""

    operand: Operand
    content: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """A program's operands by how kernels take them, each in the order of `Problem.inputs`."""

    operation: str
    caller_inputs: tuple[str, ...]
    """Names of the arrays that the caller passes, in order."""
    fixed_inputs: tuple[str, ...]
    """Names of the inputs that the caller does not pass."""
    by_value: tuple[CallerOperand | FixedOperand, ...]
    """Inputs that kernels take by value."""
    pointed: tuple[CallerOperand, ...]
    """Inputs that kernels take by address."""
    outputs: tuple[Operand, ...]
    """Results of a call, in order."""
    textured: frozenset[str]
    """Names of the operands that kernels read through a texture."""
    copied: frozenset[str] = frozenset()
    """Names of the inputs that are copied to the device if the caller has them in host memory."""

    @classmethod
    def of(cls, problem: Problem, program: Program, fixed: Mapping[str, bytes] | None = None) -> Signature:
        """Signature of a program for a problem. Raises BadArgument if the values that the problem fixes do not fit.

        Args:
            problem: the problem.
            program: the program that computes it.
            fixed: bytes of further inputs that are fixed for all calls, by name.
        """
        contents = {name: functools.partial(weights_bytes, values) for name, values in problem.known.items()}
        contents |= {name: functools.partial(_content, content) for name, content in (fixed or {}).items()}
        outputs = tuple(each for each in problem.operands if each.role is Role.OUTPUT)
        return cls._made(
            problem, program, [each for each in problem.inputs if each.name not in contents], contents, outputs
        )

    @classmethod
    def of_inputs(cls, problem: Problem, program: Program, names: Collection[str]) -> Signature:
        """Signature of a program that takes only these inputs of a problem, and writes only workspaces."""
        return cls._made(problem, program, [each for each in problem.inputs if each.name in names], {}, ())

    @classmethod
    def _made(
        cls,
        problem: Problem,
        program: Program,
        inputs: list[Operand],
        contents: Mapping[str, Callable[[Operand], bytes]],
        outputs: tuple[Operand, ...],
    ) -> Signature:
        passed = [CallerOperand(place, operand) for place, operand in enumerate(inputs)]
        places = {each.operand.name: each for each in passed}
        arguments = (argument for launch in program.launches for argument in launch.arguments)
        by_value, pointed_to = program.by_value, program.pointed_to
        return cls(
            operation=problem.operation,
            caller_inputs=tuple(operand.name for operand in inputs),
            fixed_inputs=tuple(contents),
            by_value=tuple(
                places.get(each.name) or FixedOperand(each, contents[each.name](each))
                for each in problem.inputs
                if each.name in by_value
            ),
            pointed=tuple(each for each in passed if each.operand.name in pointed_to),
            outputs=outputs,
            textured=frozenset(argument.buffer for argument in arguments if isinstance(argument, Texture)),
            copied=problem.from_host,
        )

    @property
    def is_usual(self) -> bool:
        """True if a call writes results, one or several; it may also write a state."""
        return bool(self.outputs)

    @property
    def arguments(self) -> CallArguments:
        """Arguments of a call: addresses of inputs, then of outputs, and bytes."""
        buffers = tuple(each.name for each in self._in_memory)
        return CallArguments(buffers, tuple(each.operand.name for each in self.by_value))

    @property
    def _in_memory(self) -> tuple[Operand, ...]:
        return (*(each.operand for each in self.pointed), *self.outputs)

    def check_count(self, count: int) -> None:
        """Raises BadArgument unless `count` is the number of arrays that a caller must pass."""
        if count == len(self.caller_inputs):
            return
        names, fixed = ", ".join(self.caller_inputs), ", ".join(self.fixed_inputs)
        if fixed:
            raise BadArgument(f"this plan was made for known {fixed}: call it with the {names} alone")
        raise BadArgument(f"a plan of {self.operation} takes {names}; got {count} arrays")

    def check_apart(self, addresses: tuple[int, ...]) -> None:
        """Raises BadArgument if a result overlaps an input or another result.

        Args:
            addresses: addresses of the pointed-to inputs, then of the outputs.
        """
        lying = tuple(zip(self._in_memory, addresses, strict=True))
        for number, (written, target) in enumerate(lying):
            if written.role is Role.INPUT:
                continue
            for other, source in (*lying[:number], *lying[number + 1 :]):
                if source < target + written.span_bytes and target < source + other.span_bytes:
                    name = "out" if len(self.outputs) == 1 and written.role is Role.OUTPUT else written.name
                    raise BadArgument(f"{name}: shares memory with {other.name}; give it memory of its own")


def _content(content: bytes, _: Operand) -> bytes:
    return content
