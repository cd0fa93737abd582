"""Writes tests/golden/record_batches.json: small batches as other clients' encoders make them, and what is in them.

`python -m tests.support.records.write_golden_batches`, where kafka-python and aiokafka are installed. The file is kept
so that decoding is held against foreign bytes where neither is.
"""

import json
from importlib.metadata import version
from pathlib import Path

from tests.support.records.other_codecs import PEERS, Peer
from tests.support.records.reference import CODECS, Record, numbered

GOLDEN = Path(__file__).parents[2] / "golden" / "record_batches.json"

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
    """Write the file."""
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
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps({"records": records, "batches": batches}, indent=1) + "\n")


if __name__ == "__main__":
    main()
