from pathlib import Path

import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._tools.jaas_file import jaas_settings
from spark_kafka_native._command_line.output import ToolFailed

PACKAGE = "org.apache.kafka.common.security"
TEXT = f"""
KafkaServer {{
    {PACKAGE}.plain.PlainLoginModule required username="admin" password="hunter2" user_alice="hunter2";
    {PACKAGE}.scram.ScramLoginModule required debug=true username="admin" password="hunter2";
}};
inside.KafkaServer {{ {PACKAGE}.plain.PlainLoginModule required user_bob="hunter2"; }};
Client {{ }};
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jaas.conf"
    path.write_text(TEXT)
    return path


def users_of(setting: str) -> list[str]:
    return [word.partition("=")[0] for word in setting.split() if word.startswith("user_")]


@pytest.mark.parametrize("form", ["{}", "={}", "file:{}", "file://{}"])
def test_a_listeners_own_section_is_used_instead_of_the_common_one(file: Path, form: str) -> None:
    options = f"-Djava.security.auth.login.config=/other -Xmx1g -Djava.security.auth.login.config={form.format(file)}"
    found = jaas_settings(options, ["SASL_PLAINTEXT", "INSIDE"])
    assert {key: users_of(setting) for key, setting in found.items()} == {
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": ["user_alice"],
        "listener.name.inside.plain.sasl.jaas.config": ["user_bob"],
    }


def test_without_a_file_or_a_section_there_are_no_settings(file: Path) -> None:
    assert jaas_settings("-Dother=x", ["SASL_PLAINTEXT"]) == {}
    file.write_text("Client { };")
    assert jaas_settings(f"-Djava.security.auth.login.config={file}", ["SASL_PLAINTEXT"]) == {}


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule", "the SASL mechanism GSSAPI is not supported"),
        (f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule", "the SASL mechanism OAUTHBEARER is not supported"),
        ("com.example.LdapLoginModule", "only one PlainLoginModule and ScramLoginModules are supported"),
        (f"{PACKAGE}.plain.PlainLoginModule", "only one PlainLoginModule"),
    ],
)
def test_login_modules_that_are_not_supported_are_named(file: Path, module: str, problem: str) -> None:
    file.write_text(f"KafkaServer {{ {PACKAGE}.plain.PlainLoginModule required; {module} required key=hunter2; }};")
    with pytest.raises(SettingError) as caught:
        jaas_settings(f"-Djava.security.auth.login.config={file}", ["SASL_PLAINTEXT"])
    where = f"KAFKA_OPTS: -Djava.security.auth.login.config={file}: section KafkaServer: {module.rpartition('.')[2]}"
    assert str(caught.value).startswith(f"{where}: {problem}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error"), [(None, ToolFailed), (b"KafkaServer", SettingError), (b"\xff", SettingError)]
)
def test_a_file_that_cannot_be_read_is_named(file: Path, content: bytes | None, error: type[Exception]) -> None:
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(error, match=str(file)):
        jaas_settings(f"-Djava.security.auth.login.config={file}", ["SASL_PLAINTEXT"])
