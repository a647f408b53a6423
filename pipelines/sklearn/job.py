"""Train a model on the Adult table masked column by column, once the masked table has passed.

    export PRIVPIPE_SEED="$(privpipe seed)"
    python pipelines/sklearn/job.py --target /tmp/adult-model

Each group of columns has its own stages: quasi-identifiers are generalized to levels, hours are top coded and masked
with noise. `pp.check` judges the masked table before the model sees it. Later records follow the same plans on their
way to the model. What is saved names the variable that keeps the seed, never the seed; it holds the plans, so it stays
where the source stays. Ends with privpipe's exit codes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import joblib
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.models import KAnonymity
from privpipe.sklearn import AddNoise, Generalize, TopCode

ADULT = Path(__file__).resolve().parents[1] / "adult"
KEYS = ["age", "sex", "education"]
HOURS = ["hours_per_week"]
SEED = {"from_env": "PRIVPIPE_SEED"}
ROLES = pp.Roles(quasi_identifiers=KEYS, sensitive=["income"], insensitive=HOURS)
HIERARCHIES = {name: ADULT / "hierarchies" / f"{name}.csv" for name in ("age", "education")}


def masking(age_level: int) -> ColumnTransformer:
    """The stages of each group of columns; levels are given, so that later records get the same labels."""
    levels, roles = {"age": age_level, "education": 1}, pp.Roles(quasi_identifiers=KEYS)
    keys = Generalize(levels=levels, roles=roles, hierarchies=HIERARCHIES, seed=SEED)
    hours = make_pipeline(
        TopCode(columns=HOURS, at=80, seed=SEED), AddNoise(columns=HOURS, variance_ratio=0.1, seed=SEED)
    )
    columns = ColumnTransformer([("keys", keys, KEYS), ("hours", hours, HOURS)], verbose_feature_names_out=False)
    return columns.set_output(transform="pandas")


def classifier() -> Pipeline:
    """A model of masked columns."""
    columns = ColumnTransformer(
        [("keys", OneHotEncoder(handle_unknown="ignore"), KEYS), ("hours", StandardScaler(), HOURS)]
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def main() -> int:
    parser = argparse.ArgumentParser(description="A model of the Adult table, trained on masked records.")
    parser.add_argument(
        "--target", required=True, type=Path, help="folder for the masked table, the model and its score"
    )
    parser.add_argument("--age-level", type=int, default=4, help="how far ages are generalized; 3 is refused")
    options = parser.parse_args()
    people = pd.read_csv(ADULT / "data" / "adult.csv", sep=";")[[*KEYS, *HOURS, "income"]]
    training, later = train_test_split(people, test_size=0.25, random_state=0)
    masks = masking(options.age_level)
    try:
        masked = masks.fit_transform(training).assign(income=training["income"])
        judged = pp.check(masked, [KAnonymity(k=5)], roles=ROLES)
        model = classifier().fit(masked[[*KEYS, *HOURS]], masked["income"])
        accuracy = model.score(masks.transform(later), later["income"])
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    options.target.mkdir(parents=True, exist_ok=True)
    masked.sort_values([*KEYS, *HOURS]).to_parquet(options.target / "masked.parquet", index=False)
    joblib.dump(make_pipeline(masks, model), options.target / "model.joblib")
    (options.target / "score.json").write_text(json.dumps({"accuracy": accuracy}), encoding="utf-8")
    print(f"{judged.records:,} masked records; the model is right about {accuracy:.1%} of later ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
