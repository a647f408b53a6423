"""Numerical kernels: arrays in, arrays out; no data frame, no input or output.

Nothing is imported here: the modules import numba, and the caller of a kernel imports its module when it is
needed. Compiled code is cached on disk and runs without the interpreter lock, serially: threads over blocks
are faster than threads inside short loops.
"""

from __future__ import annotations
