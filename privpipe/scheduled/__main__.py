"""``python -m privpipe.scheduled``: do the job that stands on stdin and tell on stdout how it went."""

from __future__ import annotations

from privpipe.scheduled.job_process import main

if __name__ == "__main__":
    main()
