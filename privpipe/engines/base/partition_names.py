"""The names of part files that hold rows of one partition each."""

from __future__ import annotations

import re

__all__ = ["partition_in"]

NAMED = re.compile(r"part-\d{5,}-(?P<partition>[0-9a-f]{8}-[0-9a-f]{24})\.parquet")


def partition_in(name: str) -> str | None:
    """The partition that a file's name says; None: the file is not one of a partition.

    Examples
    --------
    >>> partition_in("run/part-00000-" + "0" * 8 + "-" + "1" * 24 + ".parquet")
    '00000000-111111111111111111111111'
    >>> partition_in("part-00000.parquet") is None
    True
    """
    found = NAMED.fullmatch(name.rsplit("/", 1)[-1])
    return found["partition"] if found else None
