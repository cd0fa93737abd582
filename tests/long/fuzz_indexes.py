"""Opens log directories whose indexes, snapshots, checkpoints or segments hold anything.

``python -m tests.long.fuzz_indexes``; see `tests.support.fuzz_run`.
"""

import sys

from tests.support.fuzz_run import main

if __name__ == "__main__":
    sys.exit(main("indexes"))
