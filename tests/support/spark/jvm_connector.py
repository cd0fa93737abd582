"""Spark's own connector for Kafka, from Maven Central, and a Spark session that has both connectors.

The session runs in a process of its own, because the jars must be on its class path from the start, and a process has
one Spark. Tests put questions to it: functions of `tests.support.spark.session_functions`, which run there.
"""

import functools
import multiprocessing
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from tests.support.programs import maven
from tests.support.scripts import DidNotStart
from tests.support.spark.session_functions import side_by_side, start_spark, stop_spark

JVM, OURS = "kafka", "pykafka"
START_TIMEOUT_S: Final = 180.0
RESPONSE_TIMEOUT_S: Final = 120.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the connector with the versions that it was built with, which Spark itself does not bring."""

    connector: str
    token_provider: str
    kafka_clients: str
    commons_pool: str

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Every jar by name: Spark's poms name other repositories, which need not be reachable."""
        return (
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self.connector}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{self.token_provider}",
            f"org.apache.kafka:kafka-clients:{self.kafka_clients}",
            f"org.apache.commons:commons-pool2:{self.commons_pool}",
        )


RELEASES: Final = (
    Release("4.3.0", "4.3.0", "3.9.2", "2.13.1"),
    # Central's mirrors lag. This one runs on Spark 4.3 too; the token provider is not used without tokens.
    Release("4.2.0", "4.2.0", "3.9.2", "2.13.1"),
    Release("4.2.0", "4.1.0-preview1", "3.9.2", "2.13.1"),
)
"""In order of preference."""


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """The connector and what it needs beyond Spark's jars: the first release that can be had. Raises MavenError."""
    for release in RELEASES[:-1]:
        try:
            return _resolve(release)
        except maven.NotThere:
            continue
    return _resolve(RELEASES[-1])


def _resolve(release: Release) -> tuple[Path, ...]:
    name = f"spark-sql-kafka-{release.connector}"
    return maven.resolve(name, release.coordinates, excluded=("*:*",))


def connector_name() -> str:
    """The connector's jar, which has its version and Scala's in its name. Raises MavenError."""
    return next(jar.stem for jar in connector_jars() if jar.stem.startswith("spark-sql-kafka"))


@functools.cache
def jvm_connector_unavailable() -> str | None:
    """Why the JVM connector cannot be run here (the reason to skip a test), or None when it can."""
    try:
        connector_jars()
    except maven.MavenError as error:
        return f"Spark's JVM connector is not available: {error}"
    return None


class SessionError(Exception):
    """A question broke, or was not answered in time; the message has the session's traceback."""


class BothConnectors:
    """A Spark session on two cores, loopback only, with the formats ``kafka`` and ``pykafka``; a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        context = multiprocessing.get_context("spawn")
        self._pipe, self._far_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._far_end,), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self._far_end.close()  # so that either side sees when the other is gone
        try:
            self._ask(START_TIMEOUT_S, start_spark, connector_jars(), self._directory)
        except SessionError as error:
            self._end()
            raise DidNotStart(f"Spark with both connectors: {error}") from error
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not SessionError:
                self._ask(RESPONSE_TIMEOUT_S, stop_spark)
        finally:
            self._end()

    def ask(self, question: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The result of a function of `tests.support.spark.session_functions`, run there. Raises SessionError."""
        return self._ask(RESPONSE_TIMEOUT_S, question, *args, **kwargs)

    def compare(
        self, question: Callable[Concatenate[str, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> tuple[_T, _T]:
        """Put a question to both connectors at the same time: the JVM connector's response and ours."""
        theirs, ours = self._ask(RESPONSE_TIMEOUT_S, side_by_side, (JVM, OURS), question, *args, **kwargs)
        return theirs, ours

    def _ask(self, timeout_s: float, question: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        self._pipe.send((question, args, kwargs))
        if not self._pipe.poll(timeout_s):
            self._end()
            raise SessionError(f"{question.__name__} was not answered in {timeout_s:.0f} s")
        response: _T
        response, problem = self._pipe.recv()
        if problem is not None:
            raise SessionError(problem)
        return response

    def _end(self) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection) -> None:
    """Answer until the other side is gone. Spark's JVM goes with this process: it reads its standard input."""
    while True:
        try:
            question, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        response: tuple[Any, str | None]
        try:
            response = (question(*args, **kwargs), None)
        except Exception:  # whatever broke, `_ask` raises it where the test is
            response = (None, traceback.format_exc())
        pipe.send(response)
