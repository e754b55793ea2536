"""Choice of the sampler that searches."""

from __future__ import annotations

import enum


class SamplerChoice(enum.StrEnum):
    """The samplers that `--sampler` offers; docs/guide/samplers.md compares them on recorded spaces."""

    ADDITIVE = "additive"
    """Additive model of log time; see `AdditiveSampler`."""
    TPE = "tpe"
    """Tree-structured Parzen estimator: Watanabe 2023, arXiv 2304.11127."""
    GP = "gp"
    """Gaussian process with expected improvement; needs scipy and torch."""
    CMAES = "cmaes"
    """Covariance matrix adaptation over the indices of values: Hansen 2016, arXiv 1604.00772; needs cmaes."""
    RANDOM = "random"
    """Random configs."""
