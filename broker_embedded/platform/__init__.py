"""The only access to disk, clock and threads: files, timers, worker threads, open-file limits.

`platform.Platform` combines them; tests pass fakes.
"""
