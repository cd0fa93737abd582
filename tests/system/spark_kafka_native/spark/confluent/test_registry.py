import pickle

import pytest

pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from spark_kafka_native._spark.confluent.errors import NoSuchSchema, RegistryError
from spark_kafka_native._spark.confluent.registry import Registry
from tests.support.spark.avro_values import ORDER, ORDER_V2
from tests.support.spark.schema_registry import StubRegistry

QUICK = {"max.retries": 0, "timeout": 20}


def test_schema_is_requested_once_per_process(registry: StubRegistry) -> None:
    schema_id = registry.add("orders-value", ORDER)
    asked = Registry.at(registry.url)
    again = pickle.loads(pickle.dumps(asked))
    assert asked.schema(schema_id) == again.schema(schema_id)
    assert registry.asked(f"/schemas/ids/{schema_id}") == 1
    assert asked.schema(registry.guid(schema_id)).text == asked.schema(schema_id).text


def test_the_latest_version_and_registering(registry: StubRegistry) -> None:
    first = registry.add("orders-value", ORDER)
    asked = Registry.at({"url": registry.url})
    assert asked.latest("orders-value").schema_id == first
    second = asked.register("orders-value", '"string"')
    assert second != first
    assert asked.register("orders-value", '"string"') == second


def test_schemas_that_refer_to_others_come_with_them(registry: StubRegistry) -> None:
    registry.add("city", {"type": "record", "name": "City", "fields": []})
    address = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "City"}]}
    registry.add("address", address, references=[("city", 1)])
    person = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "Address"}]}
    schema_id = registry.add("person", person, references=[("address", 1), ("city", 1)])
    found = Registry.at(registry.url).schema(schema_id)
    assert [text.count("City") for text in found.references] == [1, 1]
    assert ['"name": "City"' in text for text in found.references] == [True, False]


def test_unknown_schemas_of_the_registry(registry: StubRegistry) -> None:
    asked = Registry.at(registry.url)
    with pytest.raises(NoSuchSchema, match="schema 7: the registry responded: Schema not found"):
        asked.schema(7)
    with pytest.raises(NoSuchSchema, match="subject absent: the registry responded: "):
        asked.latest("absent")
    proto = registry.add("proto", "syntax", kind="PROTOBUF")
    with pytest.raises(NoSuchSchema, match=rf"schema {proto} is PROTOBUF, not Avro"):
        asked.schema(proto)


def test_schema_that_the_registry_rejects(registry: StubRegistry) -> None:
    registry.frozen_subjects = frozenset({"orders-value"})
    with pytest.raises(NoSuchSchema, match="subject orders-value: the registry responded: incompatible"):
        Registry.at(registry.url).register("orders-value", '"string"')


@pytest.mark.parametrize("status", [404, 401, 500, 503])
def test_registry_errors_are_no_schema_errors(registry: StubRegistry, status: int) -> None:
    registry.failing_with = status
    with pytest.raises(
        RegistryError, match=rf"the schema registry at 127.0.0.1:\d+ did not return schema 1: HTTP {status}"
    ):
        Registry.at({"url": registry.url, **QUICK}).schema(1)


def test_unreachable_registry() -> None:
    with pytest.raises(
        RegistryError, match=r"at 127.0.0.1:1 did not return schema 1: connection refused \(\w+Error\)$"
    ):
        Registry.at({"url": "http://127.0.0.1:1", **QUICK}).schema(1)


def test_passwords_are_used_and_never_shown() -> None:
    with StubRegistry(user_info="me:s3cret") as registry:
        schema_id = registry.add("orders-value", ORDER_V2)
        asked = Registry.at({"url": registry.url, "basic.auth.user.info": "me:s3cret"})
        assert asked.schema(schema_id).text
        wrong = Registry.at({"url": registry.url.replace("//", "//me:wr0ng@"), **QUICK})
        with pytest.raises(RegistryError) as caught:
            wrong.schema(schema_id)
    assert "HTTP 401" in str(caught.value)
    for text in (repr(asked), repr(wrong), str(caught.value)):
        assert "s3cret" not in text
        assert "wr0ng" not in text
    assert repr(wrong) == f"Registry({registry.url.removeprefix('http://')})"


@pytest.mark.parametrize("settings", [{}, {"url": ""}, ""])
def test_a_registry_needs_a_url(settings: dict[str, str] | str) -> None:
    with pytest.raises(ValueError, match="a schema registry needs its 'url'"):
        Registry.at(settings)


def test_settings_that_the_client_does_not_know_are_named() -> None:
    with pytest.raises(ValueError, match=r"no\.such\.setting"):
        Registry.at({"url": "http://127.0.0.1:1", "no.such.setting": 1}).schema(1)
