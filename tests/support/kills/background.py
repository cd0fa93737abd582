"""Work in a thread of its own, as long as a test wants it."""

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """A thread that works until `stop`. What ends it before is raised by `stop` and `raise_if_failed`."""

    def __init__(self, name: str, patience_s: float) -> None:
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """Wait until the work has come to its end. Raises the thread's error."""
        self._ending.set()
        self._thread.join(self._patience_s)
        self.raise_if_failed()
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not end within {self._patience_s:.0f} s")

    def raise_if_failed(self) -> None:
        """Raise what ended the thread, if something did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # handed over to the test's thread
            self._failure = error

    @abstractmethod
    def _work(self) -> None:
        """Work until `_ending` is set."""
