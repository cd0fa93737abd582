"""Foreign clients as one kind of thing: agents, programs that do with their client library what a line of JSON says.

The agents are in tests/interop/clients/, one per library; `tests/interop/clients/python/line_agent.py` says how lines
look. Records travel as text. A member is a consumer that has joined a group and polls until it leaves.
"""

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.clients.interface import Refused

RESPONSE_TIMEOUT_S = 60.0
REPOSITORY = Path(__file__).parents[3]

TopicPartition = tuple[str, int]
Transactions = Sequence[tuple[Sequence["ForeignRecord"], bool]]
"""Records of transactions, and whether each is committed."""


class AgentError(Exception):
    """An agent failed, other than by an error code of Kafka's; the message has what the client said."""


class ForeignRecord(NamedTuple):
    """A record as agents send and receive it. `timestamp` None is the client's clock."""

    value: str | None
    key: str | None = None
    partition: int = 0
    headers: tuple[tuple[str, str | None], ...] = ()
    timestamp: int | None = None
    offset: int = -1
    topic: str = ""


class Member:
    """A consumer in a group. Remembers all that it has read."""

    def __init__(self, agent: "Agent", name: str) -> None:
        self._agent, self.name = agent, name
        self.records: list[ForeignRecord] = []
        self.assignment: list[TopicPartition] = []

    def look(self) -> Self:
        """Learn what it has been assigned and has read by now. One that has left has all that it ever will."""
        if self.name not in self._agent.members:
            return self
        seen = self._agent.ask("look", member=self.name)
        self.records += [_record(record) for record in seen["records"]]
        self.assignment = sorted((topic, partition) for topic, partition in seen["assignment"])
        return self

    def commit(self) -> None:
        """Commit what it has read."""
        self._agent.ask("commit", member=self.name)

    def leave(self) -> None:
        """Leave the group without committing."""
        self._agent.ask("leave", member=self.name)
        self._agent.members.discard(self.name)
        self.assignment = []


class Agent:
    """A running agent. All calls wait for their response.

    Raises Refused if the client reported an error code of Kafka's, else AgentError.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        self.members: set[str] = set()
        """Those that have joined a group and not left it."""
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the program at once: members that are left vanish without leaving."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def ask(self, do: str, timeout_s: float = RESPONSE_TIMEOUT_S, **arguments: Any) -> Any:
        """What came of one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise AgentError(f"the agent is gone before {do}: {self._said()}") from error
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            self._process.kill()  # its next line would answer the wrong question
            raise AgentError(f"no response to {do} within {timeout_s:.0f} s: {self._said()}") from None
        if not line:
            raise AgentError(f"the agent ended in {do}: {self._said()}")
        response = json.loads(line)
        if response.get("code") is not None:
            raise Refused(response["code"]) from AgentError(response["error"])
        if "error" in response:
            raise AgentError(f"{do}: {response['error']}\n{self._said()}")
        return response["answer"]

    def produce(self, servers: str, topic: str, records: Sequence[ForeignRecord], codec: str = "none") -> list[int]:
        """Send records with acks=all; the offset of each."""
        responses = self.ask(
            "produce", servers=servers, topic=topic, codec=codec, records=[*map(ForeignRecord._asdict, records)]
        )
        assert [partition for partition, _ in responses] == [record.partition for record in records]
        return [offset for _, offset in responses]

    def consume(
        self, servers: str, topic: str, counts: Mapping[int, int], isolation: str | None = None
    ) -> list[ForeignRecord]:
        """Read so many records of each partition from its beginning; sorted by partition and offset.

        `isolation` is `isolation.level`, the client's own default if it is None.
        """
        records = self.ask("consume", servers=servers, topic=topic, counts=counts, isolation=isolation)
        return sorted(map(_record, records), key=lambda record: (record.partition, record.offset))

    def transact(self, servers: str, transactional_id: str, topic: str, transactions: Transactions) -> None:
        """Write transactions one after the other, with one producer; each is committed or not."""
        wanted = [{"records": [record._asdict() for record in part], "commit": commit} for part, commit in transactions]
        names: dict[str, Any] = {"servers": servers, "transactional_id": transactional_id, "topic": topic}
        self.ask("transact", transactions=wanted, **names)

    def copy(self, servers: str, transactional_id: str, group: str, source: str, topic: str, count: int) -> None:
        """Write so many records that a group reads from `source` in capitals to `topic`, with the group's positions.

        A transaction for what was read together; the first is aborted, and what it had is read again.
        """
        names: dict[str, Any] = {"servers": servers, "transactional_id": transactional_id, "group": group}
        self.ask("copy", source=source, topic=topic, count=count, **names)

    def join(
        self,
        servers: str,
        group: str,
        topics: Sequence[str],
        name: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        assignors: Sequence[str] = (),
    ) -> Member:
        """A new member, without waiting for its assignment; `protocol` is `group.protocol`.

        `assignors` by their names in JoinGroup; none: the client's own.
        """
        names: dict[str, Any] = {
            "servers": servers,
            "member": name,
            "group": group,
            "protocol": protocol,
            "instance": instance,
        }
        self.ask("join", **names, topics=[*topics], assignors=[*assignors])
        self.members.add(name)
        return Member(self, name)

    def committed(self, servers: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """A group's offsets; None where it has none."""
        response = self.ask("committed", servers=servers, group=group, topic=topic, partitions=[*partitions])
        return {int(partition): offset for partition, offset in response.items()}

    def offsets(self, servers: str, topic: str, partitions: Sequence[int], at: str | int) -> dict[int, int]:
        """Where partitions begin ("earliest") or end ("latest"), or their first offset at or after a time, else -1."""
        response = self.ask("offsets", servers=servers, topic=topic, partitions=[*partitions], at=at)
        return {int(partition): offset for partition, offset in response.items()}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _said(self) -> str:
        """The end of what the program wrote to its standard error."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")


def _record(record: dict[str, Any]) -> ForeignRecord:
    return ForeignRecord(**record | {"headers": tuple((key, value) for key, value in record["headers"])})
