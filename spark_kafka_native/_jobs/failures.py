"""The errors of a job: one line on stderr, and an exit status."""

import re
from collections.abc import Callable
from typing import Final

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from rich.console import Console

from spark_kafka_native._command_line.output import BAD_USAGE, FAILED, InvalidOption, ToolFailed
from spark_kafka_native._java import JavaMissing
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._spark.errors import PlanError

_RAISED_IN_JAVA: Final = re.compile(r"^(?:: |Caused by: )(?:[\w$]+\.)*([\w$]+: .+)$", re.MULTILINE)
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(?:\w*Error|\w*Exception|Conflict): (.+)$", re.MULTILINE)


def reporting(job: Callable[[], int]) -> int:
    """The exit status of ``job``, after a line about its error, if it raises one that users can cause."""
    try:
        return job()
    except (PlanError, InvalidOption) as error:
        return complain(str(error), BAD_USAGE)
    except (JavaMissing, ToolFailed, KafkaError, OSError) as error:
        return complain(str(error), FAILED)
    except (PySparkException, Py4JError) as error:
        return complain(reason_of(error), FAILED)


def complain(text: str, status: int) -> int:
    """Print a line about an error; the exit status."""
    note(text, style="red")
    return status


def note(text: str, style: str = "") -> None:
    """Print a line to stderr, after the name of the command."""
    console = Console(stderr=True, highlight=False, markup=False)
    console.print(f"{click.get_current_context().command_path}: {text}", style=style, soft_wrap=True)


def reason_of(error: Exception) -> str:
    """The error of Python if there is one in Spark's text, else the root cause in Java, else the first line."""
    text = str(error)
    raised = _RAISED.findall(text) or _RAISED_IN_JAVA.findall(text)
    return raised[-1].strip() if raised else text.partition("\n")[0]
