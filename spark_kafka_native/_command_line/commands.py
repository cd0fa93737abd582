"""Commands: their help, the checks of their options, and their exit status."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import click

from spark_kafka_native import __version__
from spark_kafka_native._command_line.output import (
    BAD_USAGE,
    FAILED,
    InvalidOption,
    OutputClosed,
    OutputFailed,
    ToolFailed,
    complain,
    flush_output,
    say,
)
from spark_kafka_native._command_line.parameters import Decorator, Option, OptionGroup, flag
from spark_kafka_native._extras import SparkMissing, import_with_spark
from spark_kafka_native._protocol.errors import KafkaError, LocalProtocolError

Options = SimpleNamespace
"""The options of a command, by their names in Python."""
_INTERRUPTED: Final = 130
"""The shell's status of a program that the user has interrupted."""
_PIPE_CLOSED: Final = 141
"""The shell's status of a program that SIGPIPE has ended."""
_MAX_HELP_WIDTH: Final = 120
_OTHER_OPTIONS: Final = OptionGroup("Options")


class _Failed(click.ClickException):
    """A command has failed; the text begins with its name."""

    def __init__(self, ctx: click.Context, error: Exception, status: int) -> None:
        super().__init__(f"{ctx.command_path}: {error}")
        self.status = status


class Command(click.Command):
    """Refuses repeated options without ``multiple``, and checks OptionGroups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(self._separated(args))
        try:
            if not ctx.resilient_parsing:
                # click reports neither repeated options nor one that is the value of another: this is what was given.
                values, _, given = self.make_parser(ctx).parse_args(list(words))
                if not any(param.is_eager for param in given):
                    self._check_repeated(ctx, given)
                    self._check_groups(ctx, given)
                self._check_values(ctx, given, values, words)
            return super().parse_args(ctx, words)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # some errors of click lack it
            raise

    def _separated(self, args: Sequence[str]) -> Iterator[str]:
        """``-t=ID`` as ``-t ID``: for click the equals sign is a part of the value."""
        short = {name for param in self.params for name in param.opts if re.fullmatch("-[^-]", name)}
        words = iter(args)
        for word in words:
            if word == "--":
                yield word
                yield from words
            elif word[:2] in short and word[2:3] == "=":
                yield word[:2]
                yield word[3:]
            else:
                yield word

    def _check_values(
        self, ctx: click.Context, given: Sequence[click.Parameter], values: Mapping[str, Any], words: Sequence[str]
    ) -> None:
        """Refuse an option as the value of another, whose own value is missing: a shell variable may not be set."""
        known = {name for param in self.get_params(ctx) for name in param.opts}
        for param in dict.fromkeys(given):
            if not isinstance(param, Option) or param.is_flag:
                continue
            found = values[param.name or ""]
            for value in found if isinstance(found, list) else [found]:
                if not isinstance(value, str) or any(f"{name}={value}" in words for name in param.opts):
                    continue
                if value.partition("=")[0] in known or (value.startswith("--") and value != "--"):
                    raise click.UsageError(f"{_names(param)} requires an argument; {value} is an option", ctx)

    def _check_repeated(self, ctx: click.Context, given: Sequence[click.Parameter]) -> None:
        for param, times in Counter(given).items():
            if times > 1 and isinstance(param, Option) and param.takes_one_value:
                raise click.UsageError(f"{_names(param)} is given more than once; it takes one value", ctx)

    def _check_groups(self, ctx: click.Context, given: Sequence[click.Parameter]) -> None:
        groups: dict[OptionGroup, list[Option]] = {}
        for param in self.params:
            if isinstance(param, Option) and param.group is not None and param.group.exclusive:
                groups.setdefault(param.group, []).append(param)
        for group, members in groups.items():
            chosen = [param for param in members if param in given]
            if len(chosen) > 1:
                raise click.UsageError(f"{' and '.join(map(_names, chosen))} cannot be used together", ctx)
            if group.required and not chosen:
                raise click.UsageError(f"one of {', '.join(map(_names, members))} is required", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                rows.setdefault((getattr(param, "group", None) or _OTHER_OPTIONS).title, []).append(row)
        for title in sorted(rows, key=lambda title: title == _OTHER_OPTIONS.title):  # which are last
            with formatter.section(title):
                formatter.write_dl(rows[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog unwrapped. ``{command}`` becomes the command path."""
        if self.epilog:
            formatter.write_paragraph()
            formatter.write(f"{self.epilog.replace('{command}', ctx.command_path)}\n")

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """As in click, but errors of stdout are reported as those of other output: click would raise OSError."""
        found = super().get_help_option(ctx)
        if found is not None:
            found.callback = _show_help
        return found


