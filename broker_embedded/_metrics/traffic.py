"""The counters of requests, records and connections, cheap enough for every request."""

import threading
from collections import Counter
from collections.abc import Container

from broker_embedded._metrics.error_codes import AddErrors, error_finder
from broker_embedded._metrics.histogram import Histogram
from spark_kafka_native._protocol.schema import Response


class ApiTraffic:
    """The requests of one API."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "find_errors", "name", "times", "versions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes_in = self.bytes_out = 0
        self.versions: Counter[int] = Counter()
        self.errors: Counter[int] = Counter()
        self.times = Histogram()
        self.find_errors: AddErrors | None = None

    def add_error(self, code: int) -> None:
        """Count an error code in a response."""
        self.errors[code] += 1


class TopicTraffic:
    """The records of one topic. ``appended`` may be called in any thread, ``sent`` only on the event loop."""

    __slots__ = ("_lock", "bytes_in", "bytes_out", "messages_in")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self._lock = threading.Lock()

    def appended(self, size: int, messages: int) -> None:
        """Count records that were written."""
        with self._lock:
            self.bytes_in += size
            self.messages_in += messages

    def sent(self, size: int) -> None:
        """Count bytes of records in a response."""
        self.bytes_out += size


class Traffic:
    """All counters of a broker. Belongs to the event loop, except `TopicTraffic.appended`."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiTraffic] = {}
        self.topics: dict[str, TopicTraffic] = {}
        self.connections = 0
        self.connections_opened = 0
        self.connections_refused: Counter[str] = Counter()

    def connection_opened(self) -> None:
        """Count an accepted connection."""
        self.connections += 1
        self.connections_opened += 1

    def connection_closed(self) -> None:
        """Count a closed connection."""
        self.connections -= 1

    def answered(
        self,
        api_key: int,
        name: str,
        version: int,
        *,
        bytes_in: int,
        bytes_out: int,
        ns: int,
        response: Response | None,
    ) -> None:
        """Count a completed request, with or without a response."""
        api = self.apis.get(api_key)
        if api is None:
            api = self.apis[api_key] = ApiTraffic(name)
        api.versions[version] += 1
        api.bytes_in += bytes_in
        api.bytes_out += bytes_out
        api.times.add(ns)
        if response is not None:
            if api.find_errors is None:
                api.find_errors = error_finder(type(response))
            api.find_errors(response, api.add_error)

    def topic(self, name: str) -> TopicTraffic:
        """The counters of a topic."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicTraffic()
        return found

    def forget_others(self, names: Container[str]) -> None:
        """Drop the counters of other topics than ``names``."""
        for name in [name for name in self.topics if name not in names]:
            del self.topics[name]
