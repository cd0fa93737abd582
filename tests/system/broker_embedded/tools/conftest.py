from pathlib import Path

import pytest

from broker_embedded._tools.home import make_home
from broker_embedded.testing import EmbeddedBroker
from broker_embedded.tools import main
from tests.support.requests.transaction_views import settle
from tests.support.requests.transactions import RawProducer
from tests.support.tools import Tool, calling


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    return calling(main, capfd, monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_home(tmp_path / "home")
    return tmp_path / "home"


def written_segment(tool: Tool, data_dir: Path, *, as_version: str = "4.3", **configs: str) -> Path:
    """The segment of a topic with two batches of a record each."""
    with EmbeddedBroker(data_dir, settings={"as.version": as_version}) as broker:
        broker.create_topic("t", configs=configs)
        for line in (b"k1\tv1\n", b"k2\tv2\n"):
            servers = ("--bootstrap-server", broker.bootstrap_servers)
            keyed = ("--property", "parse.key=true", "--producer-property", "enable.idempotence=false")
            assert tool("kafka-console-producer", *servers, "--topic", "t", *keyed, stdin=line).status == 0
    return data_dir / "t-0/00000000000000000000.log"


@pytest.fixture(scope="session")
def coordinated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with aborted and open transactions, and the offsets that one of them committed."""
    data = tmp_path_factory.mktemp("data")
    with EmbeddedBroker(data, settings={"offsets.topic.num.partitions": "1"}) as broker:
        broker.create_topic("t")
        with RawProducer(broker.bootstrap_servers, "id", level=1) as producer:
            producer.begin()
            producer.write("t", "a", "b")
            producer.abort()
            producer.write("t", "c")
            producer.send_offsets("g", {("t", 0): 5})
            producer.commit()
            settle(producer.client, "t")
            producer.write("t", "d")
    return data


def dumped_files(tool: Tool, data: Path, pattern: str, *options: str) -> list[str]:
    """What `kafka-dump-log` prints of the files that match a pattern."""
    files = sorted(data.glob(pattern))
    assert files
    dumped = tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    assert (dumped.status, dumped.err) == (0, "")
    return [line for line in dumped.lines if not line.startswith("Dumping ")]
