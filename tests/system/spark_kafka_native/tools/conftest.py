import itertools

import pytest

from spark_kafka_native.tools import main
from tests.support.servers.brokers import AnyBroker
from tests.support.tools import Tool, ToolResult, calling

NUMBERS = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A topic's name that no other test has."""
    return f"tool-topic-{next(NUMBERS)}"


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    return calling(main, capfd, monkeypatch)


@pytest.fixture
def on_broker(tool: Tool, any_broker: AnyBroker) -> Tool:
    def call(name: str, *arguments: str, stdin: bytes = b"") -> ToolResult:
        return tool(name, "--bootstrap-server", any_broker.bootstrap_servers, *arguments, stdin=stdin)

    return call
