"""The broker of `tests.support.kills.broker` as a test holds it: started again and again, each time to die."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.scripts import free_port

PATIENCE_S = 60.0


class DoomedBroker:
    """A broker on one port and directory that is started again and again, each time to die at another step."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self._settings = settings
        self.address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, step: str, count: int) -> None:
        """Start it in place of one that has ended; returns when it listens, or has reached the step before."""
        self.close()
        settings = {"listeners": f"PLAINTEXT://{self.address}", **self._settings}
        pairs = [f"{key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "tests.support.kills.broker", step, str(count), str(self.directory), *pairs]
        log = (self.directory / "doomed.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def died(self, within_s: float) -> bool:
        """Whether it has died, once it has or the time is over."""
        assert self._process is not None
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        assert status == -9, f"it ended by itself with {status}: {(self.directory / 'doomed.log').read_text()[-3000:]}"
        return True

    def stop(self) -> None:
        """Tell it to stop, which it may do or die of."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) in {0, -9}

    def close(self) -> None:
        """End it, however it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
