"""``exactly-once``: show, complete and delete the state of the exactly-once sink for a prefix.

pykafka exactly-once status PREFIX --bootstrap-server HOST:PORT
"""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Final

import click

from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.describe_transactions import TransactionState, list_transactions
from spark_kafka_native._command_line.commands import Group, Options
from spark_kafka_native._command_line.output import ToolFailed, say, say_json, say_record
from spark_kafka_native._command_line.parameters import Decorator, argument, flag, together
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._spark.exactly_once.batch import WritePlan
from spark_kafka_native._spark.exactly_once.commands import Status, recover, release, run_again, status
from spark_kafka_native._spark.exactly_once.decision import Decision
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names, names_of_task, names_of_topic
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.sink.effects import carry_out
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.options import cluster_options
from spark_kafka_native._tools.tables import json_flag

_TIMING: Final = timing_of(60_000, 0)
"""Of a command's own decision, and of transactions that it aborts."""
_SHOWN_AT_MOST: Final = 20


@click.group(
    "exactly-once", cls=Group, subcommand_metavar="COMMAND ...",
    help="Show, complete and delete the state of exactly-once sinks. PREFIX is the value of option "
    "transactional.id.prefix.",
    epilog="""\
examples
  {command} list --bootstrap-server localhost:9092
  {command} status orders --bootstrap-server localhost:9092""",
)  # fmt: skip
@cluster_options()
def exactly_once(**_: object) -> None:
    """The options of the cluster are here or those of the command."""


_Function = Callable[[Cluster, Options], None]


def _of_prefix(name: str, text: str, *options: Decorator) -> Callable[[_Function], click.Command]:
    """A command with a PREFIX."""

    def decorate(function: _Function) -> click.Command:
        @functools.wraps(function)
        def checked(cluster: Cluster, given: Options) -> None:
            try:
                function(cluster, given)
            except ExactlyOnceError as error:
                raise ToolFailed(str(error)) from error

        parameters = together(argument("prefix", metavar="PREFIX"), *options, cluster_options())
        return exactly_once.command(name, help=text)(parameters(on_cluster(checked)))

    return decorate


@exactly_once.command("list", help="Print the prefixes in a cluster.")
@json_flag
@cluster_options()
@on_cluster
def _list(cluster: Cluster, options: Options) -> None:
    listings = list_transactions(cluster, states=[TransactionState.ONGOING])
    opened = Counter(names.prefix for listing in listings if (names := names_of_task(listing.transactional_id)))
    topics = cluster.metadata(None).topics
    prefixes = {names.prefix for topic in topics if (names := names_of_topic(topic))}
    for prefix in sorted(prefixes | opened.keys()):
        record = {"prefix": prefix, "openTransactions": opened[prefix]}
        say_record(record, f"{prefix} ({counted(opened[prefix], 'open transaction')})", as_json=options.as_json)


def _existing_names(cluster: Cluster, prefix: str, *, topic_needed: bool = False) -> Names:
    """The names of a prefix whose topic of decisions or, unless ``topic_needed``, one of whose ids exists.

    Raises ToolFailed otherwise, so that a mistyped prefix creates neither the topic nor ``<prefix>.driver``. The ids
    are checked because the topic may have been deleted before its transactions were ended.
    """
    names = Names(prefix=prefix)
    if names.decisions_topic in cluster.metadata(None).topics:
        return names
    ids = [listing.transactional_id for listing in list_transactions(cluster, prefix=f"{prefix}.")]
    if not any(name == names.driver_id or names.parse(name) for name in ids):
        raise ToolFailed(
            f"the cluster has no topic {names.decisions_topic} and no transactional id of prefix {prefix}; nothing was "
            "changed. `exactly-once list` prints the prefixes of a cluster"
        )
    if topic_needed:
        raise ToolFailed(
            f"the cluster has transactional ids of prefix {prefix}, but no topic {names.decisions_topic}; nothing was "
            f"changed. `release {prefix}` aborts open transactions and creates the topic, `remove {prefix}` then "
            "deletes it"
        )
    return names


@_of_prefix("status", "Print the last batch and open transactions; changes nothing.", json_flag)
def _status(cluster: Cluster, options: Options) -> None:
    names = _existing_names(cluster, options.prefix, topic_needed=True)
    found = carry_out(cluster, status(names))
    if options.as_json:
        say_json(_record(names, found))
        return
    say(f"topic of decisions: {names.decisions_topic}")
    say(f"last batch: {_last_batch(found.last)}")
    say(f"open transactions: {len(found.open_ids)}")
    for name in found.open_ids[:_SHOWN_AT_MOST]:
        say(f"  {name}")
    if len(found.open_ids) > _SHOWN_AT_MOST:
        say(f"  and {len(found.open_ids) - _SHOWN_AT_MOST} more")


def _record(names: Names, found: Status) -> dict[str, object]:
    """The state of a prefix in JSON."""
    last = found.last
    batch = None
    if last is not None:
        batch = {
            "batchId": last.batch_id,
            "owner": str(last.owner),
            "committed": last.finished,
            "transactions": len(last.handles),
        }
    return {
        "prefix": names.prefix,
        "decisionsTopic": names.decisions_topic,
        "lastBatch": batch,
        "openTransactions": [*found.open_ids],
    }


def _last_batch(last: Decision | None) -> str:
    if last is None:
        return "none; any query may begin with this prefix"
    what = f"{last.batch_id} of {last.owner}"
    if last.finished:
        return f"{what}, all of it committed"
    return f"{what}, decided, with {counted(len(last.handles), 'transaction')} to commit"


@_of_prefix(
    "recover",
    "Commit a decided batch and abort other transactions, as the next start would; ends a running query.",
    flag("--accept-loss", help="continue although the broker has aborted a part of a decided batch"),
)
def _recover(cluster: Cluster, options: Options) -> None:
    names = _existing_names(cluster, options.prefix)
    found: WritePlan = carry_out(cluster, recover(names, _TIMING, accept_loss=options.accept_loss))
    last = "none" if found.last is None else f"{found.last.batch_id} of {found.last.owner}, all of it committed"
    say(f"last batch: {last}")


@_of_prefix("run-again", "Revoke a decision of which the broker has aborted a part, if no row of it is readable.")
def _run_again(cluster: Cluster, options: Options) -> None:
    carry_out(cluster, run_again(_existing_names(cluster, options.prefix, topic_needed=True), _TIMING))
    say("the decision is revoked: the query's next start runs the batch again")


@_of_prefix("release", "Recover, and allow another query, or the same one with another checkpoint, to use the prefix.")
def _release(cluster: Cluster, options: Options) -> None:
    carry_out(cluster, release(_existing_names(cluster, options.prefix), _TIMING))
    say(f"{options.prefix} is released: any query can use it")
    say("a query that starts from an older or a new checkpoint writes the rows that it reads again twice")


@_of_prefix("remove", "Release, and delete the topic of decisions.")
def _remove(cluster: Cluster, options: Options) -> None:
    names = _existing_names(cluster, options.prefix)
    carry_out(cluster, release(names, _TIMING))
    delete_topics(cluster, [names.decisions_topic])
    say(f"{options.prefix} is removed; brokers delete its transactional ids after transactional.id.expiration.ms")
