"""What Spark forks Python workers from, in a session that is started here: what each of them needs is loaded once.

Spark runs it as a program (``spark.python.daemon.module``).
"""

from __future__ import annotations

import gc

__all__ = ["preload"]


def preload() -> None:
    """Load what makes record ids and looks at columns, and the kernels as they are compiled.

    Examples
    --------
    >>> preload()
    """
    import pyarrow as pa

    from privpipe import compiled
    from privpipe.draws import Seed
    from privpipe.engines.spark.column_values import Looker
    from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id, sum_of_hashes

    compiled.load()
    seed, rows = Seed.insecure(0), pa.record_batch({"number": [1, 2], "share": [0.5, None], "text": ["a", "b"]})
    words = content_hash(rows, seed)
    record_id(words, ordinals(words), seed)
    sum_of_hashes(words)
    Looker(seed, few=1).look(rows.columns)


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    gc.freeze()  # what is loaded is never looked at again, and its pages stay shared
    manager()
