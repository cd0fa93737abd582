import gc
import pickle
import sys

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThanOrEqual, InputPartition

from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning import cluster_offsets
from spark_kafka_native._spark.planning.packing import from_plain
from spark_kafka_native._spark.planning.ranges import OffsetRange
from spark_kafka_native._spark.source import batch_reader
from spark_kafka_native._spark.source.batch_reader import PyKafkaFilteringReader, PyKafkaReader
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.spark.fake_offsets import FakeCluster, collection_during_lookups

WHOLE = ["t-0 offsets [earliest, latest)", "t-1 offsets [earliest, latest)"]
BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
PUSHING = ["-m", "pyspark.sql.worker.data_source_pushdown_filters"]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster().add("t", 3, 0)
    monkeypatch.setattr(cluster_offsets, "ClusterOffsets", lambda _: made)
    return made


def reader(load_id: str = "load", **given: str) -> PyKafkaReader:
    options = parse_source_options(BASE | given, Query.BATCH)
    return batch_reader.batch_reader(options, layout_of(source_schema(include_headers=False)), load_id)


def planned(made: PyKafkaReader) -> list[str]:
    return [str(piece) for partition in made.partitions() for piece in from_plain(partition.value)]


def test_partitions_are_pickled_ranges() -> None:
    partitions = reader().partitions()
    assert [str(piece) for partition in partitions for piece in from_plain(partition.value)] == WHOLE
    for partition in pickle.loads(pickle.dumps(partitions)):
        assert isinstance(partition, InputPartition)
        (piece,) = from_plain(partition.value)
        assert isinstance(piece, OffsetRange)


def test_partitions_are_planned_without_garbage_collection(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = collection_during_lookups(cluster, monkeypatch)
    reader().partitions()
    reader(endingOffsets='{"t":{"0":2,"1":0}}').partitions()
    assert enabled == [False, False]
    PyKafkaDataSource(BASE | {"bindOffsets": "load"})
    assert enabled == [False, False, False]
    assert gc.isenabled()


def test_partition_none_reads_nothing() -> None:
    assert list(reader().read(InputPartition(None))) == []


# --- filters


@pytest.mark.feature("more.filters")
@pytest.mark.parametrize("wanted", ["true", "false"])
@pytest.mark.parametrize("argv", [["plan"], ["-m", "pyspark.sql.worker.plan_data_source_read"]])
def test_reader_without_pushdown_has_no_push_filters(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], wanted: str
) -> None:
    """Spark refuses a reader that defines ``pushFilters`` while its switch is off."""
    monkeypatch.setattr(sys, "argv", argv)
    assert type(reader(filterPushdown=wanted)).pushFilters is DataSourceReader.pushFilters


@pytest.fixture
def pushing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", PUSHING)
    monkeypatch.setattr(batch_reader, "_narrowings", {})


@pytest.mark.feature("more.filters")
def test_filters_are_pushed_only_with_the_option(pushing: None) -> None:
    assert type(reader()).pushFilters is DataSourceReader.pushFilters
    assert isinstance(reader(filterPushdown="true"), PyKafkaFilteringReader)


def push(load_id: str, *filters: Filter) -> list[str]:
    made = reader(load_id, filterPushdown="true")
    assert made.pushFilters(list(filters)) == list(filters), "Spark is to apply them all"
    return planned(pickle.loads(pickle.dumps(made)))


SECOND, LATER = EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 2)


@pytest.mark.feature("more.filters")
def test_filters_narrow_the_plan(pushing: None) -> None:
    assert push("a", SECOND) == WHOLE[1:]
    assert push("b", LATER) == ["t-0 offsets [2, latest)", "t-1 offsets [0, latest)"]
    assert push("a", SECOND) == WHOLE[1:], "planned again"


@pytest.mark.feature("more.filters")
def test_a_dataframe_with_several_filters_is_read_whole(pushing: None) -> None:
    """Spark runs all its scans with the plan that was made last."""
    assert push("a", SECOND) == WHOLE[1:]
    assert push("a", LATER) == WHOLE
    assert push("a", SECOND) == WHOLE
    assert push("b", SECOND) == WHOLE[1:]


def test_stored_narrowings_are_bounded(pushing: None) -> None:
    for number in range(1100):
        reader(str(number), filterPushdown="true").pushFilters([])
    assert len(batch_reader._narrowings) == 1000


# --- bound when the DataFrame is loaded


@pytest.mark.feature("more.bindOffsets")
def test_all_readers_of_a_bound_dataframe_plan_the_same_ranges(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, pushing: None
) -> None:
    """Spark pickles the source, which is made once for a ``load()``, to every process that plans."""
    made = PyKafkaDataSource(BASE | {"bindOffsets": "load", "filterPushdown": "true"})
    loaded = pickle.dumps(made)
    cluster.produce("t", 1, 5)
    schema = source_schema(include_headers=False)

    def planned_again(*filters: Filter) -> list[str]:
        reader = pickle.loads(loaded).reader(schema)
        if filters:
            reader.pushFilters(list(filters))
        return planned(reader)

    assert planned_again() == ["t-0 offsets [0, 3)"]
    monkeypatch.setattr(batch_reader, "_narrowings", {})
    assert planned_again(LATER) == ["t-0 offsets [2, 3)"]
    monkeypatch.setattr(sys, "argv", ["plan"])
    assert planned_again() == ["t-0 offsets [0, 3)"]


@pytest.mark.feature("more.bindOffsets")
@pytest.mark.parametrize("argv", [["plan"], PUSHING])
def test_the_ranges_of_a_bound_dataframe_are_not_pickled_into_tasks(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, argv: list[str]
) -> None:
    """Spark pickles both the source and its reader for the tasks, before it asks for the partitions."""
    cluster.add("wide", *[1] * 1000)
    monkeypatch.setattr(sys, "argv", argv)
    options = BASE | {"subscribe": "wide", "bindOffsets": "load", "filterPushdown": "true"}
    source = pickle.loads(pickle.dumps(PyKafkaDataSource(options)))
    made = source.reader(source_schema(include_headers=False))
    for_tasks = pickle.dumps((source, made))
    assert len(for_tasks) < 10_000
    assert len(planned(made)) == 1000
    with pytest.raises(RuntimeError, match="not available in a task"):
        pickle.loads(for_tasks)[1].partitions()


def test_no_offsets_are_looked_up_at_load_by_default(cluster: FakeCluster) -> None:
    for options in ({}, {"bindOffsets": "task"}):
        made = PyKafkaDataSource(BASE | options)
        assert cluster.requests == []
        assert planned(made.reader(made.schema())) == WHOLE
        cluster.requests.clear()


@pytest.mark.feature("more.bindOffsets")
def test_a_source_that_is_bound_is_for_batch_queries() -> None:
    made = PyKafkaDataSource(BASE | {"BINDOFFSETS": "load"})
    with pytest.raises(OptionError, match="option 'bindOffsets': is valid only in a batch query"):
        made.streamReader(made.schema())
    with pytest.raises(OptionError, match=r"option 'bindOffsets': .*task, load"):
        PyKafkaDataSource(BASE | {"bindOffsets": "plan"}).schema()
    sink = PyKafkaDataSource({"kafka.bootstrap.servers": "broker:9092", "bindOffsets": "load"})
    with pytest.raises(OptionError, match="option 'bindOffsets': belongs to the source"):
        sink.writer(source_schema(include_headers=False), overwrite=False)
