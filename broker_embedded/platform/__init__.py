"""The broker's access to disk, clock and threads: files, timers, worker threads, open-file limits.

The cleaner and the matching of patterns have threads of their own.

`platform.Platform` combines them; tests pass fakes.
"""
