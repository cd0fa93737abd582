"""Feeds consumer and log with record batches and message sets: ``python -m tests.long.fuzz_records``.

See `tests.support.fuzz_run`.
"""

import sys

from tests.support.fuzz_run import main

if __name__ == "__main__":
    sys.exit(main("records"))
