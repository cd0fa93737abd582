"""A mirror of one or more source clusters."""

import queue
from types import TracebackType
from typing import Self

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._mirror.config import MirrorConfig
from spark_kafka_native._mirror.forwarding_stream import MirrorMetrics
from spark_kafka_native._mirror.source_mirror import SourceMirror


class Mirror:
    """Copies topics until it is closed. Use it as a context manager."""

    def __init__(self, config: MirrorConfig) -> None:
        """Begin. Raises OSError: the process has no descriptors left."""
        self._errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self._target = Cluster(config.target, warns=True)
        self.sources: list[SourceMirror] = []
        try:
            for source in config.sources:
                self.sources.append(SourceMirror(source, config, self._target, self._errors.put))
        except BaseException:
            self.close()
            raise

    @property
    def metrics(self) -> MirrorMetrics:
        """What the target has acknowledged, of all sources."""
        total = MirrorMetrics()
        for source in self.sources:
            total.add(source.metrics)
        return total

    def wait(self, timeout_s: float) -> None:
        """Wait, or raise the error that has ended a thread."""
        try:
            error = self._errors.get(timeout=timeout_s)
        except queue.Empty:
            return
        raise error

    def close(self) -> None:
        """Settle what was sent, commit the offsets, and leave the groups."""
        for source in self.sources:
            source.close()
        self._target.close(final=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()
