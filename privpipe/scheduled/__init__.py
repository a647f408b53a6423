"""What layers over schedulers share: a release or a judgement in a separate process, and how it ended.

A layer never runs a release inside the scheduler's process. A separate process ends with an exit code whatever
happens to it, leaves no frame of it in the tracebacks and logs that schedulers keep, may be killed without the worker
and may belong to another environment than the scheduler's. Values of the data never cross over: what comes back are
the public figures, as `Ending`.
"""

from __future__ import annotations

from privpipe.scheduled.job import Ending, Job, Published, published_at, run_apart

__all__ = ["Ending", "Job", "Published", "published_at", "run_apart"]
