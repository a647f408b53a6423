"""``python -m privpipe.scheduled``: do the job that is given on stdin and report on stdout how it went."""

from __future__ import annotations

from privpipe.scheduled.job_process import main

if __name__ == "__main__":
    main()
