import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from broker_embedded._tools.home import make_home
from broker_embedded._tools.server_stop import HOME_VARIABLE, registered, stop_servers
from tests.support.scripts import free_port, listens, started
from tests.support.tools import run_script
from tests.support.waiting import eventually

_HOLD_LOCK = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_stop_script_ends_the_servers_of_its_own_home_alone(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_home(other)
    none = subprocess.run([other / "bin" / "kafka-server-stop.sh"], capture_output=True, timeout=120, check=False)
    assert (none.returncode, none.stderr) == (1, b"No kafka server to stop\n")
    with contextlib.ExitStack() as stack:
        processes = []
        for node_id, of in enumerate([home, home, other]):
            properties = tmp_path / f"{node_id}.properties"
            listener = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
            properties.write_text(f"{listener}\nnode.id={node_id}\nlog.dirs={tmp_path / str(node_id)}\n")
            command = [str(of / "bin" / "kafka-server-start.sh"), str(properties)]
            processes.append(stack.enter_context(started(command, until="Kafka Server started")))
        first, second, third = processes
        assert run_script(home, "kafka-server-stop", "--node-id", "1") == f"Stopping kafka server {second.pid}\n"
        assert second.wait(60) == 0
        first.kill()
        first.wait(60)
        gone = subprocess.run([home / "bin" / "kafka-server-stop.sh"], capture_output=True, timeout=120, check=False)
        assert (gone.returncode, gone.stderr) == (1, b"No kafka server to stop\n")
        assert list((home / "run").iterdir()) == []
        assert third.poll() is None
        assert run_script(other, "kafka-server-stop") == f"Stopping kafka server {third.pid}\n"
        assert third.wait(60) == 0


def test_a_broker_in_the_background_is_stopped_by_its_script(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    properties = tmp_path / "server.properties"
    port = free_port()
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n")
    run_script(home, "kafka-server-start", "-daemon", str(properties))
    try:
        eventually(lambda: listens(port), True, within_s=60)
    finally:
        stopped = run_script(home, "kafka-server-stop")
    assert "Stopping kafka server" in stopped
    eventually(lambda: list((home / "run").iterdir()), [], within_s=60)


def test_a_home_that_cannot_be_written_to_stops_no_broker_from_starting(home: Path, tmp_path: Path) -> None:
    (home / "run").write_text("not a directory")
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{free_port()}\nlog.dirs={tmp_path / 'data'}\n")
    command = [str(home / "bin" / "kafka-server-start.sh"), str(properties)]
    with started(command, until=f"WARNING no script of {home} can stop this server: .*{home}/run"):
        pass
    with started(command, until="Kafka Server started"):
        none = subprocess.run([home / "bin" / "kafka-server-stop.sh"], capture_output=True, timeout=120, check=False)
        assert (none.returncode, none.stderr) == (1, b"No kafka server to stop\n")


def test_a_server_whose_process_id_is_another_process_here_is_not_stopped(home: Path) -> None:
    """Two containers, or two hosts, with one KAFKA_HOME: a process id of the other one is any process here."""
    (home / "run").mkdir()
    with contextlib.ExitStack() as stack:
        innocent = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(innocent.kill)
        path = home / "run" / f"kafka-server.1.{innocent.pid}"
        command = [sys.executable, "-c", _HOLD_LOCK, str(path)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stack.enter_context(server)
        assert server.stdout is not None
        assert server.stdout.readline() == b"locked\n"
        script = home / "bin" / "kafka-server-stop.sh"
        response = subprocess.run([script], capture_output=True, timeout=120, check=False, text=True)
        assert (response.returncode, response.stdout) == (1, "")
        assert response.stderr == (
            f"A kafka server holds {path}, but not as process {innocent.pid} of this machine. "
            "It runs on another host or in another container: stop it there\n"
        )
        assert innocent.poll() is None
        assert path.exists()


def test_a_stop_while_a_server_registers_does_not_hide_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop script finds the file before it is locked, takes it for a dead server's, and removes it."""
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    really_lock = fcntl.lockf
    stops: list[int] = []

    def stop_first(file: IO[str], operation: int) -> None:
        if not stops:
            script = home / "bin" / "kafka-server-stop.sh"
            stops.append(subprocess.run([script], capture_output=True, timeout=120, check=False).returncode)
        really_lock(file, operation)

    monkeypatch.setattr(fcntl, "lockf", stop_first)
    path = home / "run" / f"kafka-server.1.{os.getpid()}"
    with registered("kafka-server.1"):
        assert stops == [1], "there was no server to stop"
        assert list((home / "run").iterdir()) == [path]
        try_lock = f"import fcntl; fcntl.lockf(open({str(path)!r}), fcntl.LOCK_SH | fcntl.LOCK_NB)"
        other = subprocess.run([sys.executable, "-c", try_lock], capture_output=True, timeout=120, check=False)
        assert b"BlockingIOError" in other.stderr
    assert list((home / "run").iterdir()) == []


def test_a_file_of_a_dead_server_that_is_replaced_meanwhile_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stop script removes the file, and a server that begins with the same process id makes a new one."""
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    (home / "run").mkdir()
    path = home / "run" / "kafka-server.1.4711"
    path.write_text("of the dead server")
    really_lock = fcntl.lockf

    def lock_late(file: IO[str], operation: int) -> None:
        path.unlink()
        path.write_text("of the new server")
        really_lock(file, operation)

    monkeypatch.setattr(fcntl, "lockf", lock_late)
    assert stop_servers("kafka-server.*", "kafka server") == 1
    assert path.read_text() == "of the new server"
