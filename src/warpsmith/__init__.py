"""A code-generating autotuner for convolutions, filters and small FFTs on NVIDIA GPUs.

import warpsmith as ws
p = ws.Filter2d(image=(9216, 9216), filter=(3, 3))
ws.tune(p)
y = ws.plan(p)(x, w)
"""

from __future__ import annotations

from warpsmith.api import export, load_bundle, plan, query, training_step, tune
from warpsmith.errors import AmbiguousBorder
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass, Precision
from warpsmith.generator.fft import Fft, Kind, Layout, Norm, Order, Tiling
from warpsmith.generator.filter1d import Activation, Filter1d, Gates, Mode, SignalLayout, SignalState
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType, Problem

__all__ = [
    "Activation",
    "AmbiguousBorder",
    "Border",
    "Cgemm",
    "Conv2d",
    "DType",
    "Fft",
    "Filter1d",
    "Filter2d",
    "Gates",
    "ImageLayout",
    "Kind",
    "Layout",
    "Mode",
    "Norm",
    "Op",
    "Order",
    "PaddingMode",
    "Pass",
    "Precision",
    "Problem",
    "SignalLayout",
    "SignalState",
    "Tiling",
    "export",
    "load_bundle",
    "plan",
    "query",
    "training_step",
    "tune",
]
