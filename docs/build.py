"""Make docs/options.md from the tables in code: ``python -m docs.build``, ``make docs``.

Every name, default and bound on these pages comes from the table that the parser itself uses, so they are either right
or not built; a test compares them with what this module makes.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.consumer_settings import GroupSettings
from broker_embedded._config.listener_settings import prefixed_settings
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.log_defaults import LOG_SYNONYMS
from broker_embedded._config.releases import NOT_SERVED, RELEASE_NAMES, api_names
from broker_embedded._config.settings import INT_MAX, LONG_MAX, SHORT_MAX, Setting
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._groups.pattern import (
    MAX_CHARACTERS,
    MAX_FOLDED_CLASSES,
    MAX_NAMES,
    MAX_NAMES_PROGRAM_BYTES,
    MAX_PROGRAM_BYTES,
    MAX_REPETITIONS,
    MAX_UNICODE_CLASSES,
)
from spark_kafka_native._client.config import DEPARTURES, PROPERTIES, WITHOUT_EFFECT
from spark_kafka_native._client.config_def import Property
from spark_kafka_native._client.discovery_config import DISCOVERY_PROPERTIES
from spark_kafka_native._record_clients.consumer.group_config import OLD_NAMES as OLD_CONSUMER_NAMES
from spark_kafka_native._record_clients.consumer.group_config import OLD_NOTES as OLD_CONSUMER_NOTES
from spark_kafka_native._record_clients.consumer.group_config import PROPERTIES as CONSUMER_PROPERTIES
from spark_kafka_native._record_clients.consumer.group_config import WITHOUT_EFFECT as CONSUMER_WITHOUT_EFFECT
from spark_kafka_native._record_clients.producer.config import OLD_NAMES, OLD_NOTES
from spark_kafka_native._record_clients.producer.config import PROPERTIES as PRODUCER_PROPERTIES
from spark_kafka_native._spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS, Option

PAGE = Path(__file__).with_name("options.md")

_NO_BOUND = {None, -math.inf, *(-most - 1 for most in (SHORT_MAX, INT_MAX, LONG_MAX))}
_HEAD = """\
# Options

`make docs` generates this page from tables in the code; edits are lost. Names of Spark options are case-insensitive.

