"""Options and arguments of commands."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click


class _SignedInteger(click.ParamType[int]):
    """A signed integer of so many bits in Kafka's protocol. Help texts do not show its bounds."""

    name = "integer"

    def __init__(self, bits: int) -> None:
        self._end = 1 << bits - 1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = click.INT.convert(value, param, ctx)
        if not -self._end <= number < self._end:
            self.fail(f"{value} is not between {-self._end} and {self._end - 1}", param, ctx)
        return number


INT16: Final = _SignedInteger(16)
INT32: Final = _SignedInteger(32)
INT64: Final = _SignedInteger(64)
POSITIVE: Final = click.IntRange(min=1)
PATH: Final = click.Path(path_type=Path, readable=False)
"""Commands report themselves that they cannot read a file."""


class OptionGroup(NamedTuple):
    """A section of the help. ``exclusive``: at most one option can be given; with ``required``: exactly one."""

    title: str
    exclusive: bool = False
    required: bool = False


class _Valued(click.Parameter):
    """A parameter that refuses ``""``, which usually is a shell variable that is not set."""

    may_be_empty: bool

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        given = (value,) if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
        if "" in given and not self.may_be_empty:
            raise click.BadParameter("must not be empty", ctx, self)
        return super().process_value(ctx, value)


class Option(_Valued, click.Option):
    """As in click, with a group of options, and without empty values unless ``may_be_empty``."""

    def __init__(
        self,
        param_decls: Sequence[str],
        group: OptionGroup | None = None,
        *,
        may_be_empty: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(param_decls, **settings)
        self.group = group
        self.may_be_empty = may_be_empty

    @property
    def takes_one_value(self) -> bool:
        """Whether it can be given only once."""
        return not (self.multiple or self.is_flag or self.count)


class Argument(_Valued, click.Argument):
    """As in click, without empty values. The command's help explains it."""

    may_be_empty = False


_F = Callable[..., Any]
Decorator = Callable[[_F], _F]


def option(*names: str, **settings: Any) -> Decorator:
    """Add an Option to a function that becomes a command."""
    return click.option(*names, cls=Option, **settings)


def flag(*names: str, **settings: Any) -> Decorator:
    """Add an Option without a value."""
    return click.option(*names, cls=Option, is_flag=True, **settings)


def argument(name: str, **settings: Any) -> Decorator:
    """Add an Argument."""
    return click.argument(name, cls=Argument, **settings)


def together(*decorators: Decorator) -> Decorator:
    """One decorator for several options, in the order of the help."""

    def decorate(function: _F) -> _F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def unsupported(hint: str, *names: str) -> Decorator:
    """Refuse options of Apache Kafka's tool that this one does not have. ``hint`` says why, or what to use instead."""

    def refuse(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value is not None and not ctx.resilient_parsing:
            raise click.UsageError(f"{param.opts[0]} is not supported: {hint}", ctx)

    return together(
        *(
            click.option(
                name, is_flag=False, flag_value="", hidden=True, expose_value=False, is_eager=True, callback=refuse
            )
            for name in names
        )
    )
