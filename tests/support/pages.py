"""Examples on pages of Markdown: blocks of code, and what they print."""

import contextlib
import io
import re
import textwrap
from pathlib import Path
from typing import Any, Final, NamedTuple

RUN_MARK: Final = "<!-- run -->"
_FENCE: Final = re.compile(
    rf"(?P<mark>{RUN_MARK}\n+)?^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code on a page."""

    page: Path
    line: int
    """Where its code begins on the page."""
    kind: str
    """What stands after the fence."""
    is_marked: bool
    """Whether a comment says that it is to be run."""
    code: str

    @property
    def promised(self) -> list[str]:
        """The lines that its comments show as output."""
        return re.findall(r"# -> (.*)", self.code)

    def run(self, namespace: dict[str, Any]) -> list[str]:
        """Run Python code; the lines that it prints. Tracebacks have the lines of the page.

        Raises AssertionError: a line that a comment shows is not printed.
        """
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (self.line - 1) + self.code, str(self.page), "exec"), namespace)  # ours
        printed = output.getvalue().splitlines()
        missing = [line for line in self.promised if line not in printed]
        assert missing == [], f"{self.page}:{self.line} printed {printed}"
        return printed


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in their order. Raises ValueError: a fence has no end."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    if 2 * len(found) != len(re.findall(r"^ *```", text, re.MULTILINE)):
        raise ValueError(f"{page}: a fence has no end")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("code")) + 1,
            kind=match["kind"],
            is_marked=match["mark"] is not None,
            code=textwrap.dedent(match["code"]),
        )
        for match in found
    ]
