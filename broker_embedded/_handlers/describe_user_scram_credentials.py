"""DescribeUserScramCredentials (50) v0: the SCRAM mechanisms of users (KIP-554)."""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.scram_users import ScramUsers
from spark_kafka_native._net.sasl.scram import MECHANISMS
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DescribeUserScramCredentialsRequest, "0")
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, _context: RequestContext, scram_users: ScramUsers
) -> DescribeUserScramCredentialsResponse:
    """The requested users, or all."""
    names = None if request.users is None else [user.name for user in request.users]
    found = scram_users.describe(names)
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=tuple(_result(name, what) for name, what in found.items())
    )


def _result(name: str, what: dict[str, int] | KafkaError) -> DescribeUserScramCredentialsResult:
    if isinstance(what, KafkaError):
        return DescribeUserScramCredentialsResult(user=name, error_code=what.code, error_message=what.detail)
    infos = (CredentialInfo(mechanism=key, iterations=what[of]) for key, of in MECHANISMS.items() if of in what)
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=tuple(infos))
