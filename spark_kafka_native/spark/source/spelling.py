"""How the offsets that Spark hands over were spelled in the checkpoint.

Spark's process for a streaming source parses the text of an offset and hands the reader a dict. The text is worth
knowing in one place: it tells who wrote it. What this source returns is spelled by ``json.dumps``, with blanks; the JVM
connector writes none. So the reader listens to the module's ``json`` in that process, which serves this one query.
"""

import json
import sys
from types import ModuleType
from typing import Any, Final, Self

_RUNNER: Final = "python_streaming_source_runner"


class Spelling:
    """Stands for ``json`` in Spark's runner, and remembers the last two texts: the start and the end of a batch."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, Any]] = []

    @classmethod
    def listen(cls) -> Self:
        """Listen in Spark's runner, if this process is one; elsewhere nothing is ever heard."""
        spelling = cls()
        runner = sys.modules["__main__"]
        if _is_runner(runner):
            runner.json = spelling  # type: ignore[attr-defined]  # a module, which `_is_runner` has looked at
        return spelling

    def is_foreign(self, offsets: object) -> bool:
        """Whether ``offsets``, the object that was handed over, is known not to have been written by this source."""
        texts = [text for text, parsed in self._heard if parsed is offsets]
        return bool(texts) and texts[0] != json.dumps(offsets)

    def loads(self, text: str) -> Any:
        """As ``json.loads``."""
        parsed = json.loads(text)
        self._heard = [*self._heard[-1:], (text, parsed)]
        return parsed

    def dumps(self, value: Any) -> str:
        """As ``json.dumps``."""
        return json.dumps(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)


def _is_runner(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.name.endswith(_RUNNER) and hasattr(module, "json")
