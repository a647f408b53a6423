"""What a run notes in its ledger of the noise it added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privpipe.judging.noise_memory import NoiseStage

if TYPE_CHECKING:
    from privpipe.draws import Draws
    from privpipe.transforms.base import StagePlan, Transformer
    from privpipe.transforms.noise.add_noise import AddNoise

__all__ = ["bare_columns", "noise_stage"]


def noise_stage(stage: AddNoise, made: StagePlan, draws: Draws, table: Any) -> NoiseStage:
    """The stage as it ran over a table.

    Nothing is taken to be left of orthogonal noise, which has no ratio, and of noise for outliers alone.
    """
    figures = made.detail.get("by_stratum") or [made.detail]
    return NoiseStage(
        table=table,
        columns=stage.columns,
        together=stage.kind == "correlated",
        ratio=stage.noise_ratio() or 0.0,
        spares_zeros=stage.keep_zeros or stage.kind == "multiplicative",
        unchanged=frozenset(column for each in figures for column in each["constant"]),
        key_ids={column: draws.key_id(column) for column in stage.columns},
    )


def bare_columns(schema: Any, stages: Sequence[Transformer]) -> tuple[str, ...]:
    """Released columns of numbers or dates that no stage names."""
    import pyarrow as pa

    if any(stage.taxon == "synthetic" and not stage.masked_columns() for stage in stages):
        return ()
    masked = {column for stage in stages for column in stage.masked_columns()}
    measured = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal)
    return tuple(
        field.name for field in schema if field.name not in masked and any(kind(field.type) for kind in measured)
    )
