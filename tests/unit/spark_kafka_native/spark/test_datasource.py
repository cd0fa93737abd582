import importlib
import inspect
import pickle
import re
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader
from pyspark.sql.types import StructType

from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.errors import OptionError, PlanError
from spark_kafka_native._spark.sink.rows import SINK_COLUMNS
from spark_kafka_native._spark.source.batch_reader import PyKafkaReader
from spark_kafka_native._spark.source.schema import SPARK_TYPES
from spark_kafka_native._spark.source.stream_reader import PyKafkaStreamReader

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}


def source(**options: str) -> PyKafkaDataSource:
    as_spark_gives_them: Any = CaseInsensitiveDict(BASE | options)  # no dict, whatever Spark declares
    return PyKafkaDataSource(as_spark_gives_them)


def test_spark_finds_the_source_by_the_name_of_its_module() -> None:
    found = importlib.import_module("pyspark_pykafka").DefaultSource
    assert found is PyKafkaDataSource
    assert issubclass(found, DataSource)
    assert found.name() == "pykafka"


def test_the_docstring_lists_the_columns_with_their_types() -> None:
    _, source_table, sink_table = (inspect.getdoc(PyKafkaDataSource) or "").split("\ncolumn  ")
    for name, kind in SPARK_TYPES.items():
        assert re.search(rf"^{name} +{re.escape(kind.simpleString())}(?!\w)", source_table, re.MULTILINE)
    for name in SINK_COLUMNS:
        assert re.search(rf"^{name}  +\w", sink_table, re.MULTILINE)


def test_include_headers_adds_the_column_headers() -> None:
    assert "headers" not in source().schema().fieldNames()
    assert source(includeHeaders="true").schema().fieldNames()[-1] == "headers"


def test_options_are_checked_at_load_and_again_for_batch_and_stream() -> None:
    with pytest.raises(OptionError, match="'assign'"):
        source(assign='{"t":[0]}').schema()
    ending = source(endingOffsets="latest")
    assert isinstance(ending.reader(ending.schema()), PyKafkaReader)
    with pytest.raises(OptionError, match="valid only in a batch query"):
        ending.streamReader(ending.schema())
    starting = source(startingOffsets="latest")
    assert isinstance(starting.streamReader(starting.schema()), PyKafkaStreamReader)
    with pytest.raises(OptionError, match="cannot be latest in a batch query"):
        starting.reader(starting.schema())


def test_user_schemas_are_checked() -> None:
    schema = StructType.fromJson({"fields": [{"name": "x", "type": "binary", "nullable": True, "metadata": {}}]})
    for make in (source().reader, source().streamReader):
        with pytest.raises(PlanError, match="column 'x' is not a column of the source"):
            make(schema)


def test_push_filters_is_not_defined() -> None:
    """Spark refuses a reader that defines it while filter push-down is off, as it is by default."""
    assert type(source().reader(source().schema())).pushFilters is DataSourceReader.pushFilters


def test_sources_and_readers_are_plain_values() -> None:
    made = source()
    assert dict(pickle.loads(pickle.dumps(made)).options) == dict(made.options)
    assert pickle.loads(pickle.dumps(made.reader(made.schema())))._options == made.reader(made.schema())._options
