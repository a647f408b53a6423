"""Every primitive once on one small table, printed as text: run in separate processes, and compared between engines.

As a script: ``every_primitive.py FOLDER OPTIONS`` opens the Spark engine with these options (JSON) and prints what
was found; with ``fail`` as third word it also runs what must go wrong.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.blocks import ClassQuery, Facts, FactsRequest, PairBlock, RankExchange, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.base.contract import fingerprint
from privpipe.errors import PrivpipeError
from privpipe.judging.rules import Composite
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness

CANARY = "Zanzibar"
"""Part of every text value of the table, and of no name."""
NUMBER = 5557773331
"""Near every integer value of the table."""
SECRET = "a seed no one may see"
STREAM = Stream(b"sixteen bytes...")


def canary_table(rows: int = 300) -> pa.Table:
    """A table whose every value can be found again in a text."""
    rng = np.random.default_rng(5)
    texts = [f"{CANARY}-{at}" for at in range(6)]
    return pa.table(
        {
            "zip.code": pa.array(rng.choice(texts, rows), mask=rng.random(rows) < 0.1),
            "year": pa.array(NUMBER + rng.integers(0, 4, rows)),
            "ill": pa.array(rng.choice(texts, rows), mask=rng.random(rows) < 0.1),
            "pay": pa.array(NUMBER + rng.choice([0.25, 0.5, -0.0, np.nan], rows)),
            "who": pa.array([f"{CANARY}-person-{at}" for at in range(rows)]),
        }
    )


def every_primitive(engine: Engine, folder: Path) -> dict[str, Any]:
    """What each primitive answers, as JSON knows it."""
    rows = canary_table()
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    for part in range(3):
        pq.write_table(rows.slice(part * 100, 100), folder / "parts" / f"part-{part}.parquet")
    table = engine.scan(Source(data=str(folder / "parts")))
    seed = Seed.insecure(SECRET)
    query_keys = ("zip.code", "year")
    facts = engine.facts(table, FactsRequest(histograms=("ill", "pay"), moments=("pay", "year"), nulls=("zip.code",)))
    # The mark is the policy's, and is in Spark's plans like the names of columns.
    query = ClassQuery(keys=query_keys, columns=("ill", "pay"), dictionaries=facts.histograms, mark="*")
    models = Composite((KAnonymity(k=5), DistinctLDiversity(column="ill", l=3), TCloseness(column="ill", t=0.2)))
    told: dict[str, Any] = {
        "count": engine.count(table),
        "facts": {name: found.counts.tolist() for name, found in facts.histograms.items()},
        "moments": repr(facts.moments),
        "driver": repr(engine.reduce_classes(table, query, models, facts, where="driver")),
        "in place": repr(engine.reduce_classes(table, query, models, facts, where="engine")),
        "distinct": engine.distinct(table, query_keys).to_pylist(),
    }
    named = engine.with_record_ids(table, None, seed)
    told["fingerprint"] = fingerprint(engine, named, seed)
    told["kept"] = engine.count(engine.keep_classes(named, query, lambda block: block.sizes > 11))
    values = facts.histograms["ill"].values
    labels = pa.array([None if value is None else value.upper() for value in values.to_pylist()])
    recoded = engine.recode(named, {"ill": (values, labels)})
    told["recoded"] = engine.collect(recoded).to_pylist()
    told["mapped"] = mapped(engine, recoded)
    told["exchanged"] = exchanged(engine, named)
    told["pairs"] = pairs(engine, table, seed)
    out = folder / "out"
    out.mkdir()
    told["written"] = engine.write(named, str(out), "csv", STREAM).records
    told["bytes"] = b"".join(path.read_bytes() for path in sorted(out.iterdir())).decode()
    again = engine.scan(Source(data=str(out), format="csv", types={"year": "integer", "pay": "number"}))
    told["read again"] = sorted(map(repr, engine.collect(again).to_pylist()))
    return told


def mapped(engine: Engine, table: Any) -> list[Any]:
    def by_year(rows: RowBlock) -> Any:
        return rows.column("year").to_numpy() - NUMBER

    def with_size(rows: RowBlock, key: int) -> RowBlock:
        return rows.replace("year", np.full(len(rows), 1000 * key + len(rows)))

    def with_rank(rows: RowBlock, ranks: Any) -> RowBlock:
        return rows.replace("pay", ranks.astype(np.float64))

    grouped = engine.map_groups(table, by_year, with_size, table.schema)
    ranked = engine.map_ranked(grouped, "pay", STREAM, with_rank, table.schema)
    found: list[Any] = engine.collect(engine.map_rows(ranked, lambda rows: rows.drop([]), table.schema)).to_pylist()
    return found


def exchanged(engine: Engine, table: Any) -> list[Any]:
    facts = engine.facts(table, FactsRequest(nulls=("pay",)))
    exchange = RankExchange(facts.records - facts.nulls["pay"], 7, 6, lambda start, stop: np.arange(start, stop)[::-1])
    found: list[Any] = engine.collect(engine.exchange_ranks(table, "pay", STREAM, exchange)).to_pylist()
    return found


def pairs(engine: Engine, table: Any, seed: Seed) -> float | None:
    class Difference:
        def measure(self, block: PairBlock, facts: Facts) -> float:
            return float(np.nansum(block.released["year"] - block.original["year"]))

        def merge(self, left: float, right: float) -> float:
            return left + right

    original = engine.with_record_ids(table, "who", seed)
    released = engine.map_rows(
        original, lambda rows: rows.replace("year", rows.column("year").to_numpy() + 1), table.schema
    )
    return engine.reduce_pairs(original, released, ["year"], Difference(), Facts())


def every_failure(engine: Engine, folder: Path) -> list[str]:
    """What goes wrong, and what is said of it."""
    rows = canary_table()
    table = engine.scan(Source(data=rows))
    seed = Seed.insecure(SECRET)
    part = engine.facts(engine.scan(Source(data=rows.slice(0, 4))), FactsRequest(histograms=("who",)))
    query = ClassQuery(keys=("year",), columns=("who",), dictionaries=part.histograms)
    (folder / "bad.csv").write_text(f"a,b\n{CANARY},1\n{NUMBER},{CANARY}\n")
    (folder / "ragged.csv").write_text(f"a,b\n{CANARY},1\n{NUMBER}\n")

    def breaks(rows: RowBlock) -> RowBlock:
        raise ValueError(f"{rows.batch.to_pylist()[0]}")

    attempts = [
        lambda: engine.reduce_classes(table, query, KAnonymity(k=2), part, where="engine"),
        lambda: engine.reduce_classes(table, query, KAnonymity(k=2), part, where="driver"),
        lambda: engine.with_record_ids(table, "ill", seed),
        lambda: engine.recode(table, {"ill": (pa.array([f"{CANARY}-0", None]), pa.array(["x", None]))}),
        lambda: engine.collect(engine.map_rows(table, breaks, table.schema)),
        lambda: engine.scan(Source(data=str(folder / "bad.csv"), types={"a": "integer", "b": "integer"})),
        lambda: engine.scan(Source(data=str(folder / "ragged.csv"))),
        lambda: engine.scan(Source(data=str(folder / "nowhere.parquet"))),
        lambda: engine.scan(Source(data=rows, types={"ill": "date"})),
    ]
    told = []
    for attempt in attempts:
        try:
            attempt()
        except PrivpipeError as error:
            told.append(f"{type(error).__name__}: {error}")
    assert len(told) == len(attempts)
    return told


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    place, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    with open_engine("spark", options) as opened:
        found = every_primitive(opened, place)
        failures = every_failure(opened, place) if "fail" in sys.argv else []
    print(json.dumps({"found": found, "failures": failures}, default=str))
