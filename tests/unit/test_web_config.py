"""The file of ``heaptop serve --web-config``: what it asks for, and what is refused."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from heaptop.errors import ConfigError
from heaptop.fleet.web_config import WebConfig, is_password, read_web_config
from tests.support.certificates import certificate

HASH = "$2y$04$bvIG6PmeWfAv0q2Zvyw3CuW0YcyAmUxHgpTsmnQpfpqUJY3gpuAgm"
GOOD = f"""
tls_server_config:
  cert_file: tls.crt
  key_file: tls.key
  min_version: TLS13
basic_auth_users:
  prometheus: {HASH}
"""


def written(folder: Path, text: str, mode: int = 0o640) -> Path:
    file = folder / "web.yml"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_file_of_all_keys(tmp_path: Path) -> None:
    certificate(tmp_path)
    found = read_web_config(written(tmp_path, GOOD))
    assert found.users == {"prometheus": HASH.encode()}
    assert found.tls is not None
    assert (found.tls.certificate, found.tls.key) == (tmp_path / "tls.crt", tmp_path / "tls.key")
    assert found.tls.context().minimum_version == ssl.TLSVersion.TLSv1_3
    assert read_web_config(written(tmp_path, "# nothing")) == WebConfig()


def test_prometheus_takes_the_same_file(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool")
    certificate(tmp_path)
    command = ["promtool", "check", "web-config", str(written(tmp_path, GOOD))]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http_server_config: {http2: true}", "the key `http_server_config` is not supported"),
        ("tls_server_confg: {}", "`tls_server_confg` is not supported; did you mean `tls_server_config`"),
        ("tls_server_config: {client_ca_file: a}", "tls_server_config: the key `client_ca_file` is not supported"),
        ("tls_server_config: {cert_file: a}", "`key_file` must be"),
        ("tls_server_config: {cert_file: 1, key_file: b}", "`cert_file` must be"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "`min_version` cannot be"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: [1]}", "`min_version` cannot be"),
        ("tls_server_config: yes", "must be a table"),
        ("basic_auth_users: {a: secret}", 'the password of "a" is not a bcrypt hash'),
        (f"basic_auth_users: {{a: {HASH.replace('$04$', '$31$')}}}", "is not a bcrypt hash"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", "cannot be the name of a user"),
        (f"basic_auth_users: {{1: {HASH}}}", "cannot be the name of a user"),
        ("basic_auth_users: [a]", "must be a table"),
        ("1: 2", "the key `1` is not supported"),
        ("- a", "must be a table"),
        ("a: [", "line 1: this is not YAML"),
        ("!!python/object/apply:os.getpid []", "this is not YAML"),
        ("a: 2020-99-99", "this is not YAML"),
        ("[" * 5000, "this is not YAML"),
        ("a: " + "b" * 70_000, "larger than 64 KiB"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_web_config(written(tmp_path, text))
    assert said in caught.value.message
    assert "secret" not in caught.value.help_text


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="Other users may change"):
        read_web_config(written(tmp_path, GOOD, mode))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    certificate(tmp_path)
    found = read_web_config(written(tmp_path, GOOD))
    (tmp_path / "tls.key").chmod(mode)
    assert found.tls is not None
    with pytest.raises(ConfigError, match="Other users may read or change"):
        found.tls.context()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    os.chown(file, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_web_config(file)


def test_what_is_missing_or_no_certificate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_web_config(tmp_path / "none.yml")
    found = read_web_config(written(tmp_path, GOOD)).tls
    assert found is not None
    with pytest.raises(ConfigError, match="No such file"):
        found.context()
    certificate(tmp_path)
    key = tmp_path / "tls.key"
    command = ["openssl", "ec", "-in", key, "-aes128", "-passout", "pass:abcd", "-out", key]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with pytest.raises(ConfigError, match="cannot be used"):
        found.context()


def test_a_password_is_compared_with_its_hash() -> None:
    assert not is_password(b"wrong", HASH.encode())
    assert not is_password(b"x" * 100, HASH.encode())
    assert not is_password(b"\0", HASH.encode())
