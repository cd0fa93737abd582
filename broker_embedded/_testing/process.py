"""A broker in a process of its own."""

import dataclasses
import http.client
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from broker_embedded._config.addresses import parse_address
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.settings import format_value
from broker_embedded._platform.clocks import MovableClock, ShiftedClock
from broker_embedded._server.run import LISTENING
from broker_embedded._testing.brokers import ControlledBroker, creatable
from broker_embedded._testing.clocks import format_clock
from broker_embedded._testing.control.address import LOOPBACK, ControlAddress
from broker_embedded._testing.control.command import CONTROLLED
from broker_embedded._testing.control.commands import MAX_RETURNED, ControlResponse
from broker_embedded._testing.recording import RecordedRequest
from broker_embedded._testing.restartable import with_addresses
from broker_embedded._testing.server_process import STOP_TIMEOUT_S, ServerProcess
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.framing import decode_response, request_frame
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from spark_kafka_native._protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.schema import Request, Response

START_TIMEOUT_S: Final = 60.0
CONTROL_TIMEOUT_S: Final = 60.0
_CREATE_TOPICS_VERSION: Final = 7
_DEFAULT_REPLICAS_SINCE: Final = 4
"""The first version of CreateTopics with the broker's default replication factor."""
_DELETE_TOPICS_VERSION: Final = 6
_STATES_SINCE: Final = 6
"""The first version of DeleteTopics that does not name topics by ``topic_names``."""
_METADATA_VERSION: Final = 9
ResponseT = TypeVar("ResponseT", bound=Response)


class BrokerStartError(Exception):
    """A broker's process ended or timed out during its start. ``str()`` has its log."""


