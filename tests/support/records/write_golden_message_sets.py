"""Writes tests/golden/message_sets.json: message sets v0 and v1 as Apache Kafka's own classes write and convert them.

`python -m tests.support.records.write_golden_message_sets`, where Java and Maven are. It asks the last release that
writes these formats. The records in them are those of GoldenMessageSets.java.
"""

import json
from pathlib import Path

from tests.support.programs.java_programs import java_responses
from tests.support.programs.maven import resolve

GOLDEN = Path(__file__).parents[2] / "golden" / "message_sets.json"
RELEASE = "3.9.1"


def main() -> None:
    """Write the file."""
    jars = resolve(f"kafka-clients-{RELEASE}", [f"org.apache.kafka:kafka-clients:{RELEASE}"])
    made = json.loads("".join(java_responses("GoldenMessageSets", jars=jars)))
    GOLDEN.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
