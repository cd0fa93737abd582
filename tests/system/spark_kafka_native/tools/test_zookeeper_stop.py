from pathlib import Path

from tests.support.scripts import free_port, started
from tests.system.spark_kafka_native.tools.conftest import run_script


def test_the_stand_in_for_zookeeper_is_stopped_by_its_script(home: Path, tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(f"clientPort={free_port()}\n")
    command = [str(home / "bin" / "zookeeper-server-start.sh"), str(properties)]
    with started(command, until="binding to port") as process:
        assert run_script(home, "zookeeper-server-stop") == f"Stopping zookeeper server {process.pid}\n"
        assert process.wait(60) == 0
