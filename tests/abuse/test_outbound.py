"""URLs that others chose: none leads inside, however it is spelled and whatever its name resolves to."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.net.addresses import carried, is_forbidden, is_worldwide
from rejoinder.net.guard import Guard, resolve
from rejoinder.net.outbound import Outbound, OutboundError
from rejoinder.net.targets import AddressRefusedError, target_of
from rejoinder.net.transport import PinnedTransport

WORLD = ["8.8.8.8", "93.184.215.14", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:830::200e"]
INSIDE_4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.1.2.3",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
]
INSIDE_6 = [
    "::",
    "::1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:10::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
]


def carriers(four: str) -> list[str]:
    """The ways to write an IPv4 address inside an IPv6 one."""
    value = int(IPv4Address(four))
    return [
        str(IPv6Address(number))
        for number in (
            0xFFFF << 32 | value,  # mapped
            value,  # compatible
            0x64FF9B << 96 | value,  # NAT64
            0x2002 << 112 | value << 80 | 1,  # 6to4
            0x2001 << 112 | int(IPv4Address("8.8.8.8")) << 64 | value ^ 0xFFFFFFFF,  # Teredo's client
            0x2001 << 112 | value << 64 | int(IPv4Address("8.8.8.8")) ^ 0xFFFFFFFF,  # Teredo's server
            0x26064700 << 96 | 0x00005EFE << 32 | value,  # ISATAP
            0x26064700 << 96 | 0x02005EFE << 32 | value,
        )
    ]


CARRIED = [text for four in INSIDE_4 for text in carriers(four)]
SPELLED = [
    "http://{h}",  # not https
    "ftp://{h}",
    "//{h}",
    "{h}",
    "https:{h}",
    "https:/{h}",
    "https:///{h}",
    "https:\\\\{h}",
    "https://{h}\\@example.com",
    "https://example.com\\@{h}",
    "https://example.com@{h}",
    "https://user:word@{h}",
    "https://@{h}",
    "https://{h}@",
    "https://{h}#@example.com",
    "https://{h} ",
    " https://{h}",
    "https://{h}\t",
    "https://ex\tample.com",
    "https://{h}\r\nHost: example.com",
    "https://{h}%2f",
    "https://{h}%00.example.com",
    "https://{h}:443:80",
    "https://{h}:99999",
    "https://{h}:0",
    "https://{h}:٤٤٣",
    "https://{h}:22",
    "https://{h}:8443",
    "https://[{h}]",
    "https://{h}..",
    "https://.{h}",
    "https://{h}|",
    "https://{h}^",
    "https://{h};example.com",
    "https://{h},example.com",
    "javascript:fetch('https://{h}')",
    "file:///etc/passwd",
    "gopher://{h}:6379/_INFO",
    "https://",
    "https://?",
    "",
    "https://" + "a." * 200 + "example.com",
    "https://" + "a" * 64 + ".example.com",
    "https://example.com/" + "a" * 9_000,
]
NUMBERS = [
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.1.",
    "127.0.0.0x1",
    "1.1.1.257",
    "8.8.8.8.8",
    "256.256.256.256",
    "0",
    "0x",
    "0.0.0.0x0",
    "3232235777",
    "a.b.c.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "١٢٧.0.0.1",
    "ⓛocalhost",
    "localhoſt",
    "loc\u00adalhost",
    "ｌocalhost",
    "%31%32%37.0.0.1",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1%eth0]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[v1.fe80::a]",
    "[127.0.0.1]",
    "[::1",
    "::1",
    "[]",
]
NAMES = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "printer.local",
    "db.internal",
    "127.0.0.1.nip.io",
    "example.com",
]


def resolving(*answers: list[str]) -> tuple[list[str], Callable[[str, int], Awaitable[list[str]]]]:
    """A resolver that gives these answers one after the other, and the names that it was asked for."""
    asked: list[str] = []
    left = itertools.chain(answers, itertools.repeat(answers[-1]))

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(left)

    return asked, resolve


class Recorder(httpx2.AsyncBaseTransport):
    """Stands in the place of the network."""

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        self.requests: list[httpx2.Request] = []
        self._broken = broken

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.url.host in self._broken:
            raise httpx2.ConnectError("refused", request=request)
        return httpx2.Response(204, stream=httpx2.ByteStream(b""))


def recorded(guard: Guard, broken: tuple[str, ...] = ()) -> tuple[Outbound, Recorder]:
    outbound, recorder = Outbound(guard), Recorder(broken)
    transport = PinnedTransport(guard)
    transport._inner = recorder
    outbound._transport = transport
    return outbound, recorder


@pytest.mark.parametrize("text", WORLD)
def test_hosts_of_the_world_are_called(text: str) -> None:
    assert is_worldwide(ip_address(text))
    assert not is_forbidden(ip_address(text))


def test_a_public_address_behind_a_translator_is_of_the_world() -> None:
    assert is_worldwide(IPv6Address("64:ff9b::808:808"))
    assert is_worldwide(IPv6Address("::ffff:8.8.8.8"))


@pytest.mark.parametrize("text", [*INSIDE_4, *INSIDE_6, *CARRIED])
def test_addresses_inside_are_not(text: str) -> None:
    assert not is_worldwide(ip_address(text))


@given(st.ip_addresses(v=4))
def test_what_carries_an_address_is_no_better_than_it(four: IPv4Address) -> None:
    for text in carriers(str(four)):
        assert carried(IPv6Address(text)) is not None or text in ("::", "::1")
        if not is_worldwide(four) and IPv6Address(text).teredo is None:
            assert not is_worldwide(IPv6Address(text))


@given(st.ip_addresses(v=6) | st.ip_addresses(v=4))
def test_what_the_standard_library_calls_private_is_not_called(address: IPv4Address | IPv6Address) -> None:
    if address.is_private or address.is_multicast or address.is_link_local or address.is_reserved:
        assert not is_worldwide(address) or (
            isinstance(address, IPv6Address) and (address in NAT64 or address.ipv4_mapped is not None)
        )


NAT64 = IPv6Network("64:ff9b::/96")


async def test_no_spelling_of_a_url_leads_inside() -> None:
    _, answer_with = resolving(["127.0.0.1"])
    outbound, recorder = recorded(Guard(resolve=answer_with))
    urls = [form.replace("{h}", host) for form in SPELLED for host in ("127.0.0.1", "example.com", "[::1]")]
    urls += [f"https://{host}/" for host in (*NUMBERS, *INSIDE_4, *NAMES)]
    urls += [f"https://[{host}]/" for host in (*INSIDE_6, *CARRIED)]
    for url in urls:
        with pytest.raises(AddressRefusedError) as refusal:
            await outbound.send("POST", url, content=b"{}")
        assert refusal.value.status == 400
        assert refusal.value.field == "url"
        for secret in ("127.0.0.1", "word", "\r", "\t", "<"):
            assert secret not in refusal.value.message
    assert recorder.requests == []


@given(st.text(max_size=60) | st.from_regex(r"https?://[^/]{0,30}(/.*)?"))
def test_a_url_is_read_or_refused(url: str) -> None:
    try:
        target = target_of(url)
    except AddressRefusedError:
        return
    # The client that sends it reads the same host and port out of it.
    theirs = httpx2.URL(url)
    assert (theirs.host.rstrip("."), theirs.port or {"http": 80, "https": 443}[target.scheme]) == (
        target.host,
        target.port,
    )


@pytest.mark.parametrize(
    "answer",
    [
        ["93.184.215.14", "127.0.0.1"],
        ["127.0.0.1", "93.184.215.14"],
        ["8.8.8.8", "::1"],
        ["fe80::1%eth0"],
        [],
    ],
)
async def test_one_address_inside_refuses_the_name(answer: list[str]) -> None:
    _, answer_with = resolving(answer)
    outbound, recorder = recorded(Guard(resolve=answer_with))
    with pytest.raises((AddressRefusedError, OutboundError)):
        await outbound.send("GET", "https://mixed.example/")
    assert recorder.requests == []


async def test_a_name_that_changes_its_mind_is_asked_once() -> None:
    asked, answer_with = resolving(["93.184.215.14"], ["127.0.0.1"])
    outbound, recorder = recorded(Guard(resolve=answer_with))
    reply = await outbound.send("POST", "https://Rebind.example./hook?a=1", content=b"x")
    assert reply.status == 204
    [request] = recorder.requests
    assert asked == ["rebind.example"]
    assert str(request.url).startswith("https://93.184.215.14/hook?a=1")
    assert request.headers["host"].startswith("rebind.example")
    assert request.extensions["sni_hostname"] == "rebind.example"
    with pytest.raises(AddressRefusedError):
        await outbound.send("POST", "https://rebind.example/hook")
    assert len(recorder.requests) == 1


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    _, answer_with = resolving(["2606:4700:4700::1111", "1.1.1.1"])
    outbound, recorder = recorded(Guard(resolve=answer_with), broken=("2606:4700:4700::1111",))
    assert (await outbound.send("GET", "https://two.example/")).status == 204
    assert [request.url.host for request in recorder.requests] == ["2606:4700:4700::1111", "1.1.1.1"]
    outbound, _ = recorded(Guard(resolve=answer_with), broken=("2606:4700:4700::1111", "1.1.1.1"))
    with pytest.raises(OutboundError):
        await outbound.send("GET", "https://two.example/")


# What an operator allows


@pytest.mark.parametrize(
    ("entry", "url", "answer"),
    [
        ("intern.example", "https://intern.example/", "10.0.0.1"),
        ("intern.example", "http://intern.example:8080/", "127.0.0.1"),
        ("intern.example:8443", "https://intern.example:8443/", "10.0.0.1"),
        ("10.0.0.0/8", "http://any.example:81/", "10.1.2.3"),
        ("127.0.0.1", "http://127.0.0.1:9/", "-"),
        ("[::1]:8000", "http://[::1]:8000/", "-"),
        ("fd00::/8", "https://any.example/", "fd12::1"),
        ("169.254.169.254/32", "http://169.254.169.254/", "-"),
    ],
)
async def test_what_is_allowed_by_name_is_called(entry: str, url: str, answer: str) -> None:
    _, answer_with = resolving([answer])
    outbound, recorder = recorded(Guard([entry], resolve=answer_with))
    assert (await outbound.send("GET", url)).status == 204
    assert len(recorder.requests) == 1


@pytest.mark.parametrize(
    ("entry", "url", "answer"),
    [
        ("intern.example", "https://sub.intern.example/", "10.0.0.1"),
        ("intern.example:8443", "https://intern.example/", "10.0.0.1"),
        ("intern.example", "https://intern.example/", "169.254.169.254"),
        ("intern.example", "https://intern.example/", "::ffff:169.254.169.254"),
        ("intern.example", "https://intern.example/", "fd00:ec2::254"),
        ("10.0.0.0/8", "https://any.example/", "172.16.0.1"),
        ("10.0.0.0/8", "http://any.example/", "8.8.8.8"),
        ("10.0.0.0/8", "https://any.example/", "::ffff:10.0.0.1"),
    ],
)
async def test_and_nothing_beside_it(entry: str, url: str, answer: str) -> None:
    _, answer_with = resolving([answer])
    outbound, recorder = recorded(Guard([entry], resolve=answer_with))
    with pytest.raises(AddressRefusedError):
        await outbound.send("GET", url)
    assert recorder.requests == []


@pytest.mark.parametrize(
    "entry", ["*", "10.0.0.1/8", "http://a.example", "a b", "a/b", "0x7f.1", "user@a", "::1", "a:0"]
)
def test_an_entry_that_is_none_stops_the_start(entry: str) -> None:
    if entry == "::1":
        assert Guard([entry])  # a network of one address
        return
    with pytest.raises(ConfigurationError, match="REJOINDER_OUTBOUND_ALLOW"):
        Guard([entry])


async def test_this_deployments_own_address_is_allowed() -> None:
    settings = Settings.load(
        interactions_public_base_url="http://127.0.0.1:8642", rejoinder_outbound_allow="a.example"
    )
    guard = Guard.of(settings)
    assert guard.check("http://127.0.0.1:8642/api").port == 8642
    with pytest.raises(AddressRefusedError):
        guard.check("http://127.0.0.1:8643/api")


async def test_names_are_asked_of_the_system() -> None:
    assert "127.0.0.1" in await resolve("localhost", 443) or "::1" in await resolve("localhost", 443)
    with pytest.raises(OSError):
        await resolve("a.name.invalid", 443)
    with pytest.raises(AddressRefusedError):
        await Outbound(Guard()).send("GET", "https://localhost/")


# On a real wire


@asynccontextmanager
async def answering(
    reply: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on loopback that gives this reply to everything and then waits; its port, and what it was sent."""
    heads: list[bytes] = []
    ends: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends.append(task)
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(reply)
            await writer.drain()
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left, which is what some of the tests want
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


