"""A Kerberos realm of MIT's own server on the loopback interface, gone with its directory."""

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.programs.toolchains import ToolMissing, debian_package, debian_program, python_packages
from tests.support.scripts import free_port, listens
from tests.support.waiting import eventually

REALM = "TEST.LOCAL"

_SERVER = "krb5-admin-server"
"""Debian's package with kadmin.local; it depends on the one with krb5kdc and kdb5_util."""


def provide_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package gssapi be imported: the installed one, or one built with Debian's libraries of MIT Kerberos.

    Raises ToolMissing.
    """
    if importlib.util.find_spec("gssapi") is None:
        monkeypatch.syspath_prepend(_built_gssapi())


def _built_gssapi() -> Path:
    root = debian_package("libkrb5-dev")
    library = next(root.glob("usr/lib/*/libgssapi_krb5.so.2"), None)
    if library is None:
        raise ToolMissing("libkrb5-dev came without libgssapi_krb5.so.2: install it, and the package gssapi")
    # DT_RPATH, unlike DT_RUNPATH, is used for the libraries of the libraries as well.
    path = f"-L{library.parent} -Wl,--disable-new-dtags,-rpath,{library.parent}"
    headers = f"-DHAS_GSSAPI_EXT_H -I{root}/usr/include -I{root}/usr/include/mit-krb5"
    build = {
        "GSSAPI_COMPILER_ARGS": headers,
        "GSSAPI_LINKER_ARGS": f"{path} -l:libgssapi_krb5.so.2 -l:libkrb5.so.3",
        "GSSAPI_MAIN_LIB": str(library),
        "LD_LIBRARY_PATH": str(library.parent),
    }
    return python_packages("gssapi", ["gssapi"], build)


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
        command = [*debian_program(_SERVER, program), *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        kdc = str(self.directory / "kdc.conf")
        return os.environ | {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": kdc}


@contextmanager
def realm(directory: Path) -> Iterator[Realm]:
    """A realm with no principals, while the block lasts. Raises ToolMissing."""
    port, server_command = free_port(), debian_program(_SERVER, "krb5kdc")
    plugins = Path(server_command[-1]).resolve().parents[1]
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
    server = subprocess.Popen([*server_command, "-n"], env=made.environment)
    try:
        eventually(lambda: listens(port), True)
        yield made
    finally:
        server.terminate()
        server.wait(20)
