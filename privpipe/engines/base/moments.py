"""Exact moments as a reduction over rows, so that every engine reports the same bits."""

from __future__ import annotations

from privpipe.kernels.columns.scaled_numbers import scaled_numbers
from privpipe.kernels.sums.moments import ExactMoments

__all__ = ["ExactMoments", "scaled_numbers"]
