"""Utility of synthetic records beside the original, for docs/synthesis.md.

``python -m tests.reference.synthesis adult.data`` prints the table; the file is the UCI Adult data.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from privpipe.transforms import Synthesize

__all__ = ["coefficients", "cramers_v", "figures", "strongest_pairs"]

NUMBERS = ["age", "fnlwgt", "education_num", "gain", "loss", "hours"]
TEXTS = ["workclass", "education", "marital", "occupation", "relationship", "race", "sex", "country", "income"]
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation", "relationship", "race"]
COLUMNS += ["sex", "gain", "loss", "hours", "country", "income"]
BOUNDS = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education_num": (1, 16), "gain": (0, 100_000), "loss": (0, 5000)}


def cramers_v(a: pd.Series, b: pd.Series) -> float:
    """Cramer's V of two columns; a missing value is a category."""
    counts = pd.crosstab(a.fillna("?"), b.fillna("?")).to_numpy()
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1)))


def strongest_pairs(frame: pd.DataFrame, most: int = 10) -> list[tuple[str, str]]:
    """The pairs of categories with the largest V."""
    pairs = list(itertools.combinations(TEXTS, 2))
    return sorted(pairs, key=lambda pair: -cramers_v(frame[pair[0]], frame[pair[1]]))[:most]


def coefficients(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Least squares of four outcomes on columns and dummies: name -> (coefficient, standard error)."""
    found = {}
    rich = (frame["income"] == ">50K").astype(float)
    for name, y in {
        "hours": frame["hours"],
        "rich": rich,
        "age": frame["age"],
        "years": frame["education_num"],
    }.items():
        own = {"years": "education_num"}.get(name, name)
        parts = [frame[[each for each in ("age", "education_num", "hours") if each != own]]]
        for column, levels in {
            "sex": ["Male"],
            "marital": ["Never-married", "Divorced", "Widowed", "Separated"],
            "race": ["Black", "Asian-Pac-Islander"],
            "occupation": ["Exec-managerial", "Prof-specialty", "Sales", "Craft-repair", "Other-service"],
        }.items():
            parts.append(pd.DataFrame({f"{column} {level}": (frame[column] == level) * 1.0 for level in levels}))
        X = pd.concat(parts, axis=1).fillna(0).astype(float)
        matrix = np.column_stack([np.ones(len(X)), X])
        inverse = np.linalg.pinv(matrix.T @ matrix)
        beta = inverse @ matrix.T @ y.fillna(0).to_numpy(float)
        rest = y.fillna(0).to_numpy(float) - matrix @ beta
        errors = np.sqrt(np.diag(inverse) * (rest @ rest) / (len(X) - matrix.shape[1]))
        found |= {f"{name} ~ {each}": (b, e) for each, b, e in zip(X, beta[1:], errors[1:], strict=True)}
    return found


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as they are, categories as codes of a fixed order."""
    made = frame[NUMBERS].astype(float)
    for name in TEXTS:
        made[name] = pd.Categorical(frame[name], categories=sorted(LEVELS[name])).codes
    return made


LEVELS: dict[str, list[str]] = {}


def figures(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float]:
    """Every figure of the table."""
    LEVELS.update({name: sorted(before[name].dropna().unique()) for name in TEXTS})
    kept = [cramers_v(after[a], after[b]) / cramers_v(before[a], before[b]) for a, b in strongest_pairs(before)]
    real, made = coefficients(before), coefficients(after)
    within = [abs(made[each][0] - b) <= 1.96 * e for each, (b, e) in real.items()]
    both = [abs(made[each][0] - b) <= 1.96 * np.hypot(e, made[each][1]) for each, (b, e) in real.items()]
    n = min(len(before), len(after))
    mixed = pd.concat([coded(before.head(n)), coded(after.head(n))])
    told = np.repeat([0, 1], n)
    model: Any = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
    scores = cross_val_predict(model, mixed, told, cv=3, method="predict_proba")[:, 1]
    x = [name for name in coded(before) if name != "income"]
    half = np.arange(len(before)) % 2 == 0
    truth = (before["income"] == ">50K").to_numpy()
    test = coded(before)[x][~half]
    auc = {}
    for name, frame in (("real", before[half]), ("synthetic", after)):
        fitted = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
        fitted.fit(coded(frame)[x], frame["income"] == ">50K")
        auc[name] = float(roc_auc_score(truth[~half], fitted.predict_proba(test)[:, 1]))
    return {
        "V kept, least of ten": min(kept),
        "V kept, mean of ten": float(np.mean(kept)),
        "coefficients within the original's 95 % limits": float(np.mean(within)),
        "coefficients within limits of their difference": float(np.mean(both)),
        "pMSE of a tree (0 best, 0.25 worst)": float(np.mean((scores - 0.5) ** 2)),
        "AUC, trained on real": auc["real"],
        "AUC, trained on synthetic": auc["synthetic"],
        **{
            f"deviation of {name}, over the original's": float(after[name].std() / before[name].std())
            for name in NUMBERS
        },
    }


def main(path: str, *only: str) -> None:
    """Print the figures of each method, or of those that are named."""
    frame = pd.read_csv(path, names=COLUMNS, skipinitialspace=True, na_values="?")
    domains: dict[str, Any] = {name: {"low": low, "high": high} for name, (low, high) in BOUNDS.items()}
    domains["hours"] = {"low": 0, "high": 100}
    domains |= {name: {"levels": sorted(frame[name].dropna().unique())} for name in TEXTS}
    private = {"method": "marginals", "epsilon": 2.0, "delta": 1e-6, "domains": domains}
    table = {}
    methods: dict[str, Any] = {"cart": {}, "copula": {"method": "copula"}, "marginals": private}
    for name, parameters in methods.items():
        if only and name not in only:
            continue
        start = time.process_time()
        made = Synthesize.build(parameters).apply(frame, seed=bytes(range(32)))
        table[name] = {"CPU seconds": time.process_time() - start, **figures(frame, made)}
    print(pd.DataFrame(table).round(3).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
