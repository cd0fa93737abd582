"""kafka-python with the interface of `tests.support.clients.interface`."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tests.support.clients.interface import DEADLINE_S, Configs, Record, Refused, Stored, still_missing


def poll_kafka_python(consumer: Any, timeout_ms: int, most: int) -> list[Any]:
    """The records of one poll of kafka-python's consumer, which joins its group again where it did not end a join.

    That happens with any broker when it leads the group and rejoins because the topic's partitions changed, or became
    known, while a poll begins between its assigning partitions and the broker's response: it compares partitions, finds
    them unchanged and continues with what it had, nothing perhaps, and sends no more heartbeats.
    """
    polled = consumer.poll(timeout_ms=timeout_ms, max_records=most)
    coordinator = consumer._coordinator
    task = coordinator._join_task
    if task is not None and task.is_done and not coordinator.need_rejoin():
        coordinator.request_rejoin()
    return [record for records in polled.values() for record in records]


class KafkaPythonClient:
    """kafka-python: a client written in Python alone.

    With `release`, such as (2, 1), it speaks the versions that a broker of that release had, whatever it is offered.
    """

    sends_null_headers = False

    def __init__(self, release: tuple[int, int] | None = None) -> None:
        self.name = "kafka-python" if release is None else f"kafka-python-as-of-{release[0]}.{release[1]}"
        self._release = release
        import kafka
        import kafka.errors
        import kafka.structs

        self._kafka: Any = kafka

    def _consumer(self, servers: str, group: str | None = None) -> Any:
        return self._kafka.KafkaConsumer(
            bootstrap_servers=servers.split(","),
            api_version=self._release,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
        )

    def _partition(self, topic: str, partition: int) -> Any:
        return self._kafka.TopicPartition(topic, partition)

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, compression: str = "none"
    ) -> list[tuple[int, int]]:
        producer = self._kafka.KafkaProducer(
            bootstrap_servers=servers.split(","),
            api_version=self._release,
            compression_type=None if compression == "none" else compression,
            max_request_size=20_000_000,
            request_timeout_ms=int(DEADLINE_S * 500),
            delivery_timeout_ms=int(DEADLINE_S * 1000),
            linger_ms=5,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(timeout=DEADLINE_S)
            try:
                results = [future.get(timeout=DEADLINE_S) for future in futures]
            except self._kafka.errors.BrokerResponseError as error:
                raise Refused(error.errno) from error
        return [(result.partition, result.offset) for result in results]

    def consume(self, servers: str, topic: str, counts: Mapping[int, int], *, start: int | None = None) -> list[Stored]:
        began = time.monotonic()
        stored: list[Stored] = []
        with closing(self._consumer(servers)) as consumer:
            wanted = [self._partition(topic, partition) for partition in counts]
            consumer.assign(wanted)
            if start is None:
                consumer.seek_to_beginning(*wanted)
            else:
                for partition in wanted:
                    consumer.seek(partition, start)
            while still_missing(counts, stored, began):
                for records in consumer.poll(timeout_ms=200, max_records=1000).values():
                    stored += [
                        Stored(
                            record.partition,
                            record.offset,
                            record.timestamp,
                            record.key,
                            record.value,
                            tuple(record.headers),
                        )
                        for record in records
                    ]
        return sorted(stored, key=lambda record: record[:2])

    def offsets_for_times(self, servers: str, topic: str, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        with closing(self._consumer(servers)) as consumer:
            asked = {self._partition(topic, partition): time_ms for partition, time_ms in times_ms.items()}
            responses = consumer.offsets_for_times(asked)
        return {partition.partition: response.offset if response else None for partition, response in responses.items()}

    def watermarks(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        with closing(self._consumer(servers)) as consumer:
            wanted = self._partition(topic, partition)
            return consumer.beginning_offsets([wanted])[wanted], consumer.end_offsets([wanted])[wanted]

    def commit(self, servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with closing(self._consumer(servers, group)) as consumer:
            consumer.assign([self._partition(topic, partition) for partition in offsets])
            metadata = self._kafka.structs.OffsetAndMetadata
            wanted = {
                self._partition(topic, partition): metadata(offset, "", -1) for partition, offset in offsets.items()
            }
            try:
                consumer.commit(wanted)
            except self._kafka.errors.BrokerResponseError as error:
                raise Refused(error.errno) from error

    def committed(self, servers: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        with closing(self._consumer(servers, group)) as consumer:
            return {partition: consumer.committed(self._partition(topic, partition)) for partition in partitions}

    def partitions(self, servers: str, topic: str) -> list[int] | None:
        with closing(self._admin(servers)) as admin:
            if topic not in admin.list_topics():
                return None
            (description,) = admin.describe_topics([topic])
        return sorted(partition["partition_index"] for partition in description["partitions"])

    def _admin(self, servers: str) -> Any:
        return self._kafka.KafkaAdminClient(bootstrap_servers=servers.split(","), api_version=self._release)

    def create_topic(
        self, servers: str, topic: str, partitions: int, *, replication: int = 1, configs: Configs = None
    ) -> None:
        from kafka.admin import NewTopic

        wanted = NewTopic(topic, partitions, replication, topic_configs=dict(configs or {}))
        self._administer(servers, lambda admin: admin.create_topics([wanted]))

    def create_partitions(self, servers: str, topic: str, total: int) -> None:
        from kafka.admin import NewPartitions

        self._administer(servers, lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def delete_topic(self, servers: str, topic: str) -> None:
        self._administer(servers, lambda admin: admin.delete_topics([topic]))

    def _administer(self, servers: str, action: Any) -> None:
        with closing(self._admin(servers)) as admin:
            try:
                action(admin)
            except self._kafka.errors.BrokerResponseError as error:
                raise Refused(error.errno) from error
