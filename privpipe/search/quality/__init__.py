"""Quality models: what a vector of levels costs, exactly and as a bound that needs no grouping."""

from __future__ import annotations

from privpipe.search.quality.loss import LossModel
from privpipe.search.quality.model import Forced, QualityModel

__all__ = ["Forced", "LossModel", "QualityModel"]
