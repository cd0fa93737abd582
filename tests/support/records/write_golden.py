"""Write record_batches.json and message_sets.json of tests/golden: bytes that other clients have encoded.

`python -m tests.support.records.write_golden`, where kafka-python, aiokafka, Java and Maven are installed. The files
are kept so that tests decode foreign bytes on machines without them.
"""

import json
from importlib.metadata import version
from pathlib import Path

from tests.support.programs.java_programs import java_responses
from tests.support.programs.maven import resolve
from tests.support.records.other_codecs import PEERS, Peer
from tests.support.records.reference import CODECS, Record, numbered

GOLDEN = Path(__file__).parents[2] / "golden"
RELEASE = "3.9.1"
"""The last release of Apache Kafka that writes message sets v0 and v1."""

RECORDS = numbered(
    [
        Record(b"key", b"value", (("trace", b"\x00\xff"), ("trace", None)), 1_700_000_000_000),
        Record(None, b"", (), 1_700_000_000_007),
        Record(b"", None, (("\u043a\u043b\u044e\u0447", b""),), 1_699_999_999_999),
        Record(b"\x00" * 3, "na\u00efve \U0001f511".encode(), (), 1_700_000_060_000),
        Record(b"k", b"abcdefgh" * 20, (), 1_700_000_060_000),
    ]
)


def main() -> None:
    """Write the files."""
    _write_record_batches()
    _write_message_sets()


def _write_record_batches() -> None:
    batches = [
        {"writer": f"{name} {version(name)}", "codec": codec, "batch": Peer(name).write(RECORDS, codec).hex()}
        for name in PEERS
        for codec in CODECS
    ]
    records = [
        {
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
            "timestamp": record.timestamp,
        }
        for record in RECORDS
    ]
    _write("record_batches", {"records": records, "batches": batches})


def _write_message_sets() -> None:
    """Message sets of the records in GoldenMessageSets.java."""
    jars = resolve(f"kafka-clients-{RELEASE}", [f"org.apache.kafka:kafka-clients:{RELEASE}"])
    _write("message_sets", json.loads("".join(java_responses("GoldenMessageSets", jars=jars))))


def _write(name: str, content: object) -> None:
    (GOLDEN / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
