"""``producer-ids.json``: the first producer id that is not claimed.

    {"version": 1, "next_producer_id": 4194305000}

The ids of a new data directory begin at a random number far above those of Apache Kafka, which begin at 0. Logs may be
moved from one broker to another, and the first records of a new producer with the id of an old one would be taken for
duplicates.
"""

import json
import secrets
from typing import Any, Final

from broker_embedded._metadata.files.metadata_file import VERSION, MetadataFile, refuse_unknown

BLOCK_SIZE: Final = 1000
"""Ids that are claimed at a time, as by Kafka's controller."""
_FIRST_BLOCKS: Final = range(2**22, 2**42)
"""The first block of a new data directory. All its ids fit into 53 bits, because some clients use doubles."""


def _encode(next_producer_id: int) -> bytes:
    return json.dumps({"version": VERSION, "next_producer_id": next_producer_id}).encode()


def _parse(document: dict[str, Any]) -> int:
    refuse_unknown(document, {"version", "next_producer_id"})
    found = document["next_producer_id"]
    if type(found) is not int or found < 0:
        raise ValueError(f"next_producer_id {found!r} is not an integer of at least 0")
    return found


def _first() -> int:
    return _FIRST_BLOCKS[secrets.randbelow(len(_FIRST_BLOCKS))] * BLOCK_SIZE


PRODUCER_IDS: Final = MetadataFile(name="producer-ids.json", encode=_encode, parse=_parse, empty=_first)
