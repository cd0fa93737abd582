"""The fork server with processes of one fake JVM. The first process starts the server."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.spark.fake_jvm import REPOSITORY, Done, FakeJvm
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")

SHOW = """
import json
print(json.dumps({
    "process": os.getpid(),
    "parent": os.getppid(),
    "arguments": sys.argv[2:],
    "variable": os.environ.get("SPARK_TEST"),
    "input": sys.stdin.read(),
    "imported": "wsgiref.headers" in sys.modules,
    "descriptors": len(os.listdir("/proc/self/fd")) - 1,
}))
"""
WAIT = """
import signal
def end(*_):
    print("ended by SIGTERM", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
with open(sys.argv[2] + ".new", "w") as file:
    print(os.getpid(), os.getppid(), file=file)
os.rename(sys.argv[2] + ".new", sys.argv[2])
while True:
    signal.pause()
"""


@pytest.fixture
def jvm() -> Iterator[FakeJvm]:
    with FakeJvm() as jvm:
        yield jvm


def shown(done: Done) -> Any:
    assert (done.status, done.errors) == (0, "")
    return json.loads(done.output)


def has_run_itself(done: Done) -> bool:
    return bool(shown(done)["process"] == done.process)


def runs(process: int) -> bool:
    """Whether a process has not ended. Its parent may not have waited for it."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def waiting(jvm: FakeJvm, file: Path, **how: Any) -> tuple[int, int, int]:
    """A process that waits until it is ended, the one that runs its code, and the parent of that."""
    client = jvm.start(WAIT, str(file), **how)
    eventually(file.exists, True)
    process, parent = map(int, file.read_text().split())
    return client, process, parent


def address_of(jvm: FakeJvm) -> str:
    """The abstract address at which the server listens."""
    listed = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    (found,) = {fields[7] for fields in listed if len(fields) > 7 and f"-{jvm.process}-" in fields[7]}
    assert found.startswith("@pykafka-python-")
    return "\0" + found[1:]


def test_the_first_process_runs_its_code_itself_and_later_ones_in_a_forked_process(jvm: FakeJvm) -> None:
    assert has_run_itself(jvm.run(SHOW))
    done = jvm.run(SHOW, "a b", "", given="its input\n", SPARK_TEST="set by Spark")
    process = shown(done)
    assert process.pop("process") not in (done.process, process["parent"])
    assert process.pop("parent") != jvm.process
    assert process == {
        "arguments": ["a b", ""],
        "variable": "set by Spark",
        "input": "its input\n",
        "imported": True,
        "descriptors": 3,
    }
    assert shown(jvm.run(SHOW))["variable"] is None


def test_processes_that_start_together_run_their_code(jvm: FakeJvm) -> None:
    processes = [jvm.start(SHOW, str(number)) for number in range(8)]
    assert [shown(jvm.done(process))["arguments"] for process in processes] == [[str(each)] for each in range(8)]
    assert not has_run_itself(jvm.run(SHOW))


@pytest.mark.parametrize(
    ("code", "status", "errors"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('a message')", 1, "a message\n"),
        ("os._exit(255)", 255, ""),
        ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL, ""),
    ],
)
def test_a_client_ends_with_the_status_of_its_forked_process(jvm: FakeJvm, code: str, status: int, errors: str) -> None:
    jvm.run(SHOW)
    done = jvm.run(code)
    assert (done.status, done.errors, done.output) == (status, errors, "")


def test_an_exception_is_on_the_standard_error_of_the_client(jvm: FakeJvm) -> None:
    jvm.run(SHOW)
    done = jvm.run("raise ValueError('of the code')")
    assert done.status == 1
    assert done.errors.endswith("\nValueError: of the code\n")


@pytest.mark.parametrize(
    "different",
    [
        {"directory": Path("/")},
        {"PYTHONPATH": os.pathsep.join([REPOSITORY, "/other"])},
        {"PYTHONHASHSEED": "7"},
        {"OMP_NUM_THREADS": "7"},
        {"TZ": "Asia/Tokyo"},
    ],
    ids="".join,
)
def test_a_process_with_another_state_of_python_runs_its_code_itself(jvm: FakeJvm, different: dict[str, Any]) -> None:
    jvm.run(SHOW)
    assert has_run_itself(jvm.run(SHOW, **different))
    assert not has_run_itself(jvm.run(SHOW))


