"""Which of Optuna's samplers searches."""

from __future__ import annotations

import enum


class SamplerChoice(enum.StrEnum):
    """The samplers that `--sampler` offers; docs/samplers.md compares them on recorded spaces."""

    ADDITIVE = "additive"
    """`AdditiveSampler`."""
    TPE = "tpe"
    """Tree-structured Parzen estimator: Watanabe 2023, arXiv 2304.11127."""
    GP = "gp"
    """Gaussian process with expected improvement; needs scipy and torch."""
    CMAES = "cmaes"
    """Covariance matrix adaptation over the places of values: Hansen 2016, arXiv 1604.00772; needs cmaes."""
    RANDOM = "random"
    """Draws configs at random."""
