"""Filters of one-dimensional signals: the problem and the families that solve it."""

from warpsmith.generator.filter1d.fields import Activation, Filter1dPass, Gates, SignalLayout, SignalState
from warpsmith.generator.filter1d.lags import Mode
from warpsmith.generator.filter1d.problem import Filter1d

__all__ = ["Activation", "Filter1d", "Filter1dPass", "Gates", "Mode", "SignalLayout", "SignalState"]
