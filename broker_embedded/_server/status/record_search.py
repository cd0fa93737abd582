"""The request for records: where they begin, how many, and how they are decoded."""

import json
from http import HTTPStatus
from typing import Final

from broker_embedded._broker import Broker
from broker_embedded._config.settings import INT_MAX
from broker_embedded._log.log import Log
from broker_embedded._server.status.query import Query, StatusError
from broker_embedded._server.status.record_reader import RecordReader
from broker_embedded._server.status.worker_protocol import PageRequest
from spark_kafka_native._protocol.errors import KafkaError

_DEFAULT_LIMIT: Final = 50
_MAX_LIMIT: Final = 200
_DEFAULT_SHOWN_BYTES: Final = 2000
_MAX_SHOWN_BYTES: Final = 1024 * 1024
_STARTS: Final = ("offset", "timestamp", "last")
_FRAMINGS: Final = ("none", "confluent")


async def find_records(broker: Broker, reader: RecordReader, query: Query) -> bytes:
    """The JSON of a page of records, with the offset to continue at. Raises StatusError, KafkaError.

    Fields of a request: ``topic``, ``partition``; one of ``offset``, ``timestamp`` (ms) and ``last`` (offsets before
    the end), or none for the last ``limit`` offsets, with ``key`` for the log start; ``limit``; ``bytes`` to show of
    each key and value; ``avro_schema``, ``avro_framing`` (none or confluent).
    """
    topic, index = query.text("topic"), query.number_or("partition", 0, at_most=INT_MAX)
    limit = query.limit(_DEFAULT_LIMIT, _MAX_LIMIT)
    shown_bytes = query.number_or("bytes", _DEFAULT_SHOWN_BYTES, at_least=1, at_most=_MAX_SHOWN_BYTES)
    key = query.text("key") if query.has("key") else None
    schema, framing = query.text("avro_schema", ""), query.choice("avro_framing", _FRAMINGS)
    starts = {name: query.number(name, None) for name in _STARTS}
    query.finish()
    given = {name: number for name, number in starts.items() if number is not None}
    if len(given) > 1:
        raise StatusError(HTTPStatus.BAD_REQUEST, f"only one of {', '.join(_STARTS)} may be set")
    log = broker.partitions.get(topic, index).log
    end = log.high_watermark
    offset = await _start(reader, log, end, given, limit, from_start=key is not None)
    opened = {str(producer): first for producer, first in log.producers.first_offsets_of_open.items()}
    request = PageRequest(
        offset=offset,
        end=end,
        limit=limit,
        shown_bytes=shown_bytes,
        key=key,
        avro_schema=schema,
        is_framed=framing == "confluent",
        open_transactions=opened,
    )
    head = {
        "topic": topic,
        "partition": index,
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": end,
        "offset": offset,
        "max_bytes": _MAX_SHOWN_BYTES,
    }
    page = await reader.page(log, request)
    return json.dumps(head).encode()[:-1] + b", " + page[1:]


async def _start(
    reader: RecordReader, log: Log, end: int, given: dict[str, int], limit: int, *, from_start: bool
) -> int:
    """The offset to begin at, within the log."""
    if "timestamp" in given:
        try:
            offset = await reader.offset_at(log, given["timestamp"], end)
        except KafkaError as error:
            problem = f"the time cannot be looked up; start at an offset: {error.detail or error}"
            raise StatusError(HTTPStatus.CONFLICT, problem) from error
    elif "offset" in given:
        offset = given["offset"]
    elif "last" in given or not from_start:
        offset = end - given.get("last", limit)
    else:
        offset = 0
    return min(max(offset, log.log_start_offset), end)
