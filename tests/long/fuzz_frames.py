"""Feeds a broker with request frames: ``python -m tests.long.fuzz_frames``; see `tests.support.fuzz_run`."""

import sys

from tests.support.fuzz_run import main

if __name__ == "__main__":
    sys.exit(main("frames"))
