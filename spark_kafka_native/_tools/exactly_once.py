"""``exactly-once``: show, complete and delete the state of the exactly-once sink for a prefix.

python -m spark_kafka_native.tools exactly-once status PREFIX --bootstrap-server HOST:PORT
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.describe_transactions import TransactionState, list_transactions
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._spark.exactly_once.batch import WritePlan
from spark_kafka_native._spark.exactly_once.commands import recover, release, run_again, status
from spark_kafka_native._spark.exactly_once.decision import Decision
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names, names_of_task, names_of_topic
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.sink.effects import carry_out
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import Action, ToolParser
from spark_kafka_native._tools.output import ToolError, ToolFailure, refuse, say

_TOOL: Final = "exactly-once"
_TIMING: Final = timing_of(60_000, 0)
"""Of a command's own decision, and of transactions that it aborts."""
_SHOWN_AT_MOST: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run one command for a prefix; the exit status. 0: done. 1: it failed. 2: a bad option."""
    options = _parser().parse_intermixed_args(arguments)
    try:
        action, _ = _COMMANDS[options.command]
        if (options.prefix is None) is not (action is _list):
            raise ToolError("list takes no PREFIX" if action is _list else f"{options.command} requires a PREFIX")
        if options.accept_loss and action is not _recover:
            raise ToolError("--accept-loss is an option of recover only")
        with open_cluster(options) as cluster:
            action(cluster, options)
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except (KafkaError, ToolFailure, ExactlyOnceError) as error:
        return refuse(_TOOL, error)
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "Show, complete and delete the state of the exactly-once sink in a cluster.")
    texts = "; ".join(f"{name}: {text}" for name, (_, text) in _COMMANDS.items())
    parser.add_argument("command", choices=_COMMANDS, metavar="COMMAND", help=texts)
    parser.add_argument("prefix", nargs="?", metavar="PREFIX", help="the value of option transactional.id.prefix")
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="with recover: continue although the broker has aborted a part of a decided batch",
    )
    parser.add_cluster()
    return parser


def _list(cluster: Cluster, _: argparse.Namespace) -> None:
    listings = list_transactions(cluster, states=[TransactionState.ONGOING])
    opened = Counter(names.prefix for listing in listings if (names := names_of_task(listing.transactional_id)))
    topics = cluster.metadata(None).topics
    prefixes = {names.prefix for topic in topics if (names := names_of_topic(topic))}
    for prefix in sorted(prefixes | opened.keys()):
        say(f"{prefix} ({opened[prefix]} transactions open)")


def _existing_names(cluster: Cluster, prefix: str, *, topic_needed: bool = False) -> Names:
    """The names of a prefix whose topic of decisions or, unless ``topic_needed``, one of whose ids exists.

    Raises ToolFailure otherwise, so that a mistyped prefix creates neither the topic nor ``<prefix>.driver``. The ids
    are checked because the topic may have been deleted before its transactions were ended.
    """
    names = Names(prefix=prefix)
    if names.decisions_topic in cluster.metadata(None).topics:
        return names
    ids = [listing.transactional_id for listing in list_transactions(cluster, prefix=f"{prefix}.")]
    if not any(name == names.driver_id or names.parse(name) for name in ids):
        raise ToolFailure(
            f"the cluster has no topic {names.decisions_topic} and no transactional id of prefix {prefix}; nothing was "
            "changed. `exactly-once list` prints the prefixes of a cluster"
        )
    if topic_needed:
        raise ToolFailure(
            f"the cluster has transactional ids of prefix {prefix}, but no topic {names.decisions_topic}; nothing was "
            f"changed. `release {prefix}` aborts open transactions and creates the topic, `remove {prefix}` then "
            "deletes it"
        )
    return names


def _status(cluster: Cluster, options: argparse.Namespace) -> None:
    names = _existing_names(cluster, options.prefix, topic_needed=True)
    found = carry_out(cluster, status(names))
    say(f"topic of decisions: {names.decisions_topic}")
    say(f"last batch: {_last_batch(found.last)}")
    say(f"open transactions: {len(found.open_ids)}")
    for name in found.open_ids[:_SHOWN_AT_MOST]:
        say(f"  {name}")
    if len(found.open_ids) > _SHOWN_AT_MOST:
        say(f"  and {len(found.open_ids) - _SHOWN_AT_MOST} more")


def _last_batch(last: Decision | None) -> str:
    if last is None:
        return "none; any query may begin with this prefix"
    what = f"{last.batch_id} of {last.owner}"
    if last.finished:
        return f"{what}, all of it committed"
    return f"{what}, decided, with {len(last.handles)} transactions that are to be committed"


def _recover(cluster: Cluster, options: argparse.Namespace) -> None:
    names = _existing_names(cluster, options.prefix)
    found: WritePlan = carry_out(cluster, recover(names, _TIMING, accept_loss=options.accept_loss))
    last = "none" if found.last is None else f"{found.last.batch_id} of {found.last.owner}, all of it committed"
    say(f"last batch: {last}")


def _run_again(cluster: Cluster, options: argparse.Namespace) -> None:
    carry_out(cluster, run_again(_existing_names(cluster, options.prefix, topic_needed=True), _TIMING))
    say("the decision is revoked: the query's next start runs the batch again")


def _release(cluster: Cluster, options: argparse.Namespace) -> None:
    carry_out(cluster, release(_existing_names(cluster, options.prefix), _TIMING))
    say(f"{options.prefix} is released: any query can use it")
    say("a query that starts from an older or a new checkpoint writes the rows that it reads again twice")


def _remove(cluster: Cluster, options: argparse.Namespace) -> None:
    names = _existing_names(cluster, options.prefix)
    carry_out(cluster, release(names, _TIMING))
    delete_topics(cluster, [names.decisions_topic])
    say(f"{options.prefix} is removed; brokers delete its transactional ids after transactional.id.expiration.ms")


_COMMANDS: Final[Mapping[str, tuple[Action, str]]] = {
    "list": (_list, "print the prefixes in a cluster"),
    "status": (_status, "print the last batch and open transactions; changes nothing"),
    "recover": (
        _recover,
        "commit a decided batch and abort other transactions, as the next start would; ends a running query",
    ),
    "run-again": (_run_again, "revoke a decision of which the broker has aborted a part, if no row of it is readable"),
    "release": (
        _release,
        "recover, and allow another query, or the same one with another checkpoint, to use the prefix",
    ),
    "remove": (_remove, "release, and delete the topic of decisions"),
}
