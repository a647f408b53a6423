"""The Spark engine: frame expressions and Arrow functions only, so that classic and Connect serve alike."""

from __future__ import annotations

from privpipe.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
