"""Subscriptions by regular expression, which are resolved once per group, in a thread and not in a heartbeat.

All topics are matched after a new expression, after the creation of topics, and every
``group.consumer.regex.refresh.interval.ms``; at most once in ten seconds. The result is written to the log, so that a
member's subscription does not change with a new coordinator.
"""

from collections.abc import Mapping
from typing import Final

from broker_embedded._groups.consumer.draft import REGEX_TIMER, ConsumerDraft, is_within
from broker_embedded._groups.consumer.entries import ResolvedRegex, regex_entry, regex_tombstone
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember
from broker_embedded._groups.group import Outcome
from broker_embedded._groups.pattern import Pattern, PatternError
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

_MIN_INTERVAL_MS: Final = 10_000


def update_subscription(draft: ConsumerDraft, before: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> bool:
    """Update the group's regular expressions after a change of a member, and request a lookup if necessary.

    Returns whether a new assignment is necessary: the member's new expression is resolved already, or it has none any
    more. Raises KafkaError, INVALID_REGULAR_EXPRESSION.
    """
    must_bump_epoch = is_unknown = False
    if old.subscribed_topic_regex != new.subscribed_topic_regex:
        subscribed = draft.group.subscribed_regexes
        if old.regex is not None and old.regex not in subscribed:
            draft.append(regex_tombstone(before.group_id, old.regex))
        if new.regex is None:
            must_bump_epoch = old.regex is not None
        elif new.regex not in before.subscribed_regexes:
            _check(new.regex)
            is_unknown = True
        else:
            must_bump_epoch = new.regex in before.regexes
    if (is_unknown or before.subscribed_regexes) and _must_look(draft, before, is_unknown):
        draft.schedule_timer(REGEX_TIMER, 0)
    return must_bump_epoch


def resolved(group: ConsumerGroup, topics: Mapping[str, frozenset[str]], version: int, now_ms: int) -> Outcome[None]:
    """Record the ``topics`` that each expression matches in the metadata of ``version``.

    An expression that lost its last subscribed member during the lookup is ignored.
    """
    draft = ConsumerDraft(group, now_ms)
    found = {
        regex: ResolvedRegex(topics=topics[regex], version=version, timestamp=now_ms)
        for regex in sorted(group.subscribed_regexes.keys() & topics.keys())
    }
    if not found:
        return draft.outcome(None)
    draft.append(*(regex_entry(group.group_id, regex, matched) for regex, matched in found.items()))
    unchanged = all(
        matched.topics == (group.regexes[regex].topics if regex in group.regexes else frozenset())
        for regex, matched in found.items()
    )
    draft.bump_group_epoch(if_topics_changed=unchanged)
    return draft.outcome(None)


def _must_look(draft: ConsumerDraft, before: ConsumerGroup, is_unknown: bool) -> bool:
    last_ms = max((resolved.timestamp for resolved in before.regexes.values()), default=None)
    if last_ms is not None and is_within(_MIN_INTERVAL_MS + 1, last_ms, draft.now_ms):
        return False
    subscribed = draft.group.subscribed_regexes
    if not subscribed:
        return False
    version = max((resolved.version for resolved in before.regexes.values()), default=0)
    return (
        is_unknown
        or len(subscribed) != len(before.regexes)
        or version < before.context.topics().created_version
        or last_ms is None
        or not is_within(draft.config.regex_refresh_interval_ms + 1, last_ms, draft.now_ms)
    )


def _check(regex: str) -> None:
    try:
        Pattern(regex)
    except PatternError as error:
        detail = f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {error}"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail) from error
