"""The calls are read by type checkers and run by nobody."""

collect_ignore = ["right_calls.py", "wrong_calls.py"]