def test_a_process_of_another_interpreter_runs_its_code_itself(jvm: FakeJvm, tmp_path: Path) -> None:
    jvm.run(SHOW)
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    assert has_run_itself(jvm.run(SHOW, python=str(environment / "bin" / "python")))


def test_a_process_that_no_jvm_has_started_runs_its_code_itself() -> None:
    program = (
        "from spark_kafka_native._spark.fork_server import run_in_forked_process; run_in_forked_process([]);"
        "import os; print(os.getpid())"
    )
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.communicate(timeout=60)[0] == f"{process.pid}\n"


@pytest.mark.parametrize(
    "code", ["import os; del os.pidfd_open", "import pathlib, sys; sys.path.append(pathlib.Path('/ignored'))"]
)
def test_without_pidfds_or_with_a_path_entry_that_is_no_text_a_process_runs_its_code_itself(
    jvm: FakeJvm, tmp_path: Path, code: str
) -> None:
    """Some builds of Python have no pidfds. Python ignores entries that are no text."""
    (tmp_path / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([REPOSITORY, str(tmp_path)])
    assert [has_run_itself(jvm.run(SHOW, PYTHONPATH=path)) for _ in range(2)] == [True, True]


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.register_at_fork(after_in_child=lambda: __import__('colorsys'))",
        "import sys; sys.modules[1] = sys",
    ],
    ids=["an import after the fork", "a module whose name is no text"],
)
def test_what_other_packages_do_with_modules_does_not_keep_processes_from_being_forked(
    jvm: FakeJvm, tmp_path: Path, code: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([REPOSITORY, str(tmp_path)])
    assert [has_run_itself(jvm.run(SHOW, PYTHONPATH=path)) for _ in range(2)] == [True, False]


def test_a_process_that_the_jvm_has_not_started_is_refused(jvm: FakeJvm) -> None:
    jvm.run(SHOW)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address_of(jvm))
        assert connection.recv(1) == b""


def finds_an_added_module(jvm: FakeJvm, later: Path, *before: str) -> None:
    """``later`` is an entry of the path, after those ``before`` it, and gets its module once the server has started."""
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, *before, str(later)])}
    jvm.run(SHOW, **path)
    later.mkdir()
    (later / "added.py").write_text("")
    done = jvm.run("import added; print(os.getpid())", **path)
    assert done.errors == ""
    assert int(done.output) != done.process


def test_a_forked_process_finds_modules_that_were_not_there_when_the_server_started(
    jvm: FakeJvm, tmp_path: Path
) -> None:
    finds_an_added_module(jvm, tmp_path / "later")


def test_a_forked_process_finds_new_modules_if_the_finder_of_another_path_entry_fails(
    jvm: FakeJvm, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Failing:\n"
        "    def find_spec(self, *_): return None\n"
        "    def invalidate_caches(self): raise OSError\n"
        "def hook(entry):\n"
        "    if entry == '/remote': return Failing()\n"
        "    raise ImportError\n"
        "sys.path_hooks.insert(0, hook)\n"
    )
    finds_an_added_module(jvm, tmp_path / "later", str(tmp_path), "/remote")


def test_a_forked_process_finds_a_new_part_of_an_imported_namespace_package(jvm: FakeJvm, tmp_path: Path) -> None:
    parts = [tmp_path / name / "namespace" for name in ("first", "second")]
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, *(str(part.parent) for part in parts)])}
    for part, name in zip(parts, ("one", "two"), strict=True):
        part.mkdir(parents=True)
        (part / f"{name}.py").write_text("")
        done = jvm.run(f"import namespace.{name}; print(os.getpid())", SPARK_TEST_MODULES="namespace.one", **path)
        assert done.errors == ""
    assert int(done.output) != done.process


def test_a_forked_process_imports_from_an_archive_that_was_replaced(jvm: FakeJvm, tmp_path: Path) -> None:
    archive = tmp_path / "lib.zip"
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(archive)])}
    for content in ("value = 1", "value = 2\n" * 100):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("before.py", content)
            file.writestr("inside.py", content)
        jvm.run(SHOW, **path)
    done = jvm.run("import inside; print(inside.value, os.getpid())", **path)
    assert done.errors == ""
    value, process = map(int, done.output.split())
    assert (value, process != done.process) == (2, True)


