from tests.system.spark_kafka_native.tools.conftest import Tool


def test_the_shell_of_zookeeper_says_that_there_is_none(tool: Tool) -> None:
    answer = tool("zookeeper-shell", "localhost:2181", "ls", "/")
    assert (answer.status, "this KAFKA_HOME has no ZooKeeper" in answer.err) == (2, True)
