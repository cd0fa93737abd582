"""Finds out which connector wrote a checkpointed offset, from its JSON text.

Spark's process for a streaming source parses the text of an offset and passes a dict to the reader. This source's
offsets are written by ``json.dumps``, with blanks after separators; the JVM connector writes no blanks. So the reader
replaces ``json`` in the module of that process, which runs one query, and records the texts.
"""

import json
import sys
from types import ModuleType
from typing import Any, Final, Self

from spark_kafka_native._spark.errors import PlanError

_RUNNER: Final = "python_streaming_source_runner"


def foreign_offsets(reason: str) -> PlanError:
    """The error for a checkpoint that another source wrote."""
    return PlanError(
        "KAFKA_CHECKPOINT_OF_ANOTHER_SOURCE",
        f"the offsets in the checkpoint are not of this source: {reason}. Set checkpointLocation to the checkpoint of "
        "this query, or to a new directory",
    )


class OffsetTexts:
    """Replaces ``json`` in Spark's runner and records the last two texts: the start and the end of a batch."""

    def __init__(self) -> None:
        self._parsed: list[tuple[str, Any]] = []

    @classmethod
    def recorded(cls) -> Self:
        """Texts that Spark's runner parses from now on; none if this process is not the runner."""
        texts = cls()
        runner = sys.modules["__main__"]
        if _is_runner(runner):
            runner.json = texts  # type: ignore[attr-defined]  # a module that `_is_runner` has checked
        return texts

    def is_of_another_connector(self, offsets: object) -> bool:
        """Whether ``offsets``, an object that the runner has parsed, was not written by this source."""
        texts = [text for text, parsed in self._parsed if parsed is offsets]
        return bool(texts) and texts[0] != json.dumps(offsets)

    def loads(self, text: str) -> Any:
        """As ``json.loads``. Raises PlanError: the checkpoint has another text than JSON."""
        try:
            parsed = json.loads(text)
        except json.JSONDecodeError as error:
            raise foreign_offsets(f"{text[:40]!r} is not JSON ({error})") from None
        self._parsed = [*self._parsed[-1:], (text, parsed)]
        return parsed

    def dumps(self, value: Any) -> str:
        """As ``json.dumps``."""
        return json.dumps(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)


def _is_runner(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.name.endswith(_RUNNER) and hasattr(module, "json")
