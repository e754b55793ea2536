"""Filters of one-dimensional signals: the problem and the families that solve it."""

from warpsmith.generator.filter1d.lags import Mode
from warpsmith.generator.filter1d.problem import Activation, Filter1d, SignalLayout
from warpsmith.generator.filter1d.words import Filter1dPass

__all__ = ["Activation", "Filter1d", "Filter1dPass", "Mode", "SignalLayout"]
