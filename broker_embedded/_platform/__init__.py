"""The broker's access to disk, clock and threads: files, timers, worker threads, child processes, open-file limits.

The cleaner and `_coordinator/pattern_matcher.py` have threads of their own.

`platform.Platform` combines them; tests pass fakes.
"""
