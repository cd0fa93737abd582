"""A broker with a status page, topics of several kinds, transactions, and a group with lag."""

import contextlib
import io
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
from confluent_kafka import Consumer, Producer, TopicPartition

from broker_embedded.testing import EmbeddedBroker

SETTINGS: Final = {
    "metrics.listener": "127.0.0.1:0",
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
TIME_MS: Final = 1_700_000_000_000
"""The time of the first record; each further one is a second later."""
AVRO_SCHEMA: Final = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}, {"name": "raw", "type": "bytes"}],
}
MARKUP: Final = "<img src=x onerror=document.title='run'>"
"""A key that would run a script if the page showed it as HTML."""
VIEWS: Final = 300


class Answer(NamedTuple):
    """A response of the page."""

    status: int
    headers: Message
    body: bytes

    @property
    def row(self) -> dict[str, Any]:
        """The JSON of the body."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Page:
    """The status page of a broker."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.url = broker.status_page_url

    def ask(
        self,
        path: str,
        fields: Mapping[str, object] | None = None,
        *,
        method: str = "GET",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request; ``body`` is sent as JSON."""
        query = f"?{urllib.parse.urlencode(fields)}" if fields else ""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}{query}", data, dict(headers or {}), method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def row(self, path: str, **fields: object) -> dict[str, Any]:
        """The JSON of a response with status 200."""
        answer = self.ask(f"api/{path}", fields)
        assert answer.status == 200, answer.body
        return answer.row

    def problem(self, path: str, **fields: object) -> tuple[int, str]:
        """Status and problem of a response with an error."""
        answer = self.ask(f"api/{path}", fields)
        problem: str = answer.row["problem"]
        return answer.status, problem


@contextlib.contextmanager
def filled_broker(path: Path) -> Iterator[EmbeddedBroker]:
    """The broker, with all records."""
    topics = {"views": 3, "orders": 1, "binary": 1, "avro": 1, "empty": 1}
    with EmbeddedBroker(path, topics=topics, settings=SETTINGS) as broker:
        _write_records(broker)
        transactional = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": "order-writer",
                "transaction.timeout.ms": 900_000,  # its last transaction stays open while tests run
                "client.id": "orders",
            }
        )
        _write_transactions(transactional)
        consumer = _read_some(broker)
        try:
            yield broker
        finally:
            consumer.close()
            transactional.abort_transaction()


def _write_records(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "loader"})
    for number in range(VIEWS):
        view = {"user": f"user-{number % 20}", "page": f"/{number % 7}", "id": 9007199254740993 + number, "tags": []}
        producer.produce(
            "views",
            key=f"user-{number % 20}",
            value=json.dumps(view),
            partition=number % 3,
            timestamp=TIME_MS + 1000 * number,
            headers=[("trace", f"{number}".encode()), ("none", None)],
        )
    producer.produce("binary", key=b"\xff\x00", value=bytes(range(256)), timestamp=TIME_MS)
    producer.produce("binary", key=MARKUP, value=None, timestamp=TIME_MS)
    producer.produce("binary", key=b"long", value="é".encode() * 100_000, timestamp=TIME_MS)
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    for number in range(3):
        encoded = io.BytesIO()
        fastavro.schemaless_writer(encoded, schema, {"id": number, "item": "tea", "raw": b"\xff\x01"})
        producer.produce("avro", value=encoded.getvalue())
        producer.produce("avro", value=b"\0\0\0\0\7" + encoded.getvalue())
    assert producer.flush(60) == 0


def _write_transactions(producer: Producer) -> None:
    """A committed one, an aborted one, and one that is open."""
    producer.init_transactions()
    for outcome in ("committed", "aborted", "open"):
        producer.begin_transaction()
        for number in range(2):
            producer.produce("orders", key=f"order-{number}", value=outcome, timestamp=TIME_MS)
        assert producer.flush(60) == 0
        if outcome == "committed":
            producer.commit_transaction()
        elif outcome == "aborted":
            producer.abort_transaction()


def _read_some(broker: EmbeddedBroker) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "view-report",
            "client.id": "reporter",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["views"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("views", index, 60) for index in range(2)], asynchronous=False)
    return consumer


def write(page: Page, value: bytes, **config: object) -> None:
    """Write a record to the topic t."""
    producer = Producer({"bootstrap.servers": page.broker.bootstrap_servers, "log_level": 0, **config})
    producer.produce("t", value=value)
    assert producer.flush(60) == 0
