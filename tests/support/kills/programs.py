"""Programs that do the same work together, as a test holds them: it kills, pauses and ends them, and starts others."""

import random
import signal
import subprocess
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from tests.support.servers.apache_kafka import die_with_parent

END_S: Final = 60.0
KINDS: Final = ("one", "two", "all", "starting", "paused", "leaving")
"""What happens to programs. ``starting``: one is killed, and then the one that is started instead of it."""
_LONGEST_PAUSE_S: Final = 6.0
"""More than the sessions of programs in a group have, in the tests."""


class RunningProgram:
    """A program in a process of its own."""

    def __init__(self, directory: Path, name: str, instance: int, command: Sequence[str]) -> None:
        """``instance`` is for the caller: which of the programs that run at once it is."""
        self.name = name
        self.instance = instance
        self._log = directory / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*die_with_parent(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def output(self) -> str:
        """The last lines of its log."""
        return f"{self.name}:\n{self._log.read_text(errors='replace')[-3000:]}"

    def check_running(self) -> None:
        """Raise AssertionError if it has ended by itself."""
        status = self._process.poll()
        assert status is None, f"a program has ended with {status}: {self.output}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, unless it has ended by itself, which is an error."""
        self.check_running()
        self._process.kill()
        self._process.wait(END_S)

    def wait_until_left(self) -> None:
        """Wait for its end after SIGTERM. Raises AssertionError: there was an error, or it did not end."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not within {END_S:.0f} s: the end after SIGTERM of {self.output}") from None
        has_begun = self._log.stat().st_size > 0
        assert status == 0 or (status == -signal.SIGTERM and not has_begun), f"ended with {status}: {self.output}"

    def close(self) -> None:
        """Kill it, if it runs."""
        self._process.kill()
        self._process.wait(END_S)


P = TypeVar("P", bound=RunningProgram)


class Programs(Generic[P]):
    """``count`` programs that run, and those that have ended. A context manager, which kills them."""

    def __init__(self, count: int, dice: random.Random) -> None:
        self.every: list[P] = []
        """In the order in which they were started."""
        self.running: list[P] = []
        self._count = count
        self._dice = dice

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.every:
            program.close()

    @abstractmethod
    def _make(self, name: str, instance: int) -> P:
        """Start one. ``instance`` is that of a program that has ended, or a new one."""

    def start(self) -> None:
        """Start programs until ``count`` run."""
        used = {program.instance for program in self.running}
        for instance in sorted(set(range(self._count)) - used):
            program = self._make(f"program-{len(self.every)}", instance)
            self.running.append(program)
            self.every.append(program)

    def check_running(self) -> None:
        """Raise AssertionError if one has ended by itself."""
        for program in self.running:
            program.check_running()

    def strike(self, kind: str) -> None:
        """Do something of `KINDS` to programs that are chosen at random, and start others instead."""
        match kind:
            case "one" | "two" | "all":
                self._kill({"one": 1, "two": 2, "all": self._count}[kind])
            case "starting":
                self._kill(1)
                self.start()
                time.sleep(self._dice.uniform(0, 1.5))
                self._kill_this(self.running[-1])
            case "paused":
                self._pause(self._dice.choice(self.running))
            case "leaving":
                self.leave(1)
        self.start()

    def leave(self, count: int) -> None:
        """Let programs end by SIGTERM. Raises AssertionError: one of them has failed."""
        leaving = self._dice.sample(self.running, count)
        for program in leaving:
            program.send(signal.SIGTERM)
        for program in leaving:
            program.wait_until_left()
            self.running.remove(program)

    def _kill(self, count: int) -> None:
        for program in self._dice.sample(self.running, count):
            self._kill_this(program)

    def _kill_this(self, program: P) -> None:
        program.kill()
        self.running.remove(program)

    def _pause(self, program: P) -> None:
        program.send(signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, _LONGEST_PAUSE_S))
        program.send(signal.SIGCONT)
