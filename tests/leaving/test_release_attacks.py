"""The attacks find what was planted, and nothing where nothing is."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest

from privpipe.testing.release_attacks import (
    Published,
    aligned_by_order,
    guessed_hashes,
    joined_by_position,
    ordered_rows,
    source_figures,
    unmasked,
)


@pytest.fixture
def source() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=400)
    return pd.DataFrame(
        {
            "age": (40 + 10 * hidden).round(),
            "zip": np.where(hidden + rng.normal(size=400) > 0, "north", "south"),
            "income": (30_000 + 9_000 * hidden + rng.normal(size=400)).round(2),
        }
    )


def shuffled(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    return rows.sample(frac=1, random_state=seed, ignore_index=True)


def test_rows_in_one_order_are_joined_and_others_are_not(source: pd.DataFrame) -> None:
    a, b = Published(shuffled(source, 3)[["age"]], {}), Published(shuffled(source, 3)[["income"]], {})
    assert joined_by_position(a, b)
    assert not joined_by_position(a, Published(shuffled(source, 4)[["income"]], {}))


def test_missing_rows_do_not_hide_a_common_order(source: pd.DataFrame) -> None:
    ordered = shuffled(source, 3)
    kept = ordered[np.random.default_rng(2).random(400) > 0.05].reset_index(drop=True)
    assert aligned_by_order(Published(ordered, {}), Published(kept, {}))
    assert not aligned_by_order(Published(ordered, {}), Published(shuffled(kept, 5), {}))


def test_an_order_by_a_cell_or_by_the_source_is_seen(source: pd.DataFrame) -> None:
    tagged = source.assign(tag=np.random.default_rng(3).permutation(400))
    assert {each.what for each in ordered_rows(Published(tagged, {}), tagged, "tag")} == {"the source's order"}
    assert ordered_rows(Published(source.sort_values("age", ignore_index=True), {}), source)
    assert not ordered_rows(Published(shuffled(tagged, 6), {}), tagged, "tag")


@pytest.mark.parametrize("key", [None, "tag"])
def test_one_draw_at_two_scales_is_cancelled(source: pd.DataFrame, key: str | None) -> None:
    rng = np.random.default_rng(4)
    tagged = source.assign(tag=np.arange(400))
    z, sd = rng.normal(size=400), source["income"].std()

    def release(ratio: float, noise: np.ndarray, seed: int) -> Published:
        masked = tagged.assign(income=tagged["income"] + np.sqrt(ratio) * sd * noise)
        return Published(shuffled(masked, seed) if key else masked, {})

    ratios = {"income": (0.5, 1.0)}
    assert unmasked(release(0.5, z, 1), release(1.0, z, 2), source, ratios, key)
    assert not unmasked(release(0.5, z, 1), release(1.0, rng.normal(size=400), 2), source, ratios, key)


def test_hashes_and_figures_of_the_source_are_seen_and_those_of_the_release_are_not(source: pd.DataFrame) -> None:
    digest = hashlib.sha256(b"north").hexdigest()
    released = source[source["zip"] == "south"]
    assert guessed_hashes(Published(released, {"plan": {"seen": digest[:32]}}), source)
    assert not guessed_hashes(Published(source, {"plan": {"seen": digest}}), source)
    assert source_figures(Published(released, {"plan": {"mean": float(source["income"].mean())}}), source)
    assert not source_figures(Published(released, {"plan": {"mean": float(released["income"].mean())}}), source)
