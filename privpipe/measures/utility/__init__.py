"""Measures of information loss."""

from __future__ import annotations

from privpipe.measures.utility.loss_columns import register_loss

__all__ = ["register_loss"]
