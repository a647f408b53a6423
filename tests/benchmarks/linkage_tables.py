"""Print the tables of docs/linkage.md: what linkage finds on Census and EIA, next to the published figures.

    python tests/benchmarks/linkage_tables.py --data ../shared > docs/linkage.md

The folder holds data/casc/census.csv and eia.csv, and reference/torra.json with the published tables. A minute for the
swapped files; each learned distance may take `--seconds`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from privpipe.blocks import FilePair
from privpipe.draws import Draws, Seed
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.kernels.rank_swapping import swap_permutation
from privpipe.measures import LearnedLinkage, ProbabilisticLinkage, RecordLinkage, TransparencyAttack

Floats = NDArray[np.float64]
MOST = 6
SHARE = 0.02
SETS = {
    "M4-33": ((2, 3), (2, 3)),
    "M4-28": ((2, 2), (2, 8)),
    "M4-82": ((2, 8), (2, 2)),
    "M5-38": ((3, 3), (2, 8)),
    "M6-385": ((2, 3), (2, 8), (2, 5)),
    "M6-853": ((2, 8), (2, 5), (2, 3)),
}
LEARNED: dict[str, dict[str, Any]] = {
    "WM": {"distance": "weighted_mean"},
    "OWA": {"distance": "owa"},
    "CI": {"distance": "choquet"},
    "SB": {"distance": "bilinear"},
}


def files_of(x: Floats, y: Floats) -> FilePair:
    """Two aligned tables as an attack sees them."""
    sides = [pa.record_batch({f"c{j}": side[:, j] for j in range(side.shape[1])}) for side in (x, y)]
    ids = np.column_stack([np.arange(len(x)), np.zeros(len(x))]).astype(np.int64)
    return FilePair(original=sides[0], released=sides[1], ids=ids, records=len(x), released_records=len(x))


def swapped(x: Floats, p: float, key: int) -> Floats:
    """Each column swapped by itself, reading `skip`."""
    draws, y, w = Draws(Seed.insecure(key), 0, "rank_swap"), np.empty_like(x), round(p * 1e6) * len(x) // 10**6
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        pi = swap_permutation(len(x), w, draws.of(str(j)), partner="skip", segment=len(x))
        y[order, j] = x[order[pi], j]
    return y


def grouped(x: Floats, groups: tuple[tuple[int, int], ...]) -> Floats:
    """Columns microaggregated together, (columns, k) after (columns, k)."""
    y, at = x.copy(), 0
    for width, k in groups:
        part = x[:, at : at + width]
        labels = mdav_groups((part - part.mean(axis=0)) / part.std(axis=0, ddof=1), k)
        for j in range(width):
            y[:, at + j] = (np.bincount(labels, weights=part[:, j]) / np.bincount(labels))[labels]
        at += width
    return y


def swap_figures(x: Floats, p: float, keys: int) -> Floats:
    """RSLD, DLD, PLD and PLD by known pairs in percent: mean over keys and over the first 1 to 6 columns."""
    found = []
    for key in range(keys):
        y = swapped(x, p, key)
        for m in range(1, MOST + 1):
            files = files_of(x[:, :m], y[:, :m])
            names = tuple(f"c{j}" for j in range(m))
            attack = TransparencyAttack(method="rank_swap", p=p, sample=None)
            distance = RecordLinkage(direction="from_intruder", ties="any", sample=None)
            rules: dict[str, Any] = {name: {"rank": SHARE} for name in names}
            weights = ProbabilisticLinkage(agreement=rules, columns=names, sample=None, accept_unconverged=True)
            by_weight = weights.judge_files(files).observed
            shares = [entry.judge_files(files).observed["share"] for entry in (attack, distance)]
            found.append([*shares, by_weight["share"], by_weight["known"]])
    return 100 * np.mean(found, axis=0)


def swap_table(name: str, x: Floats, published: dict[str, list[float]], keys: int) -> Iterator[str]:
    yield f"| {name}, p | RSLD | published | DLD | published | PLD | PLD, known | published |"
    yield "|---|---|---|---|---|---|---|---|"
    for percent, (aware, distance, weight) in published.items():
        ours = swap_figures(x, int(percent) / 100, keys)
        yield (
            f"| {percent} % | {ours[0]:.1f} | {aware:.1f} | {ours[1]:.1f} | {distance:.1f} | {ours[2]:.1f} | "
            f"{ours[3]:.1f} | {weight:.1f} |"
        )


def learned_table(
    census: Floats, published: dict[str, list[float]], seconds: float, records: int, sets: list[str]
) -> Iterator[str]:
    yield "| set | AM | MD | " + " | ".join(LEARNED) + " | published: AM, MD, WM, CI, SB |"
    yield "|---" * (len(LEARNED) + 4) + "|"
    for name in sets:
        groups = SETS[name]
        x = census[:records, : sum(width for width, _ in groups)]
        files = files_of(x, grouped(x, groups))
        cells = []
        for metric in ("euclidean", "mahalanobis"):
            plain = RecordLinkage(metric=metric, direction="from_released", sample=None)  # type: ignore[arg-type]
            cells.append(f"{100 * plain.judge_files(files).observed['share']:.2f}")
        for parameters in LEARNED.values():
            entry = LearnedLinkage(**parameters, sample=None, time_limit_s=seconds)
            found = entry.judge_files(files).observed
            least, most = 100 * found["incumbent"], 100 * found["bound"]
            cells.append(f"{least:.2f}" if found["proved"] else f"{least:.2f} to {most:.2f}")
        yield f"| {name} | {' | '.join(cells)} | {', '.join(f'{figure:g}' for figure in published[name])} |"


def columns_of(path: Path, names: list[str] | None = None) -> Floats:
    table = pyarrow.csv.read_csv(path)
    return np.column_stack([table[name].to_numpy() for name in names or table.column_names]).astype(np.float64)


SWAPS = f"""# What linkage finds

