"""Options that a command line does not know, with the nearest one that it does."""

import pytest

from broker_embedded.command_line import CommandParser


def parser() -> CommandParser:
    made = CommandParser(prog="p")
    made.add_argument("--listen")
    made.add_argument("--data-dir", required=True)
    return made


def test_known_options_are_parsed() -> None:
    assert parser().parse_args(["--listen", "a:1", "--data-dir", "-1"]).listen == "a:1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lisen", "a:1"], "unrecognized arguments: --lisen; did you mean --listen?"),
        (["--listen", "a:1", "--data-dri=/x"], "unrecognized arguments: --data-dri; did you mean --data-dir?"),
        (["--list", "a:1"], "unrecognized arguments: --list; did you mean --listen?"),
        (["--lisen=a:1"], "unrecognized arguments: --lisen; did you mean --listen?"),
        (["--what"], "unrecognized arguments: --what"),
        (["what", "--data-dir=d"], "unrecognized arguments: what"),
    ],
)
def test_nearest_option_is_suggested(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"p: error: {said}"
