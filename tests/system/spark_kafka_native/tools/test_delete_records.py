import json
from pathlib import Path

import pytest

from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.delete_records import read_offsets
from tests.support.tools import Tool


def written(path: Path, *entries: object, version: int = 1) -> Path:
    path.write_text(json.dumps({"partitions": entries, "version": version}))
    return path


def test_records_before_an_offset_are_deleted(on_broker: Tool, tmp_path: Path) -> None:
    topic = "tool-delete-records"
    on_broker("kafka-topics", "--create", "--topic", topic, "--partitions", "1")
    on_broker("kafka-console-producer", "--topic", topic, stdin=b"a\nb\nc\n")
    file = written(tmp_path / "offsets.json", {"topic": topic, "partition": 0, "offset": 2})
    response = on_broker("kafka-delete-records", "--offset-json-file", str(file))
    assert (response.status, response.lines[-1]) == (0, f"partition: {topic}-0\tlow_watermark: 2")
    assert on_broker("kafka-get-offsets", "--topic", topic, "--time", "earliest").out == f"{topic}:0:2\n"
    beyond = written(tmp_path / "offsets.json", {"topic": topic, "partition": 0, "offset": 9})
    refused = on_broker("kafka-delete-records", "--offset-json-file", str(beyond))
    assert refused.status == 1
    assert f"{topic}-0, records before 9" in refused.err


def test_a_file_is_read(tmp_path: Path) -> None:
    file = written(tmp_path / "o.json", {"topic": "t", "partition": 1, "offset": -1})
    assert read_offsets(file) == {TopicPartition("t", 1): -1}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the file is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "the JSON is not an object with the field partitions"),
        ("{}", "the field partitions is missing"),
        ('{"partitions": 1}', "the field partitions is 1, not a list"),
        ('{"partitions": [], "version": 2}', "the field version is 2; only 1 is known"),
        ('{"partitions": [[]]}', "partitions[0] is not an object with topic, partition and offset"),
        ('{"partitions": [{"topic": "t"}]}', "partitions[0]: the field partition is missing"),
        (
            '{"partitions": [{"topic": "t", "partition": 1, "offset": "7"}]}',
            'partitions[0]: the field offset is "7", not an integer',
        ),
    ],
)
def test_an_error_in_the_file_names_file_and_field(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "o.json"
    file.write_text(content)
    with pytest.raises(InvalidOption) as refused:
        read_offsets(file)
    assert str(refused.value) == f"--offset-json-file {file}: {problem}"


def test_a_partition_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    entry = {"topic": "t", "partition": 1, "offset": 5}
    with pytest.raises(InvalidOption, match="partitions names t-1 twice"):
        read_offsets(written(tmp_path / "o.json", entry, entry))
