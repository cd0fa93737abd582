"""A Kerberos realm of MIT's own server on the loopback interface, gone with its directory."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.scripts import free_port, listens
from tests.support.waiting import eventually

REALM = "TEST.LOCAL"

_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")


def kdc_unavailable() -> str | None:
    """Why there can be no realm, or None."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    if missing:
        return f"MIT Kerberos' {', '.join(missing)} are not installed"
    return None if importlib.util.find_spec("gssapi") else "the package gssapi is not installed"


@dataclass
class Realm:
    """One that runs; ``config`` is its krb5.conf."""

    config: Path
    directory: Path

    def keytab(self, principal: str) -> Path:
        """Make a principal with a random key, and a file with that key."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        assert path.exists()
        return path

    def run(self, program: str, *arguments: str) -> None:
        command = [str(shutil.which(program, path=_PATH)), *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        kdc = str(self.directory / "kdc.conf")
        return os.environ | {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": kdc}


@contextmanager
def realm(directory: Path) -> Iterator[Realm]:
    """A realm with no principals, while the block lasts."""
    port = free_port()
    plugins = Path(str(shutil.which("krb5kdc", path=_PATH))).resolve().parents[1]
    modules = next(iter(plugins.glob("lib/*/krb5/plugins/kdb")), plugins / "lib/krb5/plugins/kdb")
    config = directory / "krb5.conf"
    config.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n"
        f" rdns = false\n udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
        f"  acl_file = {directory}/acl\n }}\n[dbmodules]\n db_module_dir = {modules}\n"
        f"[logging]\n kdc = FILE:{directory}/kdc.log\n"
    )
    made = Realm(config, directory)
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    server = subprocess.Popen([str(shutil.which("krb5kdc", path=_PATH)), "-n"], env=made.environment)
    try:
        eventually(lambda: listens(port), True)
        yield made
    finally:
        server.terminate()
        server.wait(20)