def test_a_forked_process_invalidates_the_caches_of_finders(jvm: FakeJvm, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Finder:\n"
        "    def invalidate_caches(self): self.names = os.listdir(FOLDER)\n"
        "    def find_spec(self, name, *_): return PathFinder.find_spec(name, [FOLDER] * (name in self.names))\n"
        "class Failing(Finder):\n"
        "    def invalidate_caches(self): raise ValueError\n"
        "    def find_spec(self, *_): return None\n"
        "sys.meta_path += [Failing(), Finder()]\n"
        "sys.meta_path[-1].invalidate_caches()\n".replace("FOLDER", repr(str(tmp_path / "added")))
    )
    (tmp_path / "added").mkdir()
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(tmp_path)])}
    assert has_run_itself(jvm.run(SHOW, **path))
    (tmp_path / "added" / "later").mkdir()
    (tmp_path / "added" / "later" / "__init__.py").write_text("value = 2")
    done = jvm.run("import later; print(later.value, os.getpid())", **path)
    assert done.errors == ""
    value, process = map(int, done.output.split())
    assert (value, process != done.process) == (2, True)


@pytest.mark.parametrize("name", ["package", "namespace.package"])
def test_after_an_imported_package_is_installed_again_processes_run_their_code_themselves(
    jvm: FakeJvm, tmp_path: Path, name: str
) -> None:
    package = tmp_path.joinpath(*name.split("."))
    package.mkdir(parents=True)
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(tmp_path)])}
    for version in ("1", "20"):
        (package / "__init__.py").write_text(f"version = {version}")
        done = jvm.run(f"import {name}; print({name}.version, os.getpid())", SPARK_TEST_MODULES=name, **path)
        assert done.output == f"{version} {done.process}\n"
    assert has_run_itself(jvm.run(SHOW, **path))


def test_a_file_of_the_same_time_and_size_is_noticed(jvm: FakeJvm, tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text("version = 1")
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(tmp_path)])}
    assert jvm.run("import package; print(package.version)", SPARK_TEST_MODULES="package", **path).output == "1\n"
    (tmp_path / "new.py").write_text("version = 2")
    shutil.copystat(tmp_path / "package.py", tmp_path / "new.py")
    (tmp_path / "new.py").replace(tmp_path / "package.py")
    assert has_run_itself(jvm.run(SHOW, **path))


@pytest.mark.parametrize(
    "module",
    [
        "importlib.util.module_from_spec(spec)",
        "types.SimpleNamespace(__file__=7)",
        "types.SimpleNamespace(__file__='\\0')",
        "object()",
    ],
)
def test_any_object_may_be_an_imported_module(jvm: FakeJvm, tmp_path: Path, module: str) -> None:
    """The lazy module is not loaded: that would raise ImportError."""
    (tmp_path / "lazy.py").write_text("import wave\nraise ImportError")
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys, types\n"
        f"spec = importlib.util.spec_from_file_location('lazy', {str(tmp_path / 'lazy.py')!r})\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        f"sys.modules['lazy'] = module = {module}\n"
        "if type(module) is types.ModuleType: spec.loader.exec_module(module)\n"
    )
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(tmp_path)])}
    assert [has_run_itself(jvm.run(SHOW, **path)) for _ in range(2)] == [True, False]


def test_forked_processes_have_different_random_numbers(jvm: FakeJvm) -> None:
    code = "import random, numpy; print(random.random(), *numpy.random.rand(2))"
    jvm.run(code, SPARK_TEST_MODULES="numpy.random")
    first, second = (set(jvm.run(code).output.split()) for _ in range(2))
    assert len(first | second) == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_signals_of_a_terminal_are_for_the_forked_process(jvm: FakeJvm, tmp_path: Path, number: signal.Signals) -> None:
    """As for a daemon of pyspark, which has left the process group of the JVM."""
    jvm.run(SHOW)
    client, process, server = waiting(jvm, tmp_path / "ids")
    for each in (client, server):
        os.kill(each, number)
    assert not has_run_itself(jvm.run(SHOW))
    assert [runs(each) for each in (client, process, server)] == [True] * 3
    os.kill(process, number)
    assert jvm.done(client).status == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_a_client_ends_its_forked_process(jvm: FakeJvm, tmp_path: Path, number: signal.Signals) -> None:
    jvm.run(SHOW)
    client, process, _ = waiting(jvm, tmp_path / "ids")
    assert process != client
    os.kill(client, number)
    eventually(lambda: runs(process), False)
    assert jvm.done(client) == Done(client, -number, "ended by SIGTERM\n", "")
    assert not has_run_itself(jvm.run(SHOW))


