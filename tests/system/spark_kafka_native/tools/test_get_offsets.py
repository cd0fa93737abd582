import pytest

from tests.support.tools import Tool


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    on_broker("kafka-console-producer", "--topic", name, stdin=b"a\nb\nc\n")
    return name


@pytest.mark.parametrize(
    ("time", "offset"),
    [("latest", "3"), ("-1", "3"), ("earliest", "0"), ("-2", "0"), ("1", "0"), ("99999999999999", "")],
)
def test_positions_and_times(on_broker: Tool, topic: str, time: str, offset: str) -> None:
    response = on_broker("kafka-get-offsets", "--topic", topic, "--time", time)
    assert (response.status, response.out) == (0, f"{topic}:0:{offset}\n")


def test_all_topics_and_chosen_partitions(on_broker: Tool, topic: str) -> None:
    assert f"{topic}:0:3" in on_broker("kafka-get-offsets", "--exclude-internal-topics").lines
    assert on_broker("kafka-get-offsets", "--topic", topic, "--partitions", "1,2").out == ""


def test_bad_options(on_broker: Tool) -> None:
    assert "--time: must be a time in ms or one of" in on_broker("kafka-get-offsets", "--time", "soon").err
    assert "--partitions: 'a' is not N,N" in on_broker("kafka-get-offsets", "--partitions", "a").err
    missing = on_broker("kafka-get-offsets", "--topic", "not-there")
    assert (missing.status, "not-there" in missing.err) == (1, True)
