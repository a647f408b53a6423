"""Make `data/adult.csv` from the raw UCI file: a header, `;` between fields, no padding, empty for missing.

    python pipelines/adult/prepare.py [RAW [CLEAN]]

The raw file separates fields by comma and blank, has no header and writes `?` for a missing value. Nothing is
computed, dropped or reordered here: what may be released is the policy's business (`release.yaml`).
"""

from __future__ import annotations

import sys
from pathlib import Path

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
MISSING = "?"
DELIMITER = ";"
DATA = Path(__file__).resolve().parent / "data"


def clean_lines(raw: str) -> list[str]:
    """The lines of the clean file, header first.

    Parameters
    ----------
    raw : str
        Text of `adult.data`; blank lines are passed over.

    Raises
    ------
    ValueError
        A line with another number of fields, or with a field that holds the delimiter or a quote: it would be
        read back as something else. The message gives the line, never a value.

    Examples
    --------
    >>> clean_lines("39, ?, 1, a, 9, b, ?, c, d, e, 0, 0, 40, f, <=50K")[1]
    '39;;1;a;9;b;;c;d;e;0;0;40;f;<=50K'
    """
    lines = [DELIMITER.join(COLUMNS)]
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS):
            raise ValueError(f"line {number}: {len(fields)} fields where {len(COLUMNS)} are due")
        if any(DELIMITER in field or '"' in field for field in fields):
            raise ValueError(f"line {number}: a field holds {DELIMITER!r} or a quote")
        lines.append(DELIMITER.join("" if field == MISSING else field for field in fields))
    return lines


def main(arguments: list[str]) -> int:
    """Write the clean file; the raw file and the target are optional arguments."""
    raw = Path(arguments[0]) if arguments else DATA / "adult.data"
    clean = Path(arguments[1]) if len(arguments) > 1 else DATA / "adult.csv"
    lines = clean_lines(raw.read_text(encoding="utf-8"))
    clean.write_bytes(("\n".join(lines) + "\n").encode("utf-8"))
    print(f"{len(lines) - 1:,} records written to {clean}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
