"""The consumer of a group: ``spark_kafka_native.clients.ConsumerConnector``."""

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.arguments import check_integer, check_topic
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.member_thread import ConsumerMember
from spark_kafka_native._record_clients.consumer.rebalance_listener import RebalanceListener
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

    ``options`` are Kafka's consumer properties; docs/options.md lists those of this class. ``rebalance_listener`` is
    called when partitions are added or given up.
    """

    def __init__(self, options: Mapping[str, object], *, rebalance_listener: RebalanceListener | None = None) -> None:
        """Does not connect yet. Raises ConfigError naming the option; TypeError."""
        if not isinstance(rebalance_listener, RebalanceListener | None):
            kind = type(rebalance_listener).__name__
            raise TypeError(f"rebalance_listener must be a RebalanceListener, not {kind}")
        self._config = ConsumerConfig.parse(options)
        self._listener = rebalance_listener
        self._member: ConsumerMember[StreamPartitions] | None = None
        self._is_closed = False
        self._pid = os.getpid()
        self._lock = threading.RLock()
        """While the member is made, whose listener may already be called."""
        self._calling: set[threading.Thread] = set()
        """The threads in calls that may hold locks."""

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "without streams" if self._member is None else "open"
        return f"<ConsumerConnector of group {self._config.group_id}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        self._shut_down(finished_in=threading.current_thread() if exception_type is None else None)

    def create_message_streams(self, streams: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group, and return so many streams for each topic. Call it once.

        Raises TypeError; ValueError; RuntimeError: the consumer has streams already; ClientClosed.
        """
        if not isinstance(streams, Mapping):
            kind = type(streams).__name__
            raise TypeError(f"streams must be a mapping of topics to numbers of streams, not {kind}")
        counts = {
            check_topic(topic): check_integer(f"streams of {topic}", count, 1, MAX_STREAMS)
            for topic, count in streams.items()
        }
        if not counts:
            raise ValueError("streams must not be empty")
        reader = self._join(counts, 0).reader
        return {topic: list(map(self._stream, reader.streams_of(topic))) for topic in counts}

    def create_message_streams_by_filter(self, topic_filter: TopicFilter, streams: int = 1) -> list[MessageStream]:
        """Join the group, and return streams of all topics that the filter accepts, new ones included. Call it once.

        New topics are found within ``metadata.max.age.ms``, or at once with ``zookeeper.connect``. Raises as
        ``create_message_streams``.
        """
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError(f"topic_filter must be a Whitelist or a Blacklist, not {type(topic_filter).__name__}")
        check_integer("streams", streams, 1, MAX_STREAMS)
        return list(map(self._stream, self._join(topic_filter, streams).reader.streams))

    def commit_offsets(self) -> None:
        """Commit the offsets after the processed records, and after those that the calling thread processes.

        Raises CommitFailed: the group has given the partitions to other members; KafkaError; ClientClosed;
        RuntimeError: the consumer has no streams yet.
        """
        member = self._joined()
        if not member.is_calling:  # which may commit during shutdown, too
            self._check_usable()
        with self._call():
            timeout_ms = self._config.client.default_api_timeout_ms
            member.reader.commits.commit(timeout_ms=timeout_ms, in_listener=member.is_calling)

    def shutdown(self) -> None:
        """Commit the offsets after the processed records, if commits are automatic; leave the group; end the streams.

        It may be called twice, in a handler of a signal, and while threads process records. These records are not
        committed, because it is not known whether their processing succeeds: another member gets them, too. The end of
        a ``with`` block without an exception commits those that its thread processes.
        """
        self._shut_down(finished_in=None)

    # --- inside

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._pid != os.getpid():
            raise ClientClosed("the consumer belongs to the process before fork(); make one in each process")

    def _joined(self) -> ConsumerMember[StreamPartitions]:
        member = self._member
        if member is None:
            self._check_usable()
            with self._call(), self._lock:  # its listener may be called before it is known
                member = self._member
        if member is None:
            raise RuntimeError("the consumer has no streams yet; call create_message_streams first")
        return member

    def _stream(self, partitions: StreamPartitions) -> MessageStream:
        config = self._config
        return MessageStream(partitions, config.key_deserializer, config.value_deserializer, consumer=self)

    def _join(self, topics: Mapping[str, int] | TopicFilter, streams: int) -> ConsumerMember[StreamPartitions]:
        with self._call(), self._lock:
            self._check_usable()
            if self._member is not None:
                raise RuntimeError("the consumer has streams already; make another consumer")
            # The streams must not refer to the consumer, or it would never be collected.
            make_stream = functools.partial(_stream_of, self._config.consumer_timeout_ms)
            self._member = ConsumerMember(self._config, topics, streams, make_stream, listener=self._listener)
            # A consumer that is forgotten without shutdown would keep its partitions.
            weakref.finalize(self, self._member.forget).atexit = False
        if self._is_closed:  # by a handler of a signal
            self._member.stop()
        return self._member

    def _shut_down(self, *, finished_in: threading.Thread | None) -> None:
        self._is_closed = True
        member = self._member
        if member is None or self._pid != os.getpid():
            return  # in a forked process the member, its connections and its streams are those of the parent
        if finished_in is not None:
            with self._call():
                member.reader.commits.acknowledge(finished_in)
        member.stop()
        thread = threading.current_thread()
        if member.is_calling:
            return  # the member leaves once the listener has returned
        if thread in self._calling or any(stream.taker is thread for stream in member.reader.streams):
            # A handler of a signal has interrupted a call, which may hold locks that the member's thread needs. So the
            # end of the process waits for it, instead of the handler.
            threading.Thread(target=member.join, name="kafka-consumer-end").start()
        else:
            member.join()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Note that this thread is in a call."""
        thread = threading.current_thread()
        try:
            self._calling.add(thread)
            yield
        finally:
            self._calling.discard(thread)


def _stream_of(
    timeout_ms: int, cluster: Cluster, reset: Callable[[TopicPartition], int], wake: Callable[[], None]
) -> StreamPartitions:
    return StreamPartitions(cluster, timeout_ms=timeout_ms, reset=reset, wake=wake)
