"""ConsumerGroupHeartbeat (68) v0-v1: join a consumer group, stay a member, reconcile, leave (KIP-848).

v0  the coordinator may generate the member's id
v1  regular expressions; clients generate their ids (KIP-1082)

A release with group.version 0 answers UNSUPPORTED_VERSION.
"""

import dataclasses
import uuid

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups.consumer.heartbeat import HeartbeatContext, check_request
from broker_embedded._groups.consumer.heartbeat import heartbeat as decide_heartbeat
from broker_embedded._groups.group import Group, Outcome
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ConsumerGroupHeartbeatRequest, "0-1")
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, configs: DynamicConfigs, groups: Groups
) -> ConsumerGroupHeartbeatResponse:
    """Process the heartbeat of a member."""
    if not configs.config.release.has_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    sender = HeartbeatContext(client_id=context.client_id, client_host=context.client_host)
    try:
        check_request(request, context.version, configs.config.group_consumer_assignors)
        wanted = request if request.member_id else dataclasses.replace(request, member_id=str(uuid.uuid4()))

        def decide(group: Group | None, now_ms: int) -> Outcome[ConsumerGroupHeartbeatResponse]:
            return decide_heartbeat(group, wanted, sender, groups.context.consumer, now_ms)

        return await groups.apply(request.group_id, decide)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