class BrokerProcess(ControlledBroker):
    """A broker in a process of its own.

    ``kill`` is SIGKILL; ``restart`` starts a new process with the same data. The clock continues; faults and recorded
    requests end with the process.

    >>> with BrokerProcess(topics={"events": 3}) as broker:
    ...     broker.kill()
    ...     broker.start()  # with the same port and data
    ...     broker.topics()
    {'events': 3}
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        clock: MovableClock | None = None,
        control: bool | str = False,
    ) -> None:
        """As `ControlledBroker`, with its ``settings`` for tests and its ``users``.

        ``control`` opens a port through which faults are set, requests read and the clock is moved: True on a free
        port, or ``"127.0.0.1:8123"``. ``clock`` needs it; None is the machine's clock, which can be moved ahead. Raises
        SettingError: the address can be reached from other machines.
        """
        if clock is not None and not control:
            raise ValueError("a clock without control=True could not be moved")
        if control:
            ControlAddress.parse("control", LOOPBACK if control is True else control)
        super().__init__(data_dir, topics=topics, settings=settings, users=users)
        self._server = ServerProcess(self._kind)
        self._clock: MovableClock = clock or ShiftedClock()
        self._control: str | None = None
        if control:
            self._control = LOOPBACK if control is True else control
        self._control_url: str | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._server.running.pid

    @property
    def output(self) -> str:
        """The log of the present or last process."""
        return self._server.output

    @property
    def control_url(self) -> str:
        """The URL of the control port. Raises RuntimeError: there is none, or the broker is not started."""
        _ = self._server.running
        if self._control_url is None:
            raise RuntimeError("the broker has no control port: create it with control=True")
        return self._control_url

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, by a CreateTopics request. Raises KafkaError: it cannot be created."""
        version = self._version_of(CreateTopicsRequest, _CREATE_TOPICS_VERSION)
        wanted = creatable(name, partitions, configs)
        if version < _DEFAULT_REPLICAS_SINCE:
            wanted = dataclasses.replace(wanted, replication_factor=1)
        request = CreateTopicsRequest(topics=(wanted,))
        response = _ask_kafka(self.bootstrap_servers, request, CreateTopicsResponse, version)
        (result,) = response.topics
        if result.error_code:
            raise KafkaError(ErrorCode.of(result.error_code), result.error_message or name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, by a DeleteTopics request. Raises KafkaError: it cannot be deleted."""
        version = self._version_of(DeleteTopicsRequest, _DELETE_TOPICS_VERSION)
        topics = (DeleteTopicState(name=name),) if version >= _STATES_SINCE else ()
        request = DeleteTopicsRequest(topics=topics, topic_names=(name,), timeout_ms=int(STOP_TIMEOUT_S * 1000))
        response = _ask_kafka(self.bootstrap_servers, request, DeleteTopicsResponse, version)
        (result,) = response.responses
        if result.error_code:
            raise KafkaError(ErrorCode.of(result.error_code), result.error_message or name)

    def topics(self) -> dict[str, int]:
        """All topics, internal ones included, with their numbers of partitions."""
        version = self._version_of(MetadataRequest, _METADATA_VERSION)
        request = MetadataRequest(topics=None if version else ())
        response = _ask_kafka(self.bootstrap_servers, request, MetadataResponse, version)
        return {topic.name or "": len(topic.partitions) for topic in response.topics}

    def _version_of(self, api: type[Request[Any]], newest: int) -> int:
        """The newest version of an API, up to ``newest``, in the release ``as.version``.

        Raises KafkaError UNSUPPORTED_VERSION: it has none.
        """
        release = BrokerConfig.parse(self._settings).release
        if api.api_key not in release.offered:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Kafka {release.name} has no {api.api_name}")
        return min(newest, release.offered[api.api_key].last)

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        self._end_with(signal.SIGKILL)

    def terminate(self) -> int:
        """Stop the process (SIGTERM), and wait; its exit status."""
        return self._end_with(signal.SIGTERM)

    def _ask(self, method: str, path: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
        place = urlsplit(self.control_url)
        given = {name: value for name, value in (fields or {}).items() if value is not None}
        body = None
        if method == "POST":
            body = json.dumps(given)
        elif given:
            path += f"?{urlencode(given)}"
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=CONTROL_TIMEOUT_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            result = ControlResponse(status=response.status, body=json.loads(response.read())).result()
        finally:
            connection.close()
        if path == "/clock/advance":
            self._clock.advance(given["ms"])  # so that the clock continues in the next process
        return result

    def _requests(self, api: str | None, client_id: str | None, after: int) -> Iterable[RecordedRequest]:
        while True:
            which = {"api": api, "client_id": client_id, "after": after}
            found = [RecordedRequest.from_fields(each) for each in self._ask("GET", "/requests", which)["requests"]]
            yield from found
            if len(found) < MAX_RETURNED:
                return
            after = found[-1].number

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._server.is_stopping:
            self._stop()
        if self._server.is_running:
            return
        listeners = len(BrokerConfig.parse(self._settings).endpoints())
        process = self._server.start(self._command(), self.stop, reads_stdout=True)
        last, count = (CONTROLLED, 1) if self._control else (LISTENING, listeners)
        try:
            lines = _first_lines(process.stdout, last, count)
        except BaseException:  # interrupted
            if self._server.is_running:  # not stopped by a handler of a signal
                self.kill()
            raise
        if not lines:
            status = self._end_with(signal.SIGKILL)
            raise BrokerStartError(f"the broker ended with status {status}: {self.output}")
        self._addresses = [line.removeprefix(LISTENING) for line in lines if line.startswith(LISTENING)]
        self._settings["listeners"] = with_addresses(str(self._settings["listeners"]), self._addresses)
        if self._control:
            self._control_url = lines[-1].removeprefix(CONTROLLED)
            self._control = urlsplit(self._control_url).netloc

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "broker_embedded", "--data-dir", os.fspath(self._data_dir)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={format_value(value)}"]
        if self._control:
            command += ["--control-listener", self._control, "--clock", format_clock(self._clock)]
        return command

    def _stop(self) -> None:
        if self._server.is_running:
            self.terminate()

    def _end_with(self, number: signal.Signals) -> int:
        with self._changing:
            return self._server.end_with(number)


def _first_lines(pipe: IO[bytes], last: str, count: int) -> list[str]:
    """The lines that a process prints, up to the ``count``-th that begins with ``last``.

    No line if it ends before, or after ``START_TIMEOUT_S``. Later lines stay in the pipe.
    """
    text, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(pipe.fileno(), 4096) if ready else b""
        if not chunk:
            return []
        text += chunk
        lines = text[: text.rfind(b"\n") + 1].decode().splitlines()
        if sum(line.startswith(last) for line in lines) >= count:
            return lines


def _ask_kafka(address: str, request: Request[Any], response: type[ResponseT], version: int) -> ResponseT:
    """Send one request over a new connection; the response. Raises OSError, RemoteProtocolError."""
    with socket.create_connection(parse_address("bootstrap.servers", address), timeout=STOP_TIMEOUT_S) as connection:
        for chunk in request_frame(request, version, 1, "broker-testing"):
            connection.sendall(bytes(chunk))  # type: ignore[arg-type]  # no file regions in a request
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            frame = stream.read(size)
        if not size or len(frame) < size:
            raise ConnectionResetError(f"{address} closed the connection without a response")
        return decode_response(response, version, frame)[1]