- [Source options](#source-options): `spark.read` and `spark.readStream`
- [Sink options](#sink-options): `df.write` and `df.writeStream`
- [Kafka client properties](#kafka-client-properties): `kafka.*` options of both
- [Producer properties](#producer-properties): `spark_kafka_native.clients.Producer`
- [Consumer properties](#consumer-properties): `spark_kafka_native.clients.ConsumerConnector` and `.SimpleConsumer`
- [Client properties of ZooKeeper](#client-properties-of-zookeeper): of clients of single records
- [Broker settings](#broker-settings): `python -m broker_embedded` and `EmbeddedBroker(settings=...)`
- [Settings without effect](#settings-without-effect): of Apache Kafka's brokers, in the bundled broker
- [Topic configs](#topic-configs): of a topic on the bundled broker
- [Group configs](#group-configs): of a consumer group on the bundled broker
- [Regular expressions](#regular-expressions): of consumer groups and of ListTransactions
- [Releases](#releases): of Apache Kafka that the bundled broker can emulate
"""

_SOURCE = """
## Source options

Exactly one of `subscribe`, `subscribePattern` and `assign` is required. A name that is in neither this table nor that
of client properties is an error before the query starts.

"""

_SINK = """
## Sink options

Columns of the rows: `value` (string or binary, required), `key` (string or binary), `topic` (string; required without
the option `topic`), `partition` (int), `headers` (array of struct of string and binary, or a map of string to string or
binary), and with the option `includeTimestamp` `timestamp` (timestamp).

"""

_CLIENT = """
## Kafka client properties

Give these to Spark with the prefix `kafka.`, such as `.option("kafka.compression.type", "zstd")`. Defaults are those of
Apache Kafka's own clients, with the exceptions listed below the table. Only `bootstrap.servers` is required. Names that
are not in these tables are errors; [security.md](security.md) has examples of TLS and SASL.

"""

_DISCOVERY = """
## Client properties of ZooKeeper

Clients that read and write single records have these, too, as the alternative to `bootstrap.servers`; Spark's source
and sink do not. [zookeeper.md](zookeeper.md#clients) describes them, and the names of older releases.

"""

_DEPARTURES = """
Defaults that are not Kafka's, and why Kafka's does not fit:

"""

_QUOTAS = """
### Client quotas

A quota bounds what a user or a client id may produce, fetch or use of a broker. The client id is that of
`kafka.client.id`, by default `spark-kafka-native`. All tasks of all queries with one client id share its quota at each
broker. The same command sets a quota on the bundled broker and on Apache Kafka, whose `bin/kafka-configs.sh` takes the
same options:

```sh
pykafka configs --bootstrap-server broker:9092 --alter --entity-type clients \\
    --entity-name spark-kafka-native --add-config producer_byte_rate=1048576,consumer_byte_rate=2097152
```

`--describe` shows quotas, `--delete-config producer_byte_rate,consumer_byte_rate` removes them, and
`--entity-type users` names users of SASL.

The broker's response has the time for which it throttles the client. Source and sink wait for that time and continue.
Tasks take longer, and no query fails within these bounds:

- The source: the time does not count as time without progress (`kafkaConsumer.pollTimeoutMs`). A task ends with an
  error that names the quota after ten minutes of throttle without a record.
- The sink: the time counts towards `kafka.delivery.timeout.ms`, as in Apache Kafka's producer. A record batch that
  cannot be written within it ends the task with an error that names the quota. Raise the timeout if a quota is small.
"""

_CONSUMER_WITHOUT_EFFECT = """
Properties of Kafka's consumers that are ignored with a warning, and why:

"""
_WITHOUT_EFFECT = """
These properties of the Java clients have no effect here. They are accepted with a warning. As in Spark's JVM connector,
a source refuses `enable.auto.commit` and `auto.offset.reset`. `startingOffsets` says where a query starts.

"""

_PRODUCER = """
## Producer properties

[The producer of single records](clients.md#producer) has these properties and the
[client properties](#kafka-client-properties), without the prefix `kafka.`.

"""

_OLD_NAMES = """
Names of Kafka 0.7's and 0.8's producers, and the properties that they set:

"""

_CONSUMER = """
## Consumer properties

[The group consumer](clients.md#group-consumer) has these properties and the
[client properties](#kafka-client-properties), without the prefix `kafka.`.
[The simple consumer](clients.md#simple-consumer) has the client properties alone. For it `group.id` and `client.rack`
are errors, because it is no member of a group, and does not choose a replica by its rack.

"""

_OLD_CONSUMER_NAMES = """
Names of the consumers of Kafka 0.7 to 0.10, and the properties that they set:

"""

_BROKER = """
## Broker settings

Names are Apache Kafka's. Settings are given on the command line as `--set num.partitions=3`, or in Python as
`EmbeddedBroker(settings={"num.partitions": "3"})`. Admin clients can change some of them at run time, for the broker or
for all brokers. If a setting is the default of a topic config, its meaning ends with the name of that config.

"""

_UNUSED = """
## Settings without effect

The bundled broker knows every setting of Apache Kafka 4.3's brokers, and those of ZooKeeper in earlier releases. It
accepts, validates, stores and describes those of this table, and logs once that they have no effect. A value is refused
if the broker does not have the feature that the value turns on. `python -m broker_embedded` refuses an unknown setting
at the start. `kafka-server-start.sh` ignores it with a warning. At run time an unknown setting is stored with a
warning, as in Kafka. Settings marked `broker` can only be changed for a single broker.

"""

_LISTENER = """
## Listener settings

A setting of a single listener overrides the setting of all listeners. LISTENER is its name in small letters, as in
`listener.name.sasl_plaintext.connections.max.reauth.ms`.

"""

_TOPIC = """
## Topic configs

Configs of a new topic are set by `EmbeddedBroker.create_topic(..., configs={"retention.ms": "60000"})` or by any Kafka
admin client. Admin clients can also change the configs of an existing topic.

"""

_GROUP = """
## Group configs

Admin clients can set these configs for a single group of the consumer protocol (KIP-848). They override the broker's
`group.consumer.*`.

"""

_REGEX = rf"""
### Regular expressions

A consumer group of the consumer protocol may subscribe with a regular expression (`SubscriptionPattern` in Java), and
ListTransactions may filter with one. The expression must match the whole name. The syntax is that of
[RE2](https://github.com/google/re2/wiki/Syntax): no backreferences, no lookahead, no lookbehind, linear time. Apache
Kafka uses RE2/J, the bundled broker uses the package `google-re2`. They differ in this:

- RE2 accepts `\C` (one byte), a literal `{{` that is repeated (`{{+`), and two groups of one name. RE2/J refuses them.
- RE2/J accepts `\` before a character beyond ASCII, and more than 1000 repetitions in all, as in `(a{{500}}){{3}}`. RE2
  refuses them.
- `\p{{Greek}}` and other Unicode classes have the characters of the Unicode version of the library; RE2's is newer.
- The bundled broker refuses an expression of more than {MAX_CHARACTERS:,} characters, of more than
  {MAX_UNICODE_CLASSES} classes `\p` and `\P`, of more than {MAX_FOLDED_CLASSES:,} classes of any kind with `(?i)`, with
  repetitions `{{n}}` of more than {MAX_REPETITIONS:,} in all, or whose compiled program takes more than
  {MAX_PROGRAM_BYTES >> 10} KiB, as that of `[a-z]{{0,1000}}` written six times or of `\pL{{10}}`. The program may take
  {MAX_NAMES_PROGRAM_BYTES >> 20} MiB if the expression is at most {MAX_NAMES:,} names joined with `|`. Kafka has no
  bounds.

The error of a refused expression is INVALID_REGULAR_EXPRESSION.

Names are matched in a separate thread, because a large expression takes up to 20 ms for the name of a topic. A
transactional id of 32,767 characters takes up to 3 s, and delays other expressions.

Wheels of `google-re2` are for Linux with glibc 2.28 or later and for macOS 13 (Intel) or 14 (Apple silicon) or later;
elsewhere pip builds it, which needs RE2 and Abseil with their headers, pybind11 and a C++ compiler.
"""

_RELEASES = f"""
## Releases

With `--as-version 2.8`, or the setting `as.version`, the bundled broker emulates a broker of another release, from
{RELEASE_NAMES[0]} to {RELEASE_NAMES[-1]}. It offers the versions of the APIs of that release, stores records in its
message format, and behaves like that release where clients can see a difference. For this reason clients can be tested
with the release of their cluster. Up to 3.9 it is a broker with ZooKeeper, from 4.0 one with KRaft. The broker does not
offer these APIs:

"""


def options_page() -> str:
    """The whole page, as Markdown."""
    return "".join(
        (
            _HEAD,
            _SOURCE,
            _options(SOURCE_OPTIONS),
            _SINK,
            _options(SINK_OPTIONS),
            _CLIENT,
            table(("Property", "Default", "Values", "Meaning"), map(_client_row, PROPERTIES.values())),
            _DEPARTURES,
            _list(DEPARTURES.items()),
            _WITHOUT_EFFECT,
            _list(WITHOUT_EFFECT.items()),
            _QUOTAS,
            _PRODUCER,
            table(("Property", "Default", "Values", "Meaning"), map(_client_row, PRODUCER_PROPERTIES.values())),
            _OLD_NAMES,
            _list((old, f"`{name}`{OLD_NOTES.get(old, '')}") for old, name in OLD_NAMES.items()),
            _CONSUMER,
            table(("Property", "Default", "Values", "Meaning"), map(_client_row, CONSUMER_PROPERTIES.values())),
            _OLD_CONSUMER_NAMES,
            _list((old, f"`{name}`{OLD_CONSUMER_NOTES.get(old, '')}") for old, name in OLD_CONSUMER_NAMES.items()),
            _CONSUMER_WITHOUT_EFFECT,
            _list(CONSUMER_WITHOUT_EFFECT.items()),
            _DISCOVERY,
            table(("Property", "Default", "Values", "Meaning"), map(_client_row, DISCOVERY_PROPERTIES.values())),
            _BROKER,
            table(
                ("Setting", "Default", "At run time", "Values", "Meaning"),
                map(_broker_row, BrokerConfig.settings().values()),
            ),
            _UNUSED,
            table(
                ("Setting", "Default", "At run time", "Values", "Meaning"), map(_unused_row, unused_settings().values())
            ),
            _LISTENER,
            table(("Setting", "Default", "Values", "Meaning"), map(_setting_row, prefixed_settings().values())),
            _TOPIC,
            table(("Config", "Default", "Values", "Meaning"), map(_setting_row, LogConfig.settings().values())),
            _GROUP,
            table(("Config", "Default", "Values", "Meaning"), map(_setting_row, GroupSettings.settings().values())),
            _REGEX,
            _RELEASES,
            table(("APIs", "What for"), _not_served()),
        )
    )


def _options(options: Iterable[Option]) -> str:
    return table(("Option", "Default", "Queries", "Values", "Meaning"), map(_option_row, options))


def _option_row(option: Option) -> tuple[str, ...]:
    queries = [name for name, has in (("batch", option.batch), ("stream", option.stream)) if has]
    return _code(option.name), option.default, ", ".join(queries), option.type.legal, option.doc


def _client_row(declared: Property) -> tuple[str, ...]:
    return _code(declared.name), _code(_client_default(declared)), declared.type.legal, declared.doc


def _client_default(declared: Property) -> str:
    """The default as a user would write it: ``all`` rather than the number that stands for it."""
    if declared.default is None or callable(declared.default):
        return ""
    if isinstance(declared.default, tuple):
        return ",".join(map(str, declared.default))
    for text in declared.type.legal.replace(" or ", ", ").split(", "):
        try:
            if declared.type.parse(text) == declared.default:
                return text
        except ValueError:
            continue
    return str(declared.default)


def _broker_row(setting: Setting) -> tuple[str, ...]:
    key, default, values, doc = _setting_row(setting)
    topic_config = LOG_SYNONYMS.get(setting.key)
    dynamic = "yes" if setting.dynamic else ""
    return key, default, dynamic, values, f"{doc} Default of `{topic_config}`." if topic_config else doc


def _unused_row(setting: Setting) -> tuple[str, ...]:
    key, default, values, doc = _setting_row(setting)
    dynamic = "" if not setting.dynamic else "broker" if setting.per_broker else "yes"
    note = f" No effect: {setting.no_effect}." if setting.no_effect else ""
    return key, default, dynamic, values, f"{doc}{note}"


def _not_served() -> Iterable[tuple[str, str]]:
    names = api_names()
    for purpose, keys in NOT_SERVED.items():
        yield ", ".join(_code(names[key]) for key in keys), f"{purpose[0].upper()}{purpose[1:]}."


def _setting_row(setting: Setting) -> tuple[str, ...]:
    return _code(setting.key), _code(setting.default_text), _values(setting), setting.full_doc


def _values(setting: Setting) -> str:
    """The legal values in words."""
    if setting.kind == "bool":
        return "true or false"
    if setting.choices:
        choices = ", ".join(setting.choices)
        return f"any of {choices}" if setting.kind == "list" else choices
    if setting.kind not in {"int", "float"}:
        return "a list of texts" if setting.kind == "list" else "text"
    if setting.at_least in _NO_BOUND:
        return "an integer" if setting.kind == "int" else "a number"
    if setting.at_most in {INT_MAX, LONG_MAX}:
        return f"at least {setting.at_least}"
    return f"{setting.at_least} to {setting.at_most}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _list(entries: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{name}`: {reason}\n" for name, reason in entries)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
