import pytest

from broker_embedded.tools.commands import CLASSES, SCRIPTS, tool_and_arguments
from spark_kafka_native.tools.output import ToolError
from tests.support.tools import Tool


def test_every_class_stands_for_a_script() -> None:
    assert set(CLASSES.values()) <= set(SCRIPTS)


def test_options_for_the_jvm_are_passed_over() -> None:
    found = tool_and_arguments(["-daemon", "-name", "kafkaServer", "-loggc", "kafka.Kafka", "-x", "server.properties"])
    assert found == ("kafka-server-start", ["-x", "server.properties"])


def test_a_class_that_is_not_stood_in_for_is_named() -> None:
    with pytest.raises(ToolError, match=r"kafka\.tools\.MirrorMaker is not the class of a tool"):
        tool_and_arguments(["kafka.tools.MirrorMaker"])
    with pytest.raises(ToolError, match="the name of a Java class is required"):
        tool_and_arguments(["-daemon"])


def test_the_tool_runs(tool: Tool) -> None:
    assert tool("kafka-run-class", "kafka.tools.StorageTool", "random-uuid").status == 0
    refused = tool("kafka-run-class", "a.B")
    assert (refused.status, refused.err.startswith("kafka-run-class: a.B is not the class of a tool")) == (2, True)
