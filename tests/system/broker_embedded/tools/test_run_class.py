import pytest

from broker_embedded._tools.run_class import CLASSES, SCRIPTS, tool_and_arguments
from spark_kafka_native._command_line.output import InvalidOption
from tests.support.tools import Tool


def test_every_class_stands_for_a_script() -> None:
    assert set(CLASSES.values()) <= set(SCRIPTS)


def test_options_for_the_jvm_are_passed_over() -> None:
    found = tool_and_arguments(["-daemon", "-name", "kafkaServer", "-loggc", "kafka.Kafka", "-x", "server.properties"])
    assert found == ("kafka-server-start", ["-x", "server.properties"])


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("kafka.tools.GetOffsetsShell", "kafka.tools.GetOffsetShell"),
        ("org.apache.kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand"),
        ("TransactionsCommand", "org.apache.kafka.tools.TransactionsCommand"),
    ],
)
def test_the_nearest_class_is_suggested(name: str, nearest: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^no tool has the class {name}; .*; did you mean {nearest}\?$"):
        tool_and_arguments([name])


def test_a_class_that_no_tool_has_is_named() -> None:
    with pytest.raises(
        InvalidOption, match=r"^no tool has the class a\.Reassignment; the classes are kafka\.Kafka, .*[a-z]$"
    ):
        tool_and_arguments(["a.Reassignment"])
    with pytest.raises(InvalidOption, match="the name of a Java class is required"):
        tool_and_arguments(["-daemon"])


def test_the_tool_runs(tool: Tool) -> None:
    assert tool("kafka-run-class", "kafka.tools.StorageTool", "random-uuid").status == 0
    for none in ((), ("",)):
        assert tool("kafka-run-class", *none).err == "kafka-run-class: the name of a Java class is required\n"
    refused = tool("kafka-run-class", "a.B")
    assert (refused.status, refused.err.startswith("kafka-run-class: no tool has the class a.B")) == (2, True)


def test_arguments_are_passed_on_as_they_are(tool: Tool) -> None:
    response = tool("kafka-run-class", "org.apache.kafka.tools.TopicCommand", "--list", "--", "--create")
    assert (response.status, "Got unexpected extra argument (--create)" in response.err) == (2, True), response.err
    assert tool("kafka-run-class", "org.apache.kafka.tools.TopicCommand", "--version").status == 0
