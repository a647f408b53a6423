"""Attacks on what readers hold: published rows in their order with the public documents, of one release or of two."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import PrivpipeError
from privpipe.policy import Policy
from privpipe.running.verbs import release

if TYPE_CHECKING:
    import pandas as pd

    from privpipe.engines import Engine

__all__ = [
    "Finding",
    "Published",
    "TwoReleases",
    "aligned_by_order",
    "guessed_hashes",
    "joined_by_position",
    "joined_by_value",
    "ordered_rows",
    "source_figures",
    "two_releases",
    "unmasked",
]


STANDARD_ERRORS = 6.0
"""How far above chance a finding must be: one in 10^9 for each comparison."""
SHARE = 0.05
"""A share of the records whose values come back exactly that no chance explains."""
DIGITS = re.compile(r"[0-9a-f]{16,}")
CONSTANT_KEYS = (
    b"",
    b"privpipe",
    b"privpipe/strata",
    b"privpipe/commitment/1",
    b"privpipe/commitment/2",
    b"0",
    b"seed",
)


@dataclass(frozen=True)
class Finding:
    """Something that a reader learned beyond the released cells.

    Parameters
    ----------
    attack : str
    what : str
        Columns or place in a document; never a value.
    figure, chance : float
        What was found, and what guessing finds.
    """

    attack: str
    what: str
    figure: float
    chance: float = 0.0


@dataclass(frozen=True)
class Published:
    """A published folder as its readers see it.

    Parameters
    ----------
    rows : DataFrame
        In the order of the files, these by name.
    documents : mapping of name to document
        The JSON files of `_privpipe`.
    """

    rows: pd.DataFrame = field(repr=False)
    documents: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, folder: Path) -> Published:
        """Read a folder of Parquet files.

        Raises
        ------
        FileNotFoundError
            It holds none.
        """
        import pandas as pd

        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise FileNotFoundError(f"no Parquet file in {folder.name!r}")
        rows = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
        home = folder / "_privpipe"
        documents = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(home.glob("*.json"))}
        return cls(rows, documents)

    def without_blanks(self) -> pd.DataFrame:
        """The rows that hold anything but the mark."""
        nothing = (self.rows.isna() | (self.rows == "*")).all(axis=1)
        return self.rows[~nothing].reset_index(drop=True)


def joined_by_position(a: Published, b: Published) -> list[Finding]:
    """Whether row i of one release and row i of the other are equal more often than a chance order explains.

    Columns are compared by ranks, whole and without suppressed rows, forwards and backwards. Only columns that the
    released cells do not already join by themselves reveal something, so a column of both releases counts as well.
    """
    found = []
    for name, (x, y) in {
        "as they stand": (a.rows, b.rows),
        "without suppressed rows": (a.without_blanks(), b.without_blanks()),
        "backwards": (a.rows, b.rows[::-1].reset_index(drop=True)),
    }.items():
        rows = min(len(x), len(y))
        if rows < 30:
            continue
        for left in x.columns:
            for right in y.columns:
                z = _association(x[left].iloc[:rows], y[right].iloc[:rows])
                if z > STANDARD_ERRORS:
                    found.append(Finding("position", f"{left} ~ {right}, {name}", z, STANDARD_ERRORS))
    return found


def joined_by_value(a: Published, b: Published, columns: Iterable[str], key: str) -> list[Finding]:
    """Whether rows of two releases join one to one by a column, or by all, and are of the same record.

    Chance is the same join to the row whose value is the next one up or down: figures that two releases moved a little,
    each by separate draws, join neighbours as often.

    Parameters
    ----------
    columns : iterable of str
        Those that stages draw for.
    key : str
        A column that both release unchanged, by which it is known which rows are of one record.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"tag": range(40), "cost": np.arange(40) + 0.25})
    >>> a, b = Published(rows, {}), Published(rows.assign(cost=rows["cost"] * 2), {})
    >>> [found.figure for found in joined_by_value(a, a, ["cost"], "tag")], joined_by_value(a, b, ["cost"], "tag")
    ([1.0], [])
    """
    both = [name for name in columns if name in a.rows and name in b.rows]
    found = []
    for names in [*([name] for name in both), *([both] if len(both) > 1 else [])]:
        one, other = (each.rows[~each.rows.duplicated(names, keep=False)].dropna(subset=names) for each in (a, b))
        other = other.sort_values(names)
        share, *near = (
            float((one.merge(_moved(other, key, by), on=names)[[f"{key}_x", f"{key}_y"]].nunique(axis=1) == 1).sum())
            / min(len(a.rows), len(b.rows))
            for by in (0, 1, -1)
        )
        if share > max(near) + SHARE:
            found.append(Finding("value", " + ".join(names), share, max(near)))
    return found


def _moved(rows: pd.DataFrame, key: str, by: int) -> pd.DataFrame:
    """The rows with the key of the one that many places on."""
    return rows.assign(**{key: np.roll(rows[key].to_numpy(), by)})


def aligned_by_order(a: Published, b: Published) -> list[Finding]:
    """Whether the rows of two releases are in one order although some are in one of them alone.

    The longest common subsequence of the columns that both release unchanged, against shuffled rows.
    """
    common = [name for name in a.rows.columns if name in b.rows.columns and set(a.rows[name]) & set(b.rows[name])]
    if not common or min(len(a.rows), len(b.rows)) < 30:
        return []
    first, second = (_codes(release.rows[common].astype(str).agg("\0".join, axis=1)) for release in (a, b))
    shuffled = np.random.default_rng(0)
    chance = [_common_subsequence(first, shuffled.permutation(second)) for _ in range(12)]
    expected, spread = float(np.mean(chance)), max(float(np.std(chance)), 1.0)
    z = (_common_subsequence(first, second) - expected) / spread
    return [Finding("alignment", ", ".join(common), z, STANDARD_ERRORS)] if z > 2 * STANDARD_ERRORS else []


def _codes(texts: pd.Series) -> Ints:
    return np.array([int.from_bytes(hashlib.blake2b(t.encode(), digest_size=7).digest()) for t in texts], np.int64)


def _common_subsequence(x: Ints, y: Ints) -> int:
    """Length of the longest common subsequence, a row of the table at a time."""
    best = np.zeros(len(y) + 1, np.int64)
    for value in x:
        longer = np.where(y == value, best[:-1] + 1, best[1:])
        best[1:] = np.maximum.accumulate(np.maximum(longer, best[1:]))
    return int(best[-1])


def ordered_rows(release: Published, source: pd.DataFrame, key: str | None = None) -> list[Finding]:
    """Whether the order of rows reveals a cell, or (where `key` is released) the order of the source."""
    rows = release.without_blanks()
    if len(rows) < 30:
        return []
    import pandas as pd

    places = pd.Series(np.arange(len(rows)))
    found = []
    for column in rows.columns:
        z = _association(rows[column], places)
        if z > STANDARD_ERRORS:
            found.append(Finding("order", column, z, STANDARD_ERRORS))
    if key is not None and key in rows.columns and key in source.columns:
        at = {value: place for place, value in enumerate(source[key])}
        z = _association(rows[key].map(at), places)
        if z > STANDARD_ERRORS:
            found.append(Finding("order", "the source's order", z, STANDARD_ERRORS))
    return found


def unmasked(
    a: Published, b: Published, source: pd.DataFrame, ratios: Mapping[str, tuple[float, float]], key: str | None = None
) -> list[Finding]:
    """Original numbers got back by adding up the noisy columns of two releases with weights.

    Parameters
    ----------
    ratios : mapping of column to (float, float)
        The public variance ratios of the noise in either release.
    key : str, optional
        A released column by which rows are joined too, in addition to their positions.
    """
    found = []
    for column, (first, second) in ratios.items():
        if column not in a.rows or column not in b.rows:
            continue
        originals = np.sort(source[column].dropna().to_numpy(np.float64))
        for name, (x, y) in _aligned(a.rows, b.rows, column, key).items():
            if len(x) < 30:
                continue
            for weight in _weights(first, second):
                hits = _hits(originals, (x - weight * y) / (1 - weight))
                chance = _hits(originals, (x - weight * np.roll(y, 1)) / (1 - weight))
                if hits > chance + SHARE:
                    found.append(Finding("combination", f"{column}, {name}", hits, chance))
    return found


def guessed_hashes(release: Published, source: pd.DataFrame) -> list[Finding]:
    """Hashes in the public documents that hashing the source's content without a key gives again."""
    told = {text.lower() for text in _texts(release.documents) for text in DIGITS.findall(text.lower())}
    numbers = {number for number in _numbers(release.documents) if isinstance(number, int) and abs(number) > 2**31}
    published = _content(release.rows)
    found = []
    lengths = sorted({len(text) for text in told})
    for content in _content(source) - published:
        for digest in _digests(content):
            if any(digest[:length] in told for length in lengths):
                found.append(Finding("hash", "a hash of source content", 1.0))
            words = {int.from_bytes(bytes.fromhex(digest[:16]), order, signed=True) for order in ("big", "little")}
            if numbers & words:
                found.append(Finding("hash", "a number hashed from source content", 1.0))
    return found


