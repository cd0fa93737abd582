"""The tables of options: whole, and documented."""

import pytest

from spark_kafka_native.spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS, Option


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, SINK_OPTIONS])
def test_option_names_are_unique_and_documented(table: tuple[Option, ...]) -> None:
    assert len({option.name.lower() for option in table}) == len(table)
    for option in table:
        assert option.doc.endswith(".")
        assert option.legal
        assert option.batch or option.stream
