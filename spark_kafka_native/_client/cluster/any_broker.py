"""Requests that any broker of a cluster can answer, such as Metadata and FindCoordinator."""

import logging
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from spark_kafka_native._client.cluster.pool import ConnectionPool
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import NoBrokersFound
from spark_kafka_native._client.retry import Backoff, FailedAttempts
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost, RequestTimeout, Throttled
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.schema import Request, Response

if TYPE_CHECKING:
    from spark_kafka_native._client.cluster.discovered import DiscoveredBrokers

_log = logging.getLogger(__name__)
ResponseT = TypeVar("ResponseT", bound=Response)

_CREATING_IS_OPTIONAL_SINCE: Final = 4


class AnyBroker:
    """Sends requests to the known brokers and the bootstrap servers until one responds. Threads may share it."""

    def __init__(
        self,
        config: ClientConfig,
        pool: ConnectionPool,
        known_addresses: Callable[[], list[HostPort]],
        discovered: "DiscoveredBrokers | None",
        *,
        warns: bool,
    ) -> None:
        """``known_addresses`` returns those of the brokers in the cached metadata.

        ``discovered`` finds brokers instead of ``bootstrap.servers``. ``warns`` as in ``Cluster``.
        """
        self._config = config
        self._pool = pool
        self._known_addresses = known_addresses
        self._discovered = discovered
        self._warns = warns
        self._has_warned = False
        self._has_responded = False

    def ask(self, request: Request[ResponseT], deadline: Deadline, max_version: int | None = None) -> ResponseT:
        """The first response of any broker.

        Raises BrokerUnreachable naming every address and the reason; NoBrokersFound: ZooKeeper has no brokers.
        """
        tried = FailedAttempts()
        backoff = Backoff(self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms)
        if self._discovered is not None:
            self._discovered.open()
        while True:
            candidates, missing = self._candidates()
            for address in candidates:
                try:
                    response = self._ask_at(address, request, deadline, max_version)
                    self._pool.lost_connections.note_success(address)
                    self._has_warned, self._has_responded = False, True
                    return response
                except (BrokerUnreachable, ConnectionLost, RequestTimeout, Throttled) as error:
                    tried.add(address, error, is_last=deadline.expired)
                    if isinstance(error, ConnectionLost):
                        self._pool.lost_connections.note_failure(address, error.reason, deadline)
                if deadline.expired:
                    break
            if missing is not None and not tried.reasons and not self._has_responded:
                raise missing
            self._warn_unreachable(tried, candidates, missing, deadline)
            if not deadline.pause(backoff.next_ms()):
                if missing is not None and not tried.reasons:
                    raise missing
                raise self._unreachable(tried, request.api_name, candidates)

    def _candidates(self) -> tuple[list[HostPort], NoBrokersFound | None]:
        """Addresses to ask, by rank; known brokers in random order before bootstrap servers of the same rank.

        And the error, if ZooKeeper has no brokers.
        """
        brokers, servers, missing = self._known_addresses(), self._config.bootstrap_servers, None
        if self._discovered is not None:
            try:
                servers = self._discovered.addresses()
            except NoBrokersFound as error:
                missing = error
        random.shuffle(brokers)
        if self._config.broker_addresses == "bootstrap":
            servers = tuple(random.sample(servers, len(servers)))
        return sorted(dict.fromkeys([*brokers, *servers]), key=self._pool.rank), missing

    def _unreachable(self, tried: FailedAttempts, api_name: str, candidates: list[HostPort]) -> BrokerUnreachable:
        option = self._config.servers_option if self._discovered is None else str(self._discovered)
        return tried.error(api_name, candidates, self._config.bootstrap_servers, option)

    def _warn_unreachable(
        self, tried: FailedAttempts, candidates: list[HostPort], missing: NoBrokersFound | None, deadline: Deadline
    ) -> None:
        if self._warns and not self._has_warned and not deadline.expired and tried.reasons.keys() >= set(candidates):
            self._has_warned = True
            text = "no broker of %s can be reached (%s); trying again for at least %.3g s"
            _log.warning(text, self._config.servers_option, missing or tried, deadline.remaining_ms / 1000)

    def _ask_at(
        self, address: HostPort, request: Request[ResponseT], deadline: Deadline, max_version: int | None
    ) -> ResponseT:
        connection = self._pool.borrow(address, deadline)
        try:
            wanted = _creating_nothing(request, connection)
            return connection.call(wanted, timeout_ms=deadline.remaining_ms, max_version=max_version)
        finally:
            self._pool.give_back(connection)

    def check_throttle(self) -> None:
        """Raise Throttled if a request to any broker would wait for the end of a throttle now."""
        candidates, _ = self._candidates()
        if candidates and (throttle_ms := self._pool.throttle_ms(candidates[0])):
            raise Throttled(candidates[0], "Metadata", math.ceil(throttle_ms))


def _creating_nothing(request: Request[ResponseT], connection: Connection) -> Request[ResponseT]:
    """``request`` for a broker before 0.11, which creates every topic that a Metadata request names.

    If no topic is to be created, the request is for all topics instead.
    """
    if not isinstance(request, MetadataRequest) or request.allow_auto_topic_creation:
        return request
    sent = request
    if connection.version_of(MetadataRequest) < _CREATING_IS_OPTIONAL_SINCE:
        sent = MetadataRequest(topics=None if request.topics else request.topics, allow_auto_topic_creation=True)
    return cast("Request[ResponseT]", sent)