def test_a_client_without_its_server_ends_and_the_next_process_starts_another(jvm: FakeJvm, tmp_path: Path) -> None:
    jvm.run(SHOW)
    client, process, server = waiting(jvm, tmp_path / "ids")
    os.kill(server, signal.SIGKILL)
    eventually(lambda: runs(process), False)
    message = f"pykafka-python: the fork server ended; ending process {process}, which it has forked\n"
    assert jvm.done(client) == Done(client, 1, "ended by SIGTERM\n", message)
    assert has_run_itself(jvm.run(SHOW))
    assert not has_run_itself(jvm.run(SHOW))


def test_the_server_ends_with_the_jvm(jvm: FakeJvm) -> None:
    jvm.run(SHOW)
    server = shown(jvm.run(SHOW))["parent"]
    assert runs(server)
    jvm.end()
    eventually(lambda: runs(server), False)


def test_the_end_of_the_jvm_and_a_client_at_once_ends_the_forked_process(jvm: FakeJvm, tmp_path: Path) -> None:
    jvm.run(SHOW)
    client, process, server = waiting(jvm, tmp_path / "ids")
    os.kill(server, signal.SIGSTOP)
    os.kill(client, signal.SIGKILL)
    jvm.end()
    os.kill(server, signal.SIGCONT)
    eventually(lambda: [runs(each) for each in (server, process)], [False, False])


def test_a_first_process_that_ends_during_its_imports_leaves_no_server(jvm: FakeJvm, tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("import os; os._exit(3)")
    path = {"PYTHONPATH": os.pathsep.join([REPOSITORY, str(tmp_path)])}
    assert jvm.run(SHOW, SPARK_TEST_MODULES="ending", **path).status == 3
    assert has_run_itself(jvm.run(SHOW, **path))
    assert not has_run_itself(jvm.run(SHOW, **path))


def test_more_clients_than_the_limit_run_their_code_themselves(jvm: FakeJvm, tmp_path: Path) -> None:
    limit = {"SPARK_TEST_MAX_CLIENTS": "2"}
    jvm.run(SHOW, **limit)
    clients = [waiting(jvm, tmp_path / str(number)) for number in range(2)]
    assert has_run_itself(jvm.run(SHOW))
    os.kill(clients[0][0], signal.SIGKILL)
    eventually(lambda: runs(clients[0][1]), False)
    assert not has_run_itself(jvm.run(SHOW))


def test_a_server_without_descriptors_leaves_the_code_to_its_clients(jvm: FakeJvm, tmp_path: Path) -> None:
    jvm.run(SHOW)
    client, process, server = waiting(jvm, tmp_path / "ids")
    limits = resource.prlimit(server, resource.RLIMIT_NOFILE)
    used = 7  # the standard streams, the listener, the JVM, the waiting client and its process
    eventually(lambda: len(os.listdir(f"/proc/{server}/fd")), used)
    for free in (0, 1):  # none for the connection; none for the pidfd
        resource.prlimit(server, resource.RLIMIT_NOFILE, (used + free, limits[1]))
        assert has_run_itself(jvm.run(SHOW, SPARK_TEST_MESSAGE_TIMEOUT_S="1"))
    resource.prlimit(server, resource.RLIMIT_NOFILE, limits)
    assert not has_run_itself(jvm.run(SHOW))
    assert runs(process)
    os.kill(client, signal.SIGTERM)
    eventually(lambda: runs(process), False)
    assert jvm.done(client).output == "ended by SIGTERM\n"


CONNECT = """
import json, socket
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(60)
connection.connect("\\0" + sys.argv[2])
connection.sendall(bytes.fromhex(sys.argv[3]))
print(connection.recv(100).hex())
"""


@pytest.mark.parametrize("sent", ["", "01", "ffffffff", "05000000 6162636465"])
def test_a_connection_without_a_request_has_no_effect_on_others(jvm: FakeJvm, sent: str) -> None:
    jvm.run(SHOW, SPARK_TEST_MESSAGE_TIMEOUT_S="5")
    connection = jvm.start(CONNECT, address_of(jvm)[1:], sent, TZ="Asia/Tokyo")  # which runs its code itself
    eventually(lambda: has_run_itself(jvm.run(SHOW)), False)
    done = jvm.done(connection)
    assert (done.output[:2], done.errors) == (b"E".hex(), "")  # the process that was forked for it has ended
