"""The calls are read by type checkers and run by no one."""

collect_ignore = ["right_calls.py", "wrong_calls.py"]
