"""The only access to disk, clock and threads: files, timers, worker threads, open-file limits.

`platform` is what the broker gets of them; tests pass fakes.
"""
