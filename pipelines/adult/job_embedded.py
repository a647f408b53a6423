"""The Adult release from Python, on the embedded engine.

    python pipelines/adult/job_embedded.py [--policy FILE] [--target DIR]

Ends with privpipe's exit codes, so that a scheduler can tell a refusal (5) from a breakdown (4).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import privpipe as pp
from privpipe.errors import PrivpipeError


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish the Adult release with the embedded engine.")
    parser.add_argument("--policy", default=str(Path(__file__).resolve().parent / "release.yaml"))
    parser.add_argument("--target", help="publish here instead of the policy's sink")
    options = parser.parse_args()
    try:
        result = pp.release(pp.Policy.load(options.policy), engine="embedded", target=options.target)
    except PrivpipeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"published {result.assessment.records:,} records to {result.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
