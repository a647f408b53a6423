"""The Spark engine: frame expressions and Arrow functions only, so that it works on classic Spark and Connect."""

from __future__ import annotations

from privpipe.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
