"""Commands to a broker for tests, as HTTP methods and paths with JSON bodies, but without HTTP.

    GET    /                  whether the broker runs, its address and the time
    POST   /start /stop       a clean stop
    POST   /kill              as a crash: without responses, flushes and writes
    GET    /faults            DELETE removes them all, and pauses and moves with them
    POST   /faults            {"action": "fail", "api": "Produce", "error": "REQUEST_TIMED_OUT", "times": 2}
    GET    /faults/ID         DELETE removes one
    POST   /fetches/pause     {"topic": "t", "partition": 0}; without them, all partitions
    POST   /fetches/resume    as it was paused
    POST   /leaders/move      {"topic": "t", "partition": 0}
    POST   /coordinators/move {"group": "g"}
    POST   /clock/advance     {"ms": 60000}
    GET    /requests          ?api=Produce&client_id=me&after=17&most=100; DELETE forgets them all
    GET    /topics
    POST   /topics            {"name": "t", "partitions": 3, "configs": {"retention.ms": "1000"}}
    DELETE /topics/NAME
    GET    /metrics

Tests in Python use the same commands, through `broker_embedded._testing.faults` and the brokers.
"""

import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from broker_embedded._testing.brokers import creatable
from broker_embedded._testing.fields import FieldError, Fields
from broker_embedded._testing.restartable import RestartableBroker
from broker_embedded._testing.rules import Rule, scope_of
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._protocol.topic import TopicPartition

Json: TypeAlias = dict[str, Any]
Command: TypeAlias = Callable[[Fields, str], Awaitable[Json]]
"""Executes a command with its fields, for the object at the end of the path."""
OK: Final = 200
BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
METHOD_NOT_ALLOWED: Final = 405
CONFLICT: Final = 409
MAX_RETURNED: Final = 1000
"""Upper bound of the requests in one response."""
_LONGEST_MS: Final = 1000 * 365 * 86_400_000
_MAX_PARTITIONS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResponse:
    """The result of a command: an HTTP status and a JSON body.

    An error has ``{"problem": ...}``, the name of an invalid ``field``, and Kafka's name of a Kafka ``error``.
    """

    status: int = OK
    body: Json

    def result(self) -> Json:
        """The body of a successful command.

        Raises FieldError: an invalid value. KafkaError: the broker refuses. LookupError: the object does not exist.
        RuntimeError: the broker does not run, or cannot execute the command now.
        """
        problem = self.body.get("problem", "")
        if self.status < BAD_REQUEST:
            return self.body
        if "field" in self.body:
            raise FieldError(self.body["field"], problem)
        if "error" in self.body:
            raise KafkaError(ErrorCode[self.body["error"]], problem)
        raise (LookupError if self.status == NOT_FOUND else RuntimeError)(problem)


class _NotFound(LookupError):
    """The object at the end of the path does not exist."""


