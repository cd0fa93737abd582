import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.console.consumer import FORMAT_PROPERTIES, to_line
from tests.support.tools import Tool

ROW = {
    "key": b"k",
    "value": None,
    "offset": 7,
    "timestamp": 1_500,
    "timestamp_type": 0,
    "headers": [{"key": "h", "value": b"1"}, {"key": "i", "value": None}],
}


def line(**form: str) -> bytes:
    properties = FORMAT_PROPERTIES | {name.replace("_", "."): value for name, value in form.items()}
    return to_line(ROW, TopicPartition("t", 3), properties)


def test_a_line_is_a_value() -> None:
    assert line() == b"null\n"
    assert line(null_literal="-", line_separator=";") == b"-;"


def test_all_print_properties_of_the_console_consumer() -> None:
    every = {f"print_{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}
    assert line(**every) == b"CreateTime:1500\tPartition:3\tOffset:7\th:1,i:null\tk\tnull\n"
    assert line(**every, key_separator=" | ", print_value="false").endswith(b" | k\n")


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "2")
    lines = b"".join(b"%d\n" % number for number in range(6))
    assert on_broker("kafka-console-producer", "--topic", name, stdin=lines).status == 0
    return name


def consume(on_broker: Tool, topic: str, *arguments: str) -> list[str]:
    response = on_broker("kafka-console-consumer", "--topic", topic, "--timeout-ms", "1", *arguments)
    assert response.status == 0, response.err
    assert response.err.endswith(f"Processed a total of {len(response.lines)} messages\n")
    return response.lines


def test_reading_begins_at_the_end_or_at_the_beginning(on_broker: Tool, topic: str) -> None:
    assert consume(on_broker, topic) == []
    assert sorted(consume(on_broker, topic, "--from-beginning")) == ["0", "1", "2", "3", "4", "5"]
    assert len(consume(on_broker, topic, "--from-beginning", "--max-messages", "4")) == 4


def test_one_partition_from_an_offset(on_broker: Tool, topic: str) -> None:
    parts = [
        consume(on_broker, topic, "--partition", str(part), "--offset", "earliest", "--property", "print.offset=true")
        for part in (0, 1)
    ]
    assert sorted(len(part) for part in parts) == [0, 6]  # keyless records of one batch stay together
    full = max((0, 1), key=lambda index: len(parts[index]))
    assert consume(on_broker, topic, "--partition", str(full), "--offset", "4") == ["4", "5"]
    assert consume(on_broker, topic, "--partition", str(full), "--offset", "latest") == []


def test_group_of_the_console_consumer_continues(on_broker: Tool, topic: str) -> None:
    group = f"group-of-{topic}"
    arguments = ("--from-beginning", "--group", group)
    assert len(consume(on_broker, topic, *arguments, "--max-messages", "4")) == 4
    assert len(consume(on_broker, topic, *arguments)) == 2
    assert consume(on_broker, topic, *arguments) == []


def test_topics_by_regular_expression(on_broker: Tool, topic: str) -> None:
    response = on_broker(
        "kafka-console-consumer", "--include", f"{topic}|nothing", "--from-beginning", "--max-messages", "6"
    )
    assert len(response.lines) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--offset", "3"), "--offset needs --partition"),
        (("--partition", "0", "--offset", "first"), "must be an offset, earliest or latest"),
        (("--partition", "9"), "has no partition 9"),
        (("--property", "print.keys=true"), "--property: 'print.keys' is not one of print.timestamp"),
        (("--consumer-property", "x"), "--consumer-property: KEY=VALUE is expected"),
    ],
)
def test_bad_options(on_broker: Tool, topic: str, arguments: tuple[str, ...], words: str) -> None:
    response = on_broker("kafka-console-consumer", "--topic", topic, "--timeout-ms", "1", *arguments)
    assert response.status == 2
    assert words in response.err
