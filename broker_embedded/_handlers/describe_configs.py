"""DescribeConfigs (32) v0-v4: the settings of topics, brokers, loggers and groups.

v1  the source of each value, and its synonyms
v2  the response is sent before throttling
v3  types and documentation (KIP-569)
v4  flexible

A broker has every setting of Apache Kafka 4.3, and unknown dynamic ones. A broker with an empty name stands for the
dynamic settings of all brokers. An unknown resource type makes the whole request fail, as in Kafka. A repeated resource
is answered once, also if its id is written in another way.

A group that does not exist has every setting, as in Kafka, which takes about 70 times the bytes of its name. Therefore
a request describes at most `_MAX_GROUPS` groups without settings of their own; further ones are refused.
"""

import asyncio
import dataclasses

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import merge_repeated
from broker_embedded._metadata.config_changes import ResourceType
from broker_embedded._metadata.config_entries import ConfigEntry, ConfigSource
from broker_embedded._metadata.config_resources import ConfigResources, resource_key
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_AT_ONCE = 300
"""Settings that are described before other tasks of the event loop run: fewer than a broker has."""
_MAX_GROUPS = 10_000


@handles(DescribeConfigsRequest, "0-4")
async def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext, config_resources: ConfigResources, configs: DynamicConfigs
) -> DescribeConfigsResponse:
    """The requested settings of each resource."""
    if any(resource.resource_type not in set(ResourceType) for resource in request.resources):
        error = KafkaError(ErrorCode.INVALID_REQUEST)
        return DescribeConfigsResponse(results=tuple(_refused(resource, error) for resource in request.resources))
    results = []
    # An empty list of keys requests all settings, as None does.
    wanted = (
        dataclasses.replace(resource, configuration_keys=resource.configuration_keys or None)
        for resource in request.resources
    )
    described = groups = 0
    for resource in merge_repeated(wanted, _key, joined="configuration_keys"):
        is_group = resource.resource_type == ResourceType.GROUP
        is_plain_group = is_group and resource.resource_name not in configs.stored.groups
        groups += is_plain_group
        if is_plain_group and groups > _MAX_GROUPS:
            detail = f"a request describes at most {_MAX_GROUPS} groups without settings of their own"
            results.append(_refused(resource, KafkaError(ErrorCode.INVALID_REQUEST, detail)))
        else:
            results.append(_result(resource, request, context, config_resources))
        described += len(results[-1].configs)
        if described >= _AT_ONCE:
            described = 0
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=tuple(results))


def _key(resource: DescribeConfigsResource) -> tuple[int, str | int]:
    return resource_key(resource.resource_type, resource.resource_name)


def _result(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: RequestContext,
    config_resources: ConfigResources,
) -> DescribeConfigsResult:
    try:
        found = config_resources.entries(resource.resource_type, resource.resource_name)
    except KafkaError as error:
        return _refused(resource, error)
    wanted = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_config(entry, request, context) for entry in found if not wanted or entry.key in wanted),
    )


def _config(
    entry: ConfigEntry, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.key,
        value=entry.value,
        read_only=entry.read_only,
        is_default=context.version == 0 and entry.source is ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_secret,
        synonyms=tuple(
            DescribeConfigsSynonym(name=item.key, value=item.value, source=item.source) for item in synonyms
        ),
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
