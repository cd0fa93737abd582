"""``python -m spark_kafka_native.tools TOOL ...``: a command-line tool for a cluster."""

import sys
from collections.abc import Sequence

from spark_kafka_native._tools.dispatch import TOOLS, run_tool


def main(arguments: Sequence[str]) -> int:
    """Run a tool by its name; the exit status."""
    hint = "python -m broker_embedded.tools: the same tools, and those of the bundled broker"
    return run_tool("spark_kafka_native.tools", TOOLS, arguments, hint)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
