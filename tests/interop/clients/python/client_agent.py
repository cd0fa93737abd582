"""An agent in front of a `tests.support.clients.interface.Client`, for what those can do."""

from spark_kafka_native._protocol.errors import ErrorCode
from tests.interop.clients.python.line_agent import Agent, Json, encoded, text
from tests.support.clients.interface import Client, Record, Refused, Stored


class ClientAgent(Agent):
    """Produces, consumes and makes topics; groups and the rest are the subclass's."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def produce(self, servers: str, topic: str, codec: str, records: list[Json]) -> Json:
        wanted = [
            Record(
                encoded(record["key"]),
                encoded(record["value"]),
                tuple((key, encoded(value)) for key, value in record["headers"]),
                record["timestamp"],
                record["partition"],
            )
            for record in records
        ]
        return self._client.produce(servers, topic, wanted, compression=codec)

    def consume(self, servers: str, topic: str, counts: dict[str, int]) -> Json:
        stored = self._client.consume(servers, topic, {int(key): count for key, count in counts.items()})
        return [described(topic, record) for record in stored]

    def committed(self, servers: str, group: str, topic: str, partitions: list[int]) -> Json:
        return self._client.committed(servers, group, topic, partitions)

    def create_topic(self, servers: str, topic: str, partitions: int, configs: dict[str, str]) -> None:
        self._client.create_topic(servers, topic, partitions, configs=configs)

    def add_partitions(self, servers: str, topic: str, total: int) -> None:
        self._client.create_partitions(servers, topic, total)

    def delete_topic(self, servers: str, topic: str) -> None:
        self._client.delete_topic(servers, topic)

    def _code(self, error: BaseException) -> int | None:
        return error.code if isinstance(error, Refused) else None


def described(topic: str, record: Stored) -> Json:
    """A record as agents tell of it."""
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[key, text(value)] for key, value in record.headers],
    }


def refuse(code: int) -> None:
    """Raise what stands for an error code; none for 0."""
    if code != ErrorCode.NONE:
        raise Refused(code)