def source_figures(release: Published, source: pd.DataFrame) -> list[Finding]:
    """Moments, ends, quartiles and single values of source columns that are in the public documents."""
    shown = {float(n) for n in _numbers(release.documents) if isinstance(n, float) and n not in (0.0, 0.5, 1.0)}
    known = {number for column in release.rows.columns for number in _figures(release.rows[column])}
    stated = {float(n) for n in _numbers(release.documents.get("manifest", {}).get("policy", {}))}
    found = []
    for column in source.columns:
        for figure in _figures(source[column]):
            if any(math.isclose(figure, number, rel_tol=1e-9) for number in shown - known - stated):
                found.append(Finding("figure", column, 1.0))
    return found


def _association(x: pd.Series, y: pd.Series) -> float:
    """|Spearman's rho| in standard errors of independent columns; categories are ranked by their text."""
    first, second = _ranks(x), _ranks(y)
    known = ~(np.isnan(first) | np.isnan(second))
    if known.sum() < 30 or np.ptp(first[known]) == 0 or np.ptp(second[known]) == 0:
        return 0.0
    rho = float(np.corrcoef(first[known], second[known])[0, 1])
    return abs(rho) * math.sqrt(float(known.sum()) - 1)


def _ranks(column: pd.Series) -> Floats:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column):
        column = column.astype("string")
    return np.asarray(column.rank(method="average"), np.float64)


