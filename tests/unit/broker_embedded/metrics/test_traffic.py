import dataclasses
import random
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from broker_embedded._metrics.error_codes import error_finder
from broker_embedded._metrics.histogram import BOUNDS_NS, Histogram
from broker_embedded._metrics.traffic import TopicTraffic, Traffic
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorResponse
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchResponse
from tests.support.records.message_strategies import messages


def test_requests_are_counted_by_api_and_version() -> None:
    traffic = Traffic()
    for version, code in ((3, 0), (3, ErrorCode.INVALID_REQUEST), (4, 0)):
        response = FindCoordinatorResponse(error_code=code)
        traffic.answered(10, "FindCoordinator", version, bytes_in=5, bytes_out=7, ns=1000, response=response)
    traffic.answered(0, "Produce", 9, bytes_in=100, bytes_out=0, ns=1000, response=None)
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


def test_connections_opened_and_closed_are_counted() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.connection_opened()
    traffic.connection_closed()
    assert (traffic.connections, traffic.connections_opened) == (2, 3)


MS = 1_000_000


def of(*times_ns: int) -> Histogram:
    found = Histogram()
    for ns in times_ns:
        found.add(ns)
    return found


def test_percentiles_of_no_request_are_0() -> None:
    assert (of().count, of().total_s, of().percentile_s(99)) == (0, 0.0, 0.0)


def test_counts_and_sums() -> None:
    found = of(1 * MS, 2 * MS, 3 * MS)
    assert found.count == 3
    assert found.total_s == pytest.approx(0.006)


@pytest.mark.parametrize("scale_ns", [20_000, 3 * MS, 500 * MS])
def test_percentiles_of_request_times(scale_ns: int) -> None:
    rng = random.Random(1)
    times = [int(rng.expovariate(1) * scale_ns) for _ in range(20_000)]
    found, ordered = of(*times), sorted(times)
    for percent in (50, 90, 99, 99.9):
        exact = ordered[int(len(times) * percent / 100)] / 1e9
        assert found.percentile_s(percent) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("ns", [0, 1, BOUNDS_NS[0], BOUNDS_NS[-1], BOUNDS_NS[-1] + 1, 10**15])
def test_the_shortest_and_the_longest(ns: int) -> None:
    found = of(ns)
    assert found.count == 1
    assert 0 <= found.percentile_s(100) <= BOUNDS_NS[-1] / 1e9


def test_a_time_at_a_bound_is_in_the_bucket_that_ends_there() -> None:
    for bound in BOUNDS_NS:
        assert of(bound).percentile_s(100) == pytest.approx(bound / 1e9)


def test_cumulative_counts_never_fall_and_leave_out_the_longest_alone() -> None:
    buckets = of(5_000, 20_000, 1 * MS, 10**15).cumulative()
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 3)
    assert [bound for bound, _ in buckets] == sorted(bound for bound, _ in buckets)
    assert dict(buckets)[BOUNDS_NS[4] / 1e9] == 1


RESPONSES = sorted({request.response for request in all_requests().values()}, key=lambda cls: cls.__name__)


def by_walking(value: object) -> Counter[int]:
    """Every error code that is not 0, found the slow way."""
    found: Counter[int] = Counter()
    if isinstance(value, tuple):
        for item in value:
            found += by_walking(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name.endswith("error_code") and isinstance(inner, int):
                found[inner] += inner != 0
            else:
                found += by_walking(inner)
    return +found


def by_function(value: Any) -> Counter[int]:
    found: Counter[int] = Counter()

    def add(code: int) -> None:
        found[code] += 1

    error_finder(type(value))(value, add)
    return found


@pytest.mark.parametrize("cls", RESPONSES, ids=lambda cls: cls.__name__)
def test_the_error_codes_of_every_response_are_counted(cls: Any) -> None:
    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(messages(cls, cls.max_version))
    def check(value: Any) -> None:
        assert by_function(value) == by_walking(value)

    check()


def test_errors_of_the_whole_and_of_parts() -> None:
    parts = tuple(PartitionData(partition_index=index, error_code=code) for index, code in enumerate((0, 3, 1, 3)))
    response = FetchResponse(error_code=70, responses=(FetchableTopicResponse(partitions=parts),))
    assert by_function(response) == {70: 1, 3: 2, 1: 1}


def test_a_list_that_is_not_there_has_none() -> None:
    assert by_function(OffsetFetchResponse()) == {}
