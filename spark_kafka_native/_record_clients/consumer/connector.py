"""The consumer of a group: ``spark_kafka_native.clients.ConsumerConnector``."""

import threading
from collections.abc import Mapping
from typing import Self

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.arguments import check_integer, check_topic
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.member import ConsumerMember
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.consumer.streams import MessageStream
from spark_kafka_native._record_clients.errors import ClientClosed
from spark_kafka_native._zookeeper.consumer_znodes import MAX_STREAMS


class ConsumerConnector:
    """One member of a consumer group, and its streams of records. Use it as a context manager, or call ``shutdown``.

    ::

        with ConsumerConnector({"bootstrap.servers": "localhost:9092", "group.id": "reports"}) as consumer:
            (stream,) = consumer.create_message_streams({"events": 1})["events"]
            for record in stream:
                print(record.partition, record.offset, record.value)

    The members of a group share the partitions of its topics, and the streams of a member share its partitions. Each
    stream is for one thread. A record is being processed until the next one is requested from its stream: partitions
    move to other members, and offsets are committed, after that. So a record is processed at least once.

    ``options`` are Kafka's consumer properties; docs/options.md lists those of this class.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        """Does not connect yet. Raises ConfigError naming the option."""
        self._config = ConsumerConfig.parse(options)
        self._discovery = self._config.discovery.discovery()
        self._cluster = Cluster(self._config.client, discovery=self._discovery, warns=True)
        self._member: ConsumerMember | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        self._shut_down(finished_in=threading.get_ident() if exception_type is None else None)

    def create_message_streams(self, streams: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group, and return so many streams for each topic. Call it once.

        Raises TypeError; ValueError; RuntimeError: the consumer has streams already; ClientClosed.
        """
        counts = {
            check_topic(topic): check_integer(f"streams of {topic}", count, 1, MAX_STREAMS)
            for topic, count in streams.items()
        }
        if not counts:
            raise ValueError("no topics")
        with self._lock:
            self._check_new()
            by_topic = {topic: [self._new_partitions() for _ in range(count)] for topic, count in counts.items()}
            every = [each for of_topic in by_topic.values() for each in of_topic]
            self._member = ConsumerMember(self._cluster, self._config, counts, every, by_topic.__getitem__)
        return {topic: list(map(self._stream, of_topic)) for topic, of_topic in by_topic.items()}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[MessageStream]:
        """Join the group, and return streams of all topics that the filter accepts, new ones included. Call it once.

        New topics are found within ``metadata.max.age.ms``, or at once with ``zookeeper.connect``. Raises as
        ``create_message_streams``.
        """
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError(f"topic_filter must be a Whitelist or a Blacklist, not {type(topic_filter).__name__}")
        check_integer("streams", streams, 1, MAX_STREAMS)
        with self._lock:
            self._check_new()
            every = [self._new_partitions() for _ in range(streams)]
            self._member = ConsumerMember(self._cluster, self._config, topic_filter, every, lambda _: every)
        return list(map(self._stream, every))

    def commit_offsets(self) -> None:
        """Commit the offsets after the processed records, and after those that the calling thread processes.

        Raises CommitFailed: the group has given the partitions to other members; KafkaError; ClientClosed.
        """
        member = self._member
        if self._is_closed or member is None:
            raise ClientClosed("the consumer is closed, or has no streams")
        member.reader.commit(timeout_ms=self._config.client.default_api_timeout_ms)

    def shutdown(self) -> None:
        """Commit as ``commit_offsets``, if commits are automatic, leave the group, and end the streams.

        It may be called twice. Records that other threads process are not committed: another member gets them, too.
        """
        self._shut_down(finished_in=threading.get_ident())

    # --- inside

    def _check_new(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._member is not None:
            raise RuntimeError("the consumer has streams already; make another consumer")

    def _new_partitions(self) -> StreamPartitions:
        timeout_ms = self._config.consumer_timeout_ms
        return StreamPartitions(self._cluster, timeout_ms=timeout_ms, reset=self._reset, processed=self._wake)

    def _stream(self, partitions: StreamPartitions) -> MessageStream:
        return MessageStream(partitions, self._config.key_deserializer, self._config.value_deserializer)

    def _reset(self, partition: TopicPartition) -> int:
        assert self._member is not None
        return self._member.reader.reset(partition)

    def _wake(self) -> None:
        if self._member is not None:
            self._member.wake()

    def _shut_down(self, *, finished_in: int | None) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._member is not None:
            self._member.stop(finished_in=finished_in)
        self._cluster.close(final=True)  # the threads of streams may still have connections
        if self._discovery is not None:
            self._discovery.close()
