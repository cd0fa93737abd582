"""The threads of the log cleaner."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.log_config import CleanerConfig
from broker_embedded._log.cleaner.log_cleaner import LogCleaner
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.periodic import PeriodicTask
from broker_embedded._platform.platform import Platform
from broker_embedded._platform.timers import Timers


class CleanerThreads:
    """A cleaner with ``log.cleaner.threads`` threads. Belongs to the event loop."""

    def __init__(self, config: BrokerConfig, logs: LogManager, platform: Platform, timers: Timers) -> None:
        self._timers = timers
        self._threads = _threads(config)
        self._executor: ThreadPoolExecutor | None = None
        self._executor_size = 0
        self._cleaner = LogCleaner(logs, platform, _cleaner_config(config))

    def use_config(self, config: BrokerConfig) -> None:
        """Change the settings. They take effect with the next log."""
        self._threads = _threads(config)
        self._cleaner.config = _cleaner_config(config)

    def periodic_tasks(self, backoff_ms: Callable[[], int]) -> list[PeriodicTask]:
        """Compaction, ``backoff_ms`` after the last one ended."""
        return [PeriodicTask("compaction", lambda: max(1, backoff_ms()), self.run)]

    async def run(self) -> None:
        """Compact every log whose compaction is due, the dirtiest first."""
        if self._threads:
            await asyncio.gather(*(self._work(self._ready(self._threads)) for _ in range(self._threads)))

    def stop(self) -> None:
        """Make ``run`` return soon: compactions in progress are aborted, and no other begins."""
        self._cleaner.stop()

    def join(self) -> None:
        """Wait for the threads, after ``stop``. Blocks; may be called in any thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)

    async def _work(self, executor: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        with self._timers.working():
            while not self._cleaner.stopped and await loop.run_in_executor(executor, self._cleaner.clean_one):
                pass

    def _ready(self, threads: int) -> ThreadPoolExecutor:
        """An executor with this number of threads, which start when they are used."""
        if self._executor is None or self._executor_size != threads:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            self._executor = ThreadPoolExecutor(threads, thread_name_prefix="log-cleaner")
            self._executor_size = threads
        return self._executor


def _threads(config: BrokerConfig) -> int:
    return config.log_cleaner_threads if config.log_cleaner_enable else 0


def _cleaner_config(config: BrokerConfig) -> CleanerConfig:
    return CleanerConfig(
        threads=config.log_cleaner_threads,
        dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
        io_buffer_load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_size=config.log_cleaner_io_buffer_size,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )
