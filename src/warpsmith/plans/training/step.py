"""What a training step is, however its passes are computed."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.match import Match
from warpsmith.plans.verified import Verification


class ChosenBy(enum.StrEnum):
    """What decided whether a training step keeps spectra."""

    CALLER = "caller"
    """`reuse` was given."""
    STORED = "stored"
    """Stored times, of all three passes either way."""
    MODEL = "model"
    """Times that are expected on a large GPU, since not all are stored."""
    KERNELS = "kernels"
    """The kernels: both ways are the same ones, but for the transforms that are left out, or nothing is known of their
    times."""
    NECESSITY = "necessity"
    """Spectra cannot be kept: the layer is not solved so, or its workspace is too small."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Whether a training step keeps spectra, and why."""

    reuse: bool
    by: ChosenBy
    reason: str
    """In one line, with the times that were compared."""


class TrainingStep(abc.ABC):
    """The forward pass of a layer and both gradients, called one after the other; `warpsmith.training_step` makes it.

    `y = step.fprop(x, w)`, then `dx = step.dgrad(dy)` and `dw = step.wgrad()`, in either order, one of them or both.
    What was given once is not given again: the gradients take x and w of the latest `fprop`, and the second gradient
    leaves dy out to say that it is the one that a gradient was given before. A dy that is given is always read.

    An array counts as it is at the call that it is given to. A step that keeps spectra (`choice.reuse`) needs no array
    after that call: change it at will, nothing changes. One that does not keeps x, w and dy until the next step begins,
    PyTorch's tensors themselves, of others copies: a pass that reads a tensor which was changed in place since is
    refused, as autograd does.

    Arrays, streams and graphs are those of plans. The passes of one step follow each other on one stream, or within
    one capture of a graph: kept spectra belong to it, and a gradient anywhere else raises BadArgument. Threads that
    call one step at the same time need streams of their own. Two steps have nothing in common.
    """

    def __init__(self, problems: Mapping[Pass, Conv2d], matches: Mapping[Pass, Match], choice: Choice) -> None:
        self.problems = problems
        """The three passes."""
        self.matches = matches
        """How the answer for each pass was found, with the stored record where there is one."""
        self.choice = choice
        """Whether spectra are kept, and why."""

    @property
    @abc.abstractmethod
    def workspace_bytes(self) -> int:
        """Memory that the step takes on each stream: kept spectra, if any, and the scratch memory of a call; not more
        than the layer's `workspace`. Copies of arrays are not counted."""

    @property
    @abc.abstractmethod
    def verified(self) -> Mapping[Pass, Verification]:
        """Whether results of each pass were compared with float64 sums on this device, and how far off they were."""

    @abc.abstractmethod
    def fprop(self, x: Any, w: Any, b: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """y of shape (N, K, P, Q). Arrays, options and errors are those of `Plan.__call__`.

        Args:
            x: (N, C, H, W).
            w: (K, C, R, S).
            b: (K,), where the layer has a bias.
            out: array to write to; None for a new one.
            stream: CUDA stream to launch on; None for the caller's current one.
        """

    @abc.abstractmethod
    def dgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """dx of shape (N, C, H, W), by w of the latest `fprop`.

        Args:
            dy: (N, K, P, Q); None for the one that a gradient was given since that `fprop`.
            out: as for `fprop`.
            stream: as for `fprop`.

        Raises:
            BadArgument: `fprop` was not called before, or no gradient was given a dy since; and as `Plan.__call__`.
        """

    @abc.abstractmethod
    def wgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """dw of shape (K, C, R, S), by x of the latest `fprop`; arguments and errors are those of `dgrad`."""


def no_fprop(pass_: Pass) -> str:
    """What is raised where a gradient comes before the forward pass."""
    return f"{pass_}: call fprop first, on the same stream, and within the same capture of a graph"


def no_dy(pass_: Pass) -> str:
    """What is raised where a gradient is to take a dy that none was given."""
    return f"{pass_}: give dy, which no gradient was given since fprop on this stream, or in this capture of a graph"


class TooLittleWorkspace(BadArgument):
    """A layer's workspace does not hold what a training step keeps."""


def too_little(needed: int, allowed: int) -> str:
    """Why spectra are not kept, in one line."""
    return (
        f"needs {needed} bytes of workspace for the spectra of x, w and dy and one call beside them; "
        f"the layer allows {allowed}"
    )
