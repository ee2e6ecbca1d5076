"""Filters, which turn observations into belief: the paper's psi(s, b, a, s').

Import from here; the submodules are internal.
"""

from seerax.filters.discrete import (
    HARDEST_EVIDENCE,
    Categorical,
    Factored,
    condition,
    entropies,
    evidence,
    log_odds,
    predict,
    spread,
)
from seerax.filters.gaussian import ExtendedKalman, Gaussian

__all__ = [
    "HARDEST_EVIDENCE",
    "Categorical",
    "ExtendedKalman",
    "Factored",
    "Gaussian",
    "condition",
    "entropies",
    "evidence",
    "log_odds",
    "predict",
    "spread",
]
