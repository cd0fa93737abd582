from datetime import timedelta

import pytest

from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._tools.groups.offset_reset import parse_duration
from tests.support.tools import Tool

TOPIC = "tool-reset"


@pytest.fixture(scope="module")
def made() -> set[str]:
    return set()


@pytest.fixture
def reset(on_broker: Tool, made: set[str]) -> Tool:
    """Offsets by a position, of a group at 4 in a partition of 6 of which the first is deleted."""
    if not made:
        made.add(TOPIC)
        on_broker("kafka-topics", "--create", "--topic", TOPIC, "--partitions", "1")
        on_broker("kafka-console-producer", "--topic", TOPIC, stdin=b"1\n2\n3\n4\n5\n6\n")
        on_broker(
            "kafka-console-consumer", "--topic", TOPIC, "--from-beginning", "--group", TOPIC, "--max-messages", "4"
        )

    def call(*arguments: str, stdin: bytes = b"") -> object:
        return on_broker("kafka-consumer-groups", "--reset-offsets", "--group", TOPIC, *arguments, stdin=stdin)

    return call  # type: ignore[return-value]  # a Tool returns an Answer


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 6),
        (("--to-current",), 4),
        (("--to-offset", "3"), 3),
        (("--to-offset", "99"), 6),
        (("--shift-by", "-2"), 2),
        (("--shift-by", "-9"), 0),
        (("--to-datetime", "2001-01-01T00:00:00.000"), 0),
        (("--to-datetime", "2101-01-01T00:00:00"), 6),
        (("--by-duration", "P1D"), 0),
    ],
)
def test_positions(reset: Tool, position: tuple[str, ...], offset: int) -> None:
    for topics in (("--topic", f"{TOPIC}:0"), ("--all-topics",)):
        response = reset(*topics, *position)
        assert response.lines[-1].split() == [TOPIC, TOPIC, "0", str(offset)], response.err


@pytest.mark.parametrize(
    ("position", "warning"),
    [
        (
            ("--to-offset", "99"),
            "New offset (99) is higher than latest offset for topic partition {}. Value will be set to 6",
        ),
        (
            ("--shift-by", "-9"),
            "New offset (-5) is lower than earliest offset for topic partition {}. Value will be set to 0",
        ),
    ],
)
def test_an_offset_that_the_partition_does_not_have_is_replaced_with_a_warning(
    reset: Tool, position: tuple[str, ...], warning: str
) -> None:
    response = reset("--topic", f"{TOPIC}:0", *position)
    assert (response.status, f"WARNING: {warning.format(f'{TOPIC}-0')}" in response.err.splitlines()) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", TOPIC), "--reset-offsets needs one of"),
        (("--topic", f"{TOPIC}:7", "--to-latest"), f"topic {TOPIC} has no partition 7"),
        (("--topic", f"{TOPIC}:x", "--to-latest"), "is not TOPIC or TOPIC:0,1"),
        (("--topic", TOPIC, "--to-datetime", "noon"), "--to-datetime: 'noon' is not like"),
        (("--topic", TOPIC, "--by-duration", "1h"), "--by-duration: '1h' is not like"),
    ],
)
def test_bad_options(reset: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = reset(*arguments)
    assert response.status == 2
    assert words in response.err


def test_durations() -> None:
    assert parse_duration("P1DT2H3M4.5S") == timedelta(days=1, hours=2, minutes=3, seconds=4.5)
    for bad in ("P", "PT", "1D", ""):
        with pytest.raises(InvalidOption):
            parse_duration(bad)