Made by `python tests/benchmarks/linkage_tables.py`; figures in percent of right links. Published figures are those of
Torra's slides after Nin, Herranz, Torra (DKE 64, 2008) and Abril, Navarro-Arribas, Torra (Information Fusion, 2012 and
2015). They do not say which columns an intruder had nor, for probabilistic linkage, when two numbers agree. Differences
are left unchanged.

## Rank swapping, p = 2 to 20 %

Reading: partner uniform among the floor(p n) ranks above, and a record whose partner was swapped already keeps its
value (`partner: skip`); means over the first 1 to {MOST} columns. That reading was chosen, before privpipe was written,
as the one of 546 that comes closest to the published RSLD and DLD of Census; so closeness there confirms nothing. EIA
and PLD follow it without another choice.

RSLD: `transparency_attack`, which knows of the swap and its p. DLD: `record_linkage` from the intruder, `ties: any`.
PLD: `probabilistic_linkage`, where values agree if their ranks are at most {100 * SHARE:g} % of the records apart,
tolerated errors 0.01 each; "known": by weights estimated from the true pairs.
"""
LEARNING = """## Learned distances

Reading: the first 400 records of Census, the first columns in the order of the file, sampled first and then
microaggregated in the groups of the name (M4-82: two columns with k = 8, two with k = 2; MDAV); released records
look for originals, each file standardised by itself. AM: Euclidean, MD: Mahalanobis by the covariance of the true
differences. WM, OWA, CI (monotone measure) and SB (no condition on the matrix): `learned_linkage`, method exact. One
figure is a proved optimum; two are what was found and what no distance of the kind exceeds when the time ended.
"""
DIFFERENCES = """
What differs: AM is above the published figures throughout and WM on either side of them, furthest below on M5-38,
so the published sets were grouped in another way, not stated there. PLD falls off faster at p = 4 to 8 %: agreement
within 2 % of the ranks is our choice. DLD and RSLD of Census fall below the published ones from p = 14 % on, and RSLD
of EIA at p = 2 % by ten points; the readings tried elsewhere do not remove that either.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data/casc and reference/torra.json")
    parser.add_argument("--keys", type=int, default=2, help="swaps with different keys; 0: leave them out")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each learned distance; 0: leave them out")
    parser.add_argument("--records", type=int, default=400)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="microaggregated sets")
    options = parser.parse_args()
    published = json.loads((options.data / "reference" / "torra.json").read_text())
    casc, tables = options.data / "data" / "casc", published["slide_tables"]
    census, eia = columns_of(casc / "census.csv"), columns_of(casc / "eia.csv", published["eia_columns"])
    print(SWAPS)
    for name, x in (("census", census), ("eia", eia)) if options.keys else ():
        for line in swap_table(name.upper(), x, tables["rank_swap_RSLD_DLD_PLD"][name], options.keys):
            print(line, flush=True)
        print()
    if options.seconds > 0:
        print(LEARNING)
        published_sets = tables["learned_AM_MD_WM_CI_SB"]
        for line in learned_table(census, published_sets, options.seconds, options.records, options.sets):
            print(line, flush=True)
    print(DIFFERENCES, end="")


if __name__ == "__main__":
    main()
