"""Counting what passes through a broker."""

import threading

from broker_embedded.metrics.traffic import TopicTraffic, Traffic
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.find_coordinator import FindCoordinatorResponse


def test_requests_are_counted_by_api_and_version() -> None:
    traffic = Traffic()
    for version, code in ((3, 0), (3, ErrorCode.INVALID_REQUEST), (4, 0)):
        answer = FindCoordinatorResponse(error_code=code)
        traffic.answered(10, "FindCoordinator", version, bytes_in=5, bytes_out=7, ns=1000, answer=answer)
    traffic.answered(0, "Produce", 9, bytes_in=100, bytes_out=0, ns=1000, answer=None)
    found = traffic.apis[10]
    assert (found.name, dict(found.versions), dict(found.errors)) == ("FindCoordinator", {3: 2, 4: 1}, {42: 1})
    assert (found.bytes_in, found.bytes_out, found.times.count) == (15, 21, 3)
    assert (traffic.apis[0].bytes_in, traffic.apis[0].times.count) == (100, 1)


def test_topics_that_are_gone_are_forgotten() -> None:
    traffic = Traffic()
    traffic.topic("a").sent(5)
    traffic.topic("b").sent(6)
    assert traffic.topic("a").bytes_out == 5
    traffic.forget_others({"b"})
    assert list(traffic.topics) == ["b"]
    assert traffic.topic("a").bytes_out == 0


def test_appends_in_many_threads_are_all_counted() -> None:
    topic = TopicTraffic()

    def append() -> None:
        for _ in range(20_000):
            topic.appended(10, 2)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (topic.bytes_in, topic.messages_in) == (800_000, 160_000)


def test_connections() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.connection_opened()
    traffic.connection_closed()
    assert (traffic.connections, traffic.connections_opened) == (2, 3)
