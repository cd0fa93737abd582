from tests.system.spark_kafka_native.tools.conftest import Tool


def test_a_tool_that_is_not_there(tool: Tool) -> None:
    answer = tool("kafka-mirror-maker")
    assert (answer.status, answer.err.endswith("; no 'kafka-mirror-maker'\n")) == (2, True)


def test_without_a_name_the_tools_are_listed(tool: Tool) -> None:
    answer = tool()
    assert answer.status == 2
    assert "home, kafka-configs, kafka-console-consumer" in answer.err