class Control:
    """Executes commands. Belongs to the broker's event loop."""

    def __init__(self, broker: RestartableBroker) -> None:
        self._broker = broker
        self._commands: Mapping[str, Mapping[str, Command]] = {
            "": {"GET": self._status},
            "start": {"POST": self._start},
            "stop": {"POST": self._stop},
            "kill": {"POST": self._kill},
            "faults": {"GET": self._faults, "POST": self._add_fault, "DELETE": self._clear_faults},
            "faults/": {"GET": self._fault, "DELETE": self._remove_fault},
            "fetches/pause": {"POST": self._pause_fetches},
            "fetches/resume": {"POST": self._resume_fetches},
            "leaders/move": {"POST": self._move_leader},
            "coordinators/move": {"POST": self._move_coordinator},
            "clock/advance": {"POST": self._advance},
            "requests": {"GET": self._requests, "DELETE": self._forget_requests},
            "topics": {"GET": self._topics, "POST": self._create_topic},
            "topics/": {"DELETE": self._delete_topic},
            "metrics": {"GET": self._metrics},
        }

    async def do(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> ControlResponse:
        """Execute one command. ``fields`` are those of the body or, without a body, of the query. Never raises."""
        name, end = self._split(path)
        methods = self._commands.get(name)
        if methods is None:
            known = [f"/{each}" for each in self._commands]
            return _refused(NOT_FOUND, f"{path} is not one of {', '.join(known)}{did_you_mean(path, known)}")
        if method not in methods:
            return _refused(METHOD_NOT_ALLOWED, f"{path} takes {' or '.join(methods)}, not {method}")
        try:
            return ControlResponse(body=await methods[method](Fields(fields or {}), end))
        except FieldError as error:
            return _refused(BAD_REQUEST, error.problem, field=error.field)
        except KafkaError as error:
            return _refused(BAD_REQUEST, error.message, error=error.code.name)
        except _NotFound as error:
            return _refused(NOT_FOUND, str(error))
        except Exception as error:  # any error is answered: the broker does not run, the disk is full
            return _refused(CONFLICT, str(error) or type(error).__name__)

    def _split(self, path: str) -> tuple[str, str]:
        """The name of a command, and the rest of the path."""
        name = path.strip("/")
        if name in self._commands:
            return name, ""
        head, slash, end = name.partition("/")
        return head + slash, end

    # --- the broker --------------------------------------------------------------------------------------------------

    async def _status(self, given: Fields, _: str = "") -> Json:
        given.refuse_rest("this command")
        broker = self._broker
        return {
            "running": broker.is_running,
            "bootstrap_servers": broker.address if broker.is_running else None,
            "now_ms": broker.clock.now_ms(),
        }

    async def _start(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        await self._broker.start()
        return await self._status(given)

    async def _stop(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        await self._broker.stop()
        return await self._status(given)

    async def _kill(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        await self._broker.kill()
        return await self._status(given)

    async def _advance(self, given: Fields, _: str) -> Json:
        ms = given.integer("ms", least=0, most=_LONGEST_MS)
        given.refuse_rest("this command")
        return {"now_ms": await self._broker.advance(ms)}

    async def _metrics(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        plain = _plain(self._broker.server.broker.metrics())
        assert isinstance(plain, dict)
        return plain

    # --- faults ------------------------------------------------------------------------------------------------------

    async def _faults(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        return {"faults": [fault.to_fields() for fault in self._broker.injector.faults]}

    async def _add_fault(self, given: Fields, _: str) -> Json:
        return self._broker.injector.add(Rule.parse(given)).to_fields()

    async def _clear_faults(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        self._broker.injector.clear()
        self._broker.wake_fetches()
        return {}

    async def _fault(self, given: Fields, id_: str) -> Json:
        given.refuse_rest("this command")
        fault = self._broker.injector.get(_number(id_))
        if fault is None:
            raise _NotFound(f"there is no fault {id_}")
        return fault.to_fields()

    async def _remove_fault(self, given: Fields, id_: str) -> Json:
        fields = await self._fault(given, id_)
        self._broker.injector.remove(_number(id_))
        return fields

    async def _pause_fetches(self, given: Fields, _: str) -> Json:
        scope = scope_of(given, "Fetch")
        given.refuse_rest("this command")
        self._broker.injector.pauses.pause(scope)
        return {}

    async def _resume_fetches(self, given: Fields, _: str) -> Json:
        scope = scope_of(given, "Fetch")
        given.refuse_rest("this command")
        self._broker.injector.pauses.resume(scope)
        self._broker.wake_fetches()
        return {}

    async def _move_leader(self, given: Fields, _: str) -> Json:
        partition = TopicPartition(given.text("topic"), given.integer("partition", least=0, most=2**31 - 1))
        given.refuse_rest("this command")
        epoch = await self._broker.server.broker.topics.begin_leader_epoch(partition)
        self._broker.injector.moves.move_leader(*partition)
        return {"leader_epoch": epoch}

    async def _move_coordinator(self, given: Fields, _: str) -> Json:
        group = given.text("group")
        given.refuse_rest("this command")
        self._broker.injector.moves.move_coordinator(group)
        return {}

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _requests(self, given: Fields, _: str) -> Json:
        api = given.text("api", None)
        found = self._broker.injector.recorder.find(
            api=api, client_id=given.text("client_id", None), after=given.integer("after", 0)
        )
        most = given.integer("most", MAX_RETURNED, least=0, most=MAX_RETURNED)
        given.refuse_rest("this command")
        return {
            "requests": [request.to_fields() for request in itertools.islice(found, most)],
            "counts": dict(self._broker.injector.recorder.counts),
        }

    async def _forget_requests(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        self._broker.injector.recorder.clear()
        return {}

    # --- topics ------------------------------------------------------------------------------------------------------

    async def _topics(self, given: Fields, _: str) -> Json:
        given.refuse_rest("this command")
        topics = self._broker.server.broker.image.topics.values()
        return {"topics": {topic.name: len(topic.partitions) for topic in sorted(topics, key=lambda each: each.name)}}

    async def _create_topic(self, given: Fields, _: str) -> Json:
        configs = given.texts_by_name("configs")
        wanted = creatable(given.text("name"), given.integer("partitions", 1, least=1, most=_MAX_PARTITIONS), configs)
        given.refuse_rest("this command")
        topic = await self._broker.server.broker.topics.create(wanted)
        return {"name": topic.name, "partitions": len(topic.partitions), "topic_id": str(topic.topic_id)}

    async def _delete_topic(self, given: Fields, name: str) -> Json:
        given.refuse_rest("this command")
        await self._broker.delete_topic(name)
        return {}


def _plain(value: object) -> object:
    """A value as JSON. Keys of two names are joined by a slash."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {
            "/".join(map(str, name)) if isinstance(name, tuple) else str(name): _plain(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _refused(status: int, problem: str, **more: str) -> ControlResponse:
    return ControlResponse(status=status, body={"problem": problem, **more})


def _number(text: str) -> int:
    """The number in a path; 0, which is no id, if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() else 0
