"""AlterUserScramCredentials (51) v0: create and delete SCRAM credentials of users (KIP-554).

Clients send salted passwords. Existing connections stay authenticated until their session ends.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.scram_users import ScramUsers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


@handles(AlterUserScramCredentialsRequest, "0")
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, _context: RequestContext, scram_users: ScramUsers
) -> AlterUserScramCredentialsResponse:
    """Change credentials, durably. They are in effect before the response is sent."""
    try:
        results = await scram_users.alter(request.deletions, request.upsertions)
    except KafkaError as error:
        names = [item.name for item in request.deletions] + [item.name for item in request.upsertions]
        results = dict.fromkeys(names, error)
    return AlterUserScramCredentialsResponse(results=tuple(_result(name, error) for name, error in results.items()))


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, error_message=None)
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.detail)
