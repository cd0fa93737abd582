"""A process named ``java`` that starts Python processes as Spark does.

This file is also the program of that process, which runs it without this repository: it reads requests as lines of
JSON, and writes a line for each.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WITHIN_S = 120
"""Longest wait for a started process."""
REPOSITORY = str(Path(__file__).parents[3])
_PROGRAM = """
import os, sys
from spark_kafka_native._spark import fork_server
fork_server.MAX_CLIENTS = int(os.environ.get("SPARK_TEST_MAX_CLIENTS", 200))
fork_server.MESSAGE_TIMEOUT_S = float(os.environ.get("SPARK_TEST_MESSAGE_TIMEOUT_S", 30))
fork_server.run_in_forked_process(os.environ.get("SPARK_TEST_MODULES", "missing wsgiref.headers").split())
exec(sys.argv[1])
"""
"""The server is given one module that is missing, and one that nothing else imports."""


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    process: int
    status: int
    """As in `subprocess`: of a signal, negative."""
    output: str
    errors: str


class FakeJvm:
    """Starts processes that let the fork server run code of a test, which is their first argument."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        command = Path(self._directory.name, "java")
        command.symlink_to(Path(sys.executable).resolve())
        self._process = subprocess.Popen(
            [command, "-I", "-S", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process = self._process.pid

    def __enter__(self) -> "FakeJvm":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._directory.cleanup()

    def end(self) -> None:
        """End this process, but none that it has started."""
        self._process.kill()
        self._process.communicate()

    def start(
        self,
        code: str,
        *arguments: str,
        python: str = sys.executable,
        directory: Path = Path(REPOSITORY),
        given: str = "",
        **environment: str,
    ) -> int:
        """Start a process; its id. ``given`` is its standard input."""
        variables = {**os.environ, "PYTHONPATH": REPOSITORY, **environment}
        command = [python, "-c", _PROGRAM, code, *arguments]
        process: int = self._request(command=command, variables=variables, directory=str(directory), given=given)
        return process

    def done(self, process: int) -> Done:
        """Wait for the end of a process."""
        return Done(process, *self._request(process=process))

    def run(self, code: str, *arguments: str, **how: Any) -> Done:
        """Start a process and wait for its end."""
        return self.done(self.start(code, *arguments, **how))

    def _request(self, **request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def _main() -> None:
    for ignored in (signal.SIGINT, signal.SIGQUIT):  # by those that a shell has started in the background
        signal.signal(ignored, signal.SIG_DFL)
    started: dict[int, tuple[subprocess.Popen[str], Path]] = {}
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        if process := request.get("process"):
            popen, files = started.pop(process)
            status = popen.wait(WITHIN_S)
            response: Any = [status, *(Path(f"{files}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))]
        else:
            files = Path(sys.executable).with_name(f"process-{number}")
            given = Path(f"{files}.in")
            given.write_text(request["given"], encoding="utf-8")
            with given.open() as stdin, open(f"{files}.out", "w") as stdout, open(f"{files}.err", "w") as stderr:
                popen = subprocess.Popen(
                    request["command"],
                    env=request["variables"],
                    cwd=request["directory"],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    text=True,
                )
            started[popen.pid] = popen, files
            response = popen.pid
        print(json.dumps(response), flush=True)


if __name__ == "__main__":
    _main()