def _names(param: click.Parameter) -> str:
    return "/".join(param.opts)


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # as in click
    if value and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()


class ToolCommand(Command):
    """A tool. Its function raises InvalidOption for a bad option, ToolFailed if it fails, or an error of the client."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (InvalidOption, UnicodeError, LocalProtocolError) as error:
            raise _Failed(ctx, error, BAD_USAGE) from error
        except (ToolFailed, KafkaError, OSError) as error:
            raise _Failed(ctx, error, FAILED) from error


class PassingCommand(ToolCommand):
    """A command without options: ``ctx.args`` has all of its arguments, ``--`` and options included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args


class Group(Command, click.Group):
    """Commands of one tool. Its own options are given before the command."""

    command_class = ToolCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as in click
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


class Lazy(NamedTuple):
    """Import path ``module:attribute`` of a command, and its summary."""

    where: str
    summary: str

    def load(self, name: str) -> click.Command:
        """Import the command ``name``. Raises SparkMissing."""
        module, _, attribute = self.where.partition(":")
        found: click.Command = getattr(import_with_spark(module, name), attribute)
        return found


class LazyGroup(Group):
    """Commands of many modules, in sections of the help."""

    def __init__(self, sections: Mapping[str, Mapping[str, Lazy]], **settings: Any) -> None:
        self._sections = sections
        self._lazy = {name: lazy for commands in sections.values() for name, lazy in commands.items()}
        # Stubs, so that help and completion import no tool.
        shown = {name: click.Command(name, short_help=lazy.summary) for name, lazy in self._lazy.items()}
        super().__init__(commands=shown, **settings)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, left = super().resolve_command(ctx, args)
        return (
            name,
            self._lazy[name].load(f"{ctx.command_path} {name}") if name is not None and command is not None else None,
            left,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as in click
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, lazy.summary) for name, lazy in commands.items()])


def given_options() -> Options:
    """The options of the command that runs, and where it has none, those of the groups that it is in."""
    found: dict[str, Any] = {}
    ctx: click.Context | None = click.get_current_context()
    while ctx is not None:
        found |= {name: value for name, value in ctx.params.items() if found.get(name) is None}
        ctx = ctx.parent
    return Options(**found)


def warn(text: str) -> None:
    """Print a line on stderr that begins with the path of the command that runs. Raises OutputClosed."""
    complain(f"{click.get_current_context().command_path}: {text}")


def version_flag(text: str, help_text: str) -> Decorator:
    """``--version``: print ``text``, and end the program. As for help, errors of stdout are reported as always."""

    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # as in click
        if value and not ctx.resilient_parsing:
            say(text)
            ctx.exit()

    return flag("--version", is_eager=True, expose_value=False, callback=show, help=help_text)


PACKAGE_VERSION: Final = f"spark-kafka-native {__version__}"


def run(command: click.Command | Lazy, name: str, arguments: Sequence[str]) -> int:
    """Run a command under a name; its exit status.

    0, or what the command returns: done. 1: it failed, or stdout cannot be written. 2: a bad option. 130: interrupted.
    141: the reader of the output has closed it.
    """
    open_closed_streams()
    try:
        try:
            return _status(command, name, arguments)
        finally:
            flush_output()
    except OutputClosed:
        return _PIPE_CLOSED
    except OutputFailed as error:
        with suppress(OutputClosed):
            complain(f"{name}: {error}")
        return FAILED
    finally:
        _discard_buffers()


def _status(command: click.Command | Lazy, name: str, arguments: Sequence[str]) -> int:
    try:
        loaded = command.load(name) if isinstance(command, Lazy) else command
        settings: dict[str, Any] = {"max_content_width": _MAX_HELP_WIDTH, "help_option_names": ["-h", "--help"]}
        with loaded.make_context(name, list(arguments), **settings) as ctx:
            return loaded.invoke(ctx) or 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        complain(error.format_message())
        return BAD_USAGE
    except click.UsageError as error:
        path = name if error.ctx is None else error.ctx.command_path
        complain(f"{path}: {error.format_message()}\nTry '{path} --help' for help.")
        return BAD_USAGE
    except _Failed as error:
        complain(error.message)
        return error.status
    except SparkMissing as error:
        complain(str(error))
        return FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def open_closed_streams() -> None:
    """Open the null device for those of stdin, stdout and stderr that are closed, so that no file gets their number.

    A closed stdout is no error, as in Apache Kafka's tools. ``sys.stdin`` stays None, for those that read it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def _discard_buffers() -> None:
    """Discard what stdout and stderr cannot write. Python flushes them at its end, and exits with 120 if it cannot."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
