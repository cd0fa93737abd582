"""Writes tests/golden/message_sets.json: message sets v0 and v1 as Apache Kafka's own classes write and convert them.

`python -m tests.support.write_golden_message_sets`, where Java and Maven are. It asks the last release that writes
these formats. The records in them are those of GoldenMessageSets.java.
"""

import json
import os
import subprocess
from pathlib import Path

from tests.support.maven import java, resolve

GOLDEN = Path(__file__).parent.parent / "golden" / "message_sets.json"
RELEASE = "3.9.1"


def main() -> None:
    """Write the file."""
    jars = resolve(f"kafka-clients-{RELEASE}", [f"org.apache.kafka:kafka-clients:{RELEASE}"])
    source = Path(__file__).with_name("GoldenMessageSets.java")
    class_path = os.pathsep.join(map(str, jars))
    done = subprocess.run([java(), "-cp", class_path, str(source)], capture_output=True, text=True, check=True)
    GOLDEN.write_text(json.dumps(json.loads(done.stdout), indent=1) + "\n")


if __name__ == "__main__":
    main()