def _aligned(a: pd.DataFrame, b: pd.DataFrame, column: str, key: str | None) -> dict[str, tuple[Floats, Floats]]:
    rows = min(len(a), len(b))
    found = {"by position": (a[column].iloc[:rows], b[column].iloc[:rows])}
    if len(a) == len(b):
        found["by rank"] = (a[column].sort_values(), b[column].sort_values())
    if key is not None and key in a and key in b:
        both = a[[key, column]].dropna().merge(b[[key, column]].dropna(), on=key)
        found["by key"] = (both[f"{column}_x"], both[f"{column}_y"])
    return {name: (np.asarray(x, np.float64), np.asarray(y, np.float64)) for name, (x, y) in found.items()}


def _weights(first: float, second: float) -> list[float]:
    """Weights that cancel a draw that both releases scaled, as deviations or as variances, or took unchanged."""
    ratios = [first / second, math.sqrt(first / second)]
    return [ratio for ratio in (*ratios, -1.0) if not math.isclose(ratio, 1.0)]


def _hits(originals: Floats, guesses: Floats) -> float:
    """Share of the guesses that are an original value to a millionth."""
    guesses = guesses[~np.isnan(guesses)]
    if not len(guesses) or not len(originals):
        return 0.0
    at = np.clip(np.searchsorted(originals, guesses), 1, len(originals) - 1) if len(originals) > 1 else None
    near = originals[[0]] if at is None else np.where(
        np.abs(originals[at] - guesses) < np.abs(originals[at - 1] - guesses), originals[at], originals[at - 1]
    )  # fmt: skip
    return float(np.mean(np.abs(near - guesses) <= 1e-6 * np.maximum(1.0, np.abs(near))))


def _content(table: pd.DataFrame) -> set[str]:
    """Texts of cells, of rows and of neighbouring pairs of cells."""
    texts = {str(value) for column in table.columns for value in table[column].dropna().unique()}
    for row in table.astype(str).drop_duplicates().itertuples(index=False):
        texts.update(separator.join(row) for separator in ("", ",", "|", "\0"))
        texts.update(f"{left},{right}" for left, right in itertools.pairwise(row))
    return texts | {str(len(table))}


def _digests(content: str) -> Iterator[str]:
    raw = content.encode()
    for form in (raw, json.dumps(content).encode()):
        for algorithm in ("sha256", "sha1", "md5", "blake2b"):
            yield hashlib.new(algorithm, form).hexdigest()
        for key in CONSTANT_KEYS:
            yield hmac.new(key, form, hashlib.sha256).hexdigest()


def _figures(column: pd.Series) -> set[float]:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return set()
    values = column.dropna().to_numpy(np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return set()
    figures = [values.mean(), values.min(), values.max(), *np.quantile(values, [0.25, 0.5, 0.75])]
    figures += [values.std(), values.std(ddof=1)] if len(values) > 1 else []
    single = [value for value in np.unique(values) if value != int(value)] if len(values) < 100_000 else []
    return {float(figure) for figure in (*figures, *single) if figure != int(figure)}


def _texts(document: Any) -> Iterable[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(document, Sequence):
        for value in document:
            yield from _texts(value)


def _numbers(document: Any) -> Iterable[float | int]:
    if isinstance(document, Mapping):
        for value in document.values():
            yield from _numbers(value)
    elif isinstance(document, Sequence) and not isinstance(document, str):
        for value in document:
            yield from _numbers(value)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield document


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
