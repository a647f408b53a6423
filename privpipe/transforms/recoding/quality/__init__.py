"""Quality models as the search asks them: exact losses, bounds, sharper bounds below a checked node.

Their definitions lie with the kernels, where the report on a finished release reads them too.
"""

from __future__ import annotations

from privpipe.kernels.quality import Forced, QualityModel, normalised_score, quality_model
from privpipe.kernels.quality.loss import LossModel
from privpipe.transforms.recoding.quality.searched import searched_quality

__all__ = ["Forced", "LossModel", "QualityModel", "normalised_score", "quality_model", "searched_quality"]
