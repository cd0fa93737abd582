"""``python -m broker_embedded.tools TOOL ...``: a command-line tool of Kafka, or ``home``."""

import sys
from collections.abc import Sequence

from broker_embedded._tools.run_class import TOOLS
from spark_kafka_native._tools.dispatch import run_tool


def main(arguments: Sequence[str]) -> int:
    """Run a tool by its name; the exit status."""
    return run_tool("broker_embedded.tools", TOOLS, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
