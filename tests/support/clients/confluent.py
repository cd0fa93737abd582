"""confluent-kafka with the interface of `tests.support.clients.interface`."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tests.support.clients.interface import DEADLINE_S, Configs, Record, Refused, Stored, still_missing


class ConfluentClient:
    """confluent-kafka: librdkafka's producer, consumer and admin client."""

    name = "confluent"
    sends_null_headers = True

    def _config(self, servers: str, **more: Any) -> dict[str, Any]:
        names = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": servers, "log_level": 0, "error_cb": _ignore, **names}

    def _consumer(self, servers: str, group: str = "unused", **others: object) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            self._config(servers, group_id=group, enable_auto_commit=False, fetch_wait_max_ms=100, **others)
        )

    def _admin(self, servers: str) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._config(servers))

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, compression: str = "none", idempotent: bool = True
    ) -> list[tuple[int, int]]:
        from confluent_kafka import Producer

        config = self._config(servers, compression_type=compression, enable_idempotence=idempotent, linger_ms=5)
        config |= {"message.max.bytes": 20_000_000, "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(config)
        # Knowing the leaders before there is work spares librdkafka half a second of waiting, here and in `consume`.
        producer.list_topics(topic, timeout=DEADLINE_S)
        outcomes: list[tuple[Any, Any]] = []
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message: outcomes.append((error, message)),
            )
            producer.poll(0)
        if producer.flush(DEADLINE_S):
            raise TimeoutError(f"{len(producer)} records were not acknowledged in {DEADLINE_S:.0f} s")
        for error, _ in outcomes:
            if error is not None:
                raise Refused(error.code())
        # Deliveries are reported in order within a partition, not over all of them.
        offsets: dict[int, list[int]] = {}
        for _, message in outcomes:
            offsets.setdefault(message.partition(), []).append(message.offset())
        following = {partition: iter(numbers) for partition, numbers in offsets.items()}
        return [(record.partition, next(following[record.partition])) for record in records]

    def consume(
        self,
        servers: str,
        topic: str,
        counts: Mapping[int, int],
        *,
        start: int | None = None,
        isolation: str = "read_committed",
    ) -> list[Stored]:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        began = time.monotonic()
        stored: list[Stored] = []
        with closing(self._consumer(servers, isolation_level=isolation)) as consumer:
            consumer.list_topics(topic, timeout=DEADLINE_S)
            position = OFFSET_BEGINNING if start is None else start
            consumer.assign([TopicPartition(topic, partition, position) for partition in counts])
            while missing := still_missing(counts, stored, began):
                for message in consumer.consume(min(missing, 1000), 0.2):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    stored.append(
                        Stored(
                            message.partition(),
                            message.offset(),
                            message.timestamp()[1],
                            message.key(),
                            message.value(),
                            tuple(message.headers() or ()),
                        )
                    )
        return sorted(stored, key=lambda record: record[:2])

    def offsets_for_times(self, servers: str, topic: str, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        from confluent_kafka import TopicPartition

        with closing(self._consumer(servers)) as consumer:
            asked = [TopicPartition(topic, partition, time_ms) for partition, time_ms in times_ms.items()]
            responses = consumer.offsets_for_times(asked, timeout=DEADLINE_S)
        return {response.partition: response.offset if response.offset >= 0 else None for response in responses}

    def watermarks(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        with closing(self._consumer(servers)) as consumer:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
        return low, high

    def commit(self, servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        from confluent_kafka import TopicPartition

        with closing(self._consumer(servers, group)) as consumer:
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            for result in consumer.commit(offsets=wanted, asynchronous=False):
                if result.error is not None:
                    raise Refused(result.error.code())

    def committed(self, servers: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        from confluent_kafka import TopicPartition

        with closing(self._consumer(servers, group)) as consumer:
            asked = [TopicPartition(topic, partition) for partition in partitions]
            responses = consumer.committed(asked, timeout=DEADLINE_S)
        return {response.partition: response.offset if response.offset >= 0 else None for response in responses}

    def partitions(self, servers: str, topic: str) -> list[int] | None:
        topics = self._admin(servers).list_topics(timeout=DEADLINE_S).topics
        return sorted(topics[topic].partitions) if topic in topics else None

    def create_topic(
        self, servers: str, topic: str, partitions: int, *, replication: int = 1, configs: Configs = None
    ) -> None:
        from confluent_kafka.cimpl import NewTopic

        wanted = NewTopic(topic, partitions, replication, config=dict(configs or {}))
        self._settle(servers, "create_topics", [wanted])

    def create_partitions(self, servers: str, topic: str, total: int) -> None:
        from confluent_kafka.cimpl import NewPartitions

        wanted = NewPartitions(topic, total)
        self._settle(servers, "create_partitions", [wanted])

    def delete_topic(self, servers: str, topic: str) -> None:
        self._settle(servers, "delete_topics", [topic])

    def _settle(self, servers: str, method: str, wanted: Sequence[Any]) -> None:
        from confluent_kafka import KafkaException

        admin = self._admin(servers)  # must outlive the futures
        for future in getattr(admin, method)(wanted, request_timeout=DEADLINE_S).values():
            try:
                future.result(DEADLINE_S)
            except KafkaException as error:
                raise Refused(error.args[0].code()) from error


def _ignore(error: object) -> None:
    """Take librdkafka's reports of lost connections without printing them: tests lose some on purpose."""