def local(port: int) -> tuple[Outbound, str]:
    _, answer_with = resolving(["127.0.0.1"])
    return Outbound(
        Guard([f"named.example:{port}"], resolve=answer_with)
    ), f"http://named.example:{port}/in?b=2"


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    reply = (
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\nset-cookie: a=b; Domain=named.example\r\n"
        b"content-length: 0\r\n\r\n"
    )
    async with answering(reply) as (port, heads):
        outbound, url = local(port)
        for _ in range(2):
            got = await outbound.send("GET", url)
            assert (got.status, got.headers["location"]) == (302, "http://169.254.169.254/")
        await outbound.stop()
    assert [head.splitlines()[0] for head in heads] == [b"GET /in?b=2 HTTP/1.1"] * 2
    for head in heads:
        assert f"host: named.example:{port}".encode() in head.lower()
        assert b"cookie" not in head.lower()


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"4000\r\n"
        + b"x" * 0x4000
        + b"\r\n"
        + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 9,
        b"HTTP/1.1 200 OK\r\n" + b"a: " + b"b" * 200_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
    ],
)
async def test_an_answer_is_bounded_or_given_up(reply: bytes) -> None:
    async with answering(reply) as (port, _):
        outbound, url = local(port)
        with pytest.raises(OutboundError) as failure:
            await outbound.send("GET", url)
        assert failure.value.status == 502
        await outbound.stop()


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    for reply in (b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"):
        async with answering(reply) as (port, _):
            outbound, url = local(port)
            with pytest.raises(OutboundError, match="within"):
                await outbound.send("GET", url, patience=0.1)
            await outbound.stop()


async def test_a_small_answer_that_would_decompress_to_a_large_one_stays_small() -> None:
    import gzip

    content = gzip.compress(b"\x00" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(content)
    async with answering(head + content) as (port, heads):
        outbound, url = local(port)
        assert (await outbound.send("GET", url)).content == content
        await outbound.stop()
    assert b"accept-encoding: identity" in heads[0].lower()


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (port, _):
        outbound, url = local(port)
        assert (await outbound.send("GET", url)).status == 204
        await outbound.stop()


async def test_the_certificate_is_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = _certified(tmp_path, "named.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n", tls) as (port, _):
        _, answer_with = resolving(["127.0.0.1"])
        outbound = Outbound(Guard(["127.0.0.0/8"], resolve=answer_with))
        assert (await outbound.send("GET", f"https://named.example:{port}/")).status == 204
        # The same address under another name shows a certificate that is not its own.
        with pytest.raises(OutboundError):
            await outbound.send("GET", f"https://other.example:{port}/")
        await outbound.stop()


def _certified(folder: Path, name: str) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
