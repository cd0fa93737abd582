import gc
import json
import pickle
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning import cluster_offsets
from spark_kafka_native._spark.planning.packing import from_plain
from spark_kafka_native._spark.planning.ranges import OffsetRange
from spark_kafka_native._spark.source import stream_reader
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from spark_kafka_native._spark.source.stream_reader import PyKafkaStreamReader
from tests.support.spark.fake_offsets import FakeCluster, collection_during_lookups

ReaderOf = Callable[..., PyKafkaStreamReader]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster().add("t", 10, 4)


@pytest.fixture
def reader_of(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> ReaderOf:
    monkeypatch.setattr(cluster_offsets, "ClusterOffsets", lambda _: cluster)

    def make(**options: str) -> PyKafkaStreamReader:
        base = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t", "startingOffsets": "earliest"}
        parsed = parse_source_options(base | options, Query.STREAM)
        return PyKafkaStreamReader(parsed, layout_of(source_schema(include_headers=False)))

    return make


def test_stream_reader_calls_of_one_batch(reader_of: ReaderOf) -> None:
    reader = reader_of()
    start = reader.initialOffset()
    assert json.dumps(start) == '{"t": {"0": 0, "1": 0}}'
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == reader.reportLatestOffset() == {"t": {"0": 10, "1": 4}}
    tasks = [from_plain(partition.value) for partition in reader.partitions(start, end)]
    assert [str(piece) for (piece,) in tasks] == ["t-0 offsets [0, 10)", "t-1 offsets [0, 4)"]
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end
    assert reader.partitions(end, end) == []


def test_micro_batch_is_planned_without_garbage_collection(
    reader_of: ReaderOf, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = collection_during_lookups(cluster, monkeypatch)

    def input_partition(task: Any) -> InputPartition:
        enabled.append(gc.isenabled())
        return InputPartition(task)

    monkeypatch.setattr(stream_reader, "InputPartition", input_partition)
    reader = reader_of()
    start = reader.initialOffset()
    assert enabled == [False]
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert enabled == [False, False]
    assert len(reader.partitions(start, end)) == 2
    assert enabled == [False, False, False, False]
    assert gc.isenabled()


def test_latest_offset_without_new_records_is_the_same_start(reader_of: ReaderOf) -> None:
    """Spark compares offsets as text; a checkpoint of the JVM connector may be in another order than ours."""
    reader = reader_of()
    start = {"t": {"1": 4, "0": 10}}
    assert reader.latestOffset(start, ReadMaxRows(5)) is start


def test_max_offsets_per_trigger_is_the_default_read_limit(reader_of: ReaderOf) -> None:
    limited = reader_of(maxOffsetsPerTrigger="5")
    assert limited.getDefaultReadLimit() == ReadMaxRows(5)
    end = limited.latestOffset(limited.initialOffset(), limited.getDefaultReadLimit())
    assert sum(end["t"].values()) == 5


@pytest.mark.feature("source.minOffsetsPerTrigger", "source.maxTriggerDelay")
def test_min_offsets_per_trigger_is_a_read_limit_too(reader_of: ReaderOf, cluster: FakeCluster) -> None:
    """Spark has none that says both; what it hands back is a marker, the options say what applies."""
    least = reader_of(minOffsetsPerTrigger="5")
    assert least.getDefaultReadLimit() == ReadMinRows(5)
    assert reader_of(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="6").getDefaultReadLimit() == ReadMaxRows(6)
    end = least.latestOffset(least.initialOffset(), ReadMinRows(5))
    assert end == {"t": {"0": 10, "1": 4}}
    cluster.produce("t", 0, 4)
    assert least.latestOffset(end, ReadMinRows(5)) is end
    assert reader_of(minOffsetsPerTrigger="5").latestOffset(end, ReadAllAvailable()) == {"t": {"0": 14, "1": 4}}


@pytest.mark.feature("run.latestOffset", "better.planning")
def test_unchanged_offsets_are_parsed_and_formatted_once(
    reader_of: ReaderOf, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reader_of()
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end
    reported = reader.reportLatestOffset()
    cluster.requests.clear()

    def never(*_: object) -> None:
        raise AssertionError("nothing has changed")

    monkeypatch.setattr(stream_reader, "parse_offsets", never)
    monkeypatch.setattr(stream_reader, "format_offsets", never)
    for _ in range(3):
        again = json.loads(json.dumps(end))
        assert reader.latestOffset(again, reader.getDefaultReadLimit()) is again
        assert reader.reportLatestOffset() is reported


@pytest.mark.feature("more.jvmCheckpoint")
def test_first_end_offset_of_the_jvm_connector_is_refused(reader_of: ReaderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ModuleType("__main__")
    runner.__spec__ = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
    runner.json = json  # type: ignore[attr-defined]  # which the runner imports
    monkeypatch.setitem(sys.modules, "__main__", runner)
    for text, is_ours in (('{"t": {"0": 9, "1": 4}}', True), ('{"t":{"0":9,"1":4}}', False)):
        reader = reader_of()
        initial = reader.initialOffset()
        start = runner.json.loads(json.dumps(initial))
        end = runner.json.loads(text)
        if is_ours:
            assert len(reader.partitions(start, end)) == 2
        else:
            with pytest.raises(PlanError, match="KAFKA_START_OF_FIRST_BATCH_UNKNOWN"):
                reader.partitions(start, end)


@pytest.mark.parametrize("stored", [{"foo": 1}, 17, [{"t": 1}], {"t": {"0": "x"}}])
def test_offsets_of_another_source_in_the_checkpoint(reader_of: ReaderOf, stored: Any) -> None:
    ours = {"t": {"0": 9, "1": 4}}
    reader = reader_of()
    for call in (lambda: reader.latestOffset(stored, ReadAllAvailable()), lambda: reader.partitions(ours, stored)):
        with pytest.raises(PlanError, match=r"the offsets in the checkpoint are not of this source: .* checkpoint"):
            call()


def test_trigger_once_is_recognised_by_its_read_limit(reader_of: ReaderOf) -> None:
    """The default limit is never ReadAllAvailable, so that one can only be Trigger.Once, which ignores limits."""
    assert reader_of().getDefaultReadLimit() != ReadAllAvailable()
    limited = reader_of(maxOffsetsPerTrigger="5")
    assert limited.latestOffset(limited.initialOffset(), ReadAllAvailable()) == {"t": {"0": 10, "1": 4}}


def test_available_now_is_supported(reader_of: ReaderOf, cluster: FakeCluster) -> None:
    reader = reader_of()
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    cluster.produce("t", 0, 1)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    cluster.produce("t", 0, 1)
    assert end == {"t": {"0": 11, "1": 4}}
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end


def test_report_latest_offset_before_the_first_lookup_is_none(reader_of: ReaderOf) -> None:
    assert reader_of().reportLatestOffset() is None


def test_stop_is_not_implemented() -> None:
    assert PyKafkaStreamReader.stop is DataSourceStreamReader.stop
    assert PyKafkaStreamReader.commit is DataSourceStreamReader.commit


def test_pickled_reader_has_no_driver_state(reader_of: ReaderOf) -> None:
    reader = reader_of()
    travelled = pickle.loads(pickle.dumps(reader))
    assert travelled._stream is None
    assert travelled._options == reader._options
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (partition, *_) = reader.partitions({"t": {"0": 0, "1": 0}}, {"t": {"0": 1, "1": 0}})
    again = pickle.loads(pickle.dumps(partition))
    assert isinstance(again, InputPartition)
    (piece,) = from_plain(again.value)
    assert isinstance(piece, OffsetRange)
    assert again.value == partition.value
