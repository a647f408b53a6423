"""Two releases beside each other: what a reader who keeps everything learns from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import PrivpipeError
from privpipe.policy import Policy
from privpipe.running.verbs import release
from privpipe.testing.release_attacks import (
    Finding,
    Published,
    aligned_by_order,
    guessed_hashes,
    joined_by_position,
    joined_by_value,
    ordered_rows,
    source_figures,
    unmasked,
)

if TYPE_CHECKING:
    import pandas as pd

    from privpipe.engines import Engine

__all__ = ["TwoReleases", "two_releases"]


@dataclass(frozen=True)
class TwoReleases:
    """What became of two releases and of the attacks on them.

    Parameters
    ----------
    refused : tuple of str
        Kinds of error of the releases that were not published.
    findings : tuple of Finding
        What was learned beyond the released cells; must be empty.
    """

    refused: tuple[str, ...]
    findings: tuple[Finding, ...]


def two_releases(
    policy_a: Mapping[str, Any],
    policy_b: Mapping[str, Any],
    source_a: pd.DataFrame,
    source_b: pd.DataFrame,
    *,
    folder: Path,
    engine: str | Engine | None = None,
    key: str | None = None,
) -> TwoReleases:
    """Publish two releases and attack them with their published files alone.

    Joins by position and by value, weighted sums of noisy columns, order of rows, hashes and figures in the public
    documents. An
    attack finds something when it beats guessing by six standard errors, or by 5 % of the records recovered exactly.

    Parameters
    ----------
    policy_a, policy_b : mapping
        Policy documents; `source` and `sink` are filled in.
    source_a, source_b : DataFrame
        The two sources, which may be one and the same.
    folder : Path
        An empty folder to work in.
    engine : str or Engine, optional
    key : str, optional
        An insensitive column released by both, by which their rows are joined as any reader could.

    Returns
    -------
    TwoReleases

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd
    >>> people = pd.DataFrame({"zip": ["a", "b"] * 100, "income": np.arange(200) + 0.25})
    >>> policy = {
    ...     "columns": {"zip": {"role": "quasi_identifier"}, "income": {"role": "insensitive", "type": "number"}},
    ...     "transform": [{"add_noise": {"columns": ["income"], "variance_ratio": 0.1}}],
    ...     "guarantees": [{"k_anonymity": {"k": 5}}],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     two_releases(policy, policy, people, people, folder=Path(folder)).findings
    ()
    """
    made: list[tuple[Published, pd.DataFrame]] = []
    refused = []
    for name, policy, source in (("a", policy_a, source_a), ("b", policy_b, source_b)):
        path = folder / f"{name}.parquet"
        source.to_parquet(path, index=False)
        document = {
            "version": 1,
            **policy,
            "source": {"path": str(path)},
            "sink": {"path": str(folder / f"out_{name}")},
        }
        try:
            release(document, engine=engine)
        except PrivpipeError as error:
            refused.append(type(error).__name__)
            continue
        made.append((Published.read(folder / f"out_{name}"), source))
    findings: list[Finding] = []
    for published, source in made:
        findings += [*ordered_rows(published, source, key), *guessed_hashes(published, source)]
        findings += source_figures(published, source)
    if len(made) == 2:
        (a, _), (b, _) = made
        findings += [*joined_by_position(a, b), *aligned_by_order(a, b)]
        if key is not None and key in a.rows and key in b.rows:
            findings += joined_by_value(
                a, b, _drawn({"version": 1, **policy_a}) | _drawn({"version": 1, **policy_b}), key
            )
        findings += unmasked(a, b, source_a, _ratios(policy_a, policy_b), key)
    return TwoReleases(tuple(refused), tuple(findings))


def _ratios(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Variance ratios of the columns to which both policies add noise."""
    first, second = _noise(a), _noise(b)
    return {column: (first[column], second[column]) for column in first if column in second}


def _drawn(policy: Mapping[str, Any]) -> set[str]:
    """Columns that a stage draws for, and none gives the same result in every release."""
    stages = Policy.from_dict(policy).transform
    linking = {column for stage in stages if stage.links_releases for column in stage.masked_columns()}
    return {column for stage in stages for column in stage.drawn_columns()} - linking


def _noise(policy: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for stage in policy.get("transform", ()):
        for parameters in (stage[name] for name in stage if name == "add_noise"):
            ratio = parameters.get("variance_ratio") or parameters["relative_sd"] ** 2
            found.update(dict.fromkeys(parameters["columns"], float(ratio)))
    return found
