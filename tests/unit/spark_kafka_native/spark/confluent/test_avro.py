import importlib
import sys

import pytest

PACKAGE = "spark_kafka_native._spark.confluent"


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("avro", "decoding"):
        monkeypatch.delitem(sys.modules, f"{PACKAGE}.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(f"{PACKAGE}.avro")
    assert str(caught.value) == (
        "decode_avro and encode_avro need the package fastavro: run `pip install 'spark-kafka-native[avro]'`"
    )
