"""Certificates for tests, each of a new key, signed by itself."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from heaptop.fleet.web_config import TlsFiles


def certificate(folder: Path) -> TlsFiles:
    """Write ``tls.crt`` and ``tls.key``, over those that are there."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    files = TlsFiles(folder / "tls.crt", folder / "tls.key", ssl.TLSVersion.TLSv1_2)
    names = ["-subj", "/CN=heaptop", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(files.key)]
    command = ["openssl", "req", "-x509", *key, "-out", str(files.certificate), "-days", "1", *names]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    files.key.chmod(0o600)
    return files


def trusting_all() -> ssl.SSLContext:
    """For a client that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
