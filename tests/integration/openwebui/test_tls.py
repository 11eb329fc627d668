"""A Gateway behind TLS: a `wss://` address works, and one whose certificate nobody vouches for is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.errors import Refused
from rejoinder.openwebui.advice import advice
from rejoinder.openwebui.deployment import access_of
from rejoinder.openwebui.valves import Connection
from tests.fake_gateway import TOKEN, FakeGateway


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@asynccontextmanager
async def behind_tls(gateway: FakeGateway, chain: Path, key: Path) -> AsyncIterator[str]:
    """What stands in front of a Gateway and speaks TLS; its address."""
    port = urlsplit(gateway.url).port

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while part := await source.read(65_536):
                target.write(part)
                await target.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, out = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, out), copy(inner, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"wss://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_gateway_behind_tls_is_reached(
    gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    async with behind_tls(gateway, chain, key) as url:
        access = access_of(Connection(GATEWAY_URL=url, GATEWAY_TOKEN=TOKEN))
        async with GatewayClient(access) as client:
            assert (await client.ready(10)).version == gateway.version


async def test_a_certificate_that_nobody_vouches_for_is_refused(gateway: FakeGateway, tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    async with behind_tls(gateway, chain, key) as url:
        access = access_of(Connection(GATEWAY_URL=url, GATEWAY_TOKEN=TOKEN))
        async with GatewayClient(access) as client:
            with pytest.raises(Refused) as caught:
                await client.ready(1)
    assert "GATEWAY_URL" in advice(caught.value)
    assert "certificate" in str(caught.value).lower()
    assert gateway.attempts == []
