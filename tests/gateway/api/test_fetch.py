"""The guarded fetch, against a real server on loopback that the tests' policy lets in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.addresses import is_public
from dsh_lightrag.gateway.fetch import Fetched, Limits, Reach, Target, fetch, system_names

TEXT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=UTF-8\r\n"


def loopback_only(address):
    return address == ipaddress.ip_address("127.0.0.1")


def replying(status, *lines, body=b""):
    head = "\r\n".join([f"HTTP/1.1 {status} X", *lines, f"Content-Length: {len(body)}", "", ""])
    return head.encode() + body


def text(body, *lines):
    return replying(200, "Content-Type: text/plain; charset=UTF-8", *lines, body=body)


class Site:
    """A server that answers each path with fixed bytes, and keeps what it was asked."""

    def __init__(self, pages):
        self.pages = pages
        self.asked = []
        self.lookups = []
        self.port = 0

    async def answer(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            reply = self.pages[head.split()[1]]
            if reply is None:
                await reader.read()  # silent until the client leaves
            else:
                writer.write(reply)
                await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def open(self, tls=None):
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0, ssl=tls)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    def reach(self, *addresses, allows=loopback_only, tls=None):
        async def resolve(host, port):
            self.lookups.append((host, port))
            return [Target(address, self.port) for address in addresses or ("127.0.0.1",)]

        return Reach(resolve, allows, tls)


async def refused(url, reach, limits=None):
    with pytest.raises(LightRagError) as caught:
        await fetch(url, limits, reach)
    return caught.value


async def test_a_text_is_fetched_with_its_type_name_and_final_url():
    async with Site({"/a/notes.txt?x=1": text("Grüße".encode())}).open() as site:
        found = await fetch("http://docs.example/a/notes.txt?x=1#part", None, site.reach())
    url = "http://docs.example/a/notes.txt?x=1"
    assert found == Fetched("Grüße".encode(), "text/plain", "UTF-8", url, "notes.txt")
    assert site.lookups == [("docs.example", 80)]


async def test_nothing_but_the_request_itself_is_sent():
    async with Site({"/": text(b"x", "Set-Cookie: a=b")}).open() as site:
        await fetch("http://docs.example/", None, site.reach())
        await fetch("http://docs.example/", None, site.reach())
    names = {line.partition(":")[0] for head in site.asked for line in head.split("\r\n")[1:]}
    assert names - {""} == {"Host", "Accept", "Accept-Encoding", "Connection", "User-Agent"}
    assert "Host: docs.example\r\n" in site.asked[0]


async def test_a_proxy_variable_is_not_obeyed(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with Site({"/": text(b"direct")}).open() as site:
        assert (await fetch("http://docs.example/", None, site.reach())).data == b"direct"


async def test_the_certificate_is_checked_against_the_name_while_the_address_is_connected_to():
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("docs.example").configure_cert(server_side)
    named = []
    server_side.sni_callback = lambda _socket, name, _context: named.append(name)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    async with Site({"/": text(b"secure")}).open(server_side) as site:
        found = await fetch("https://docs.example/", None, site.reach(tls=trusted))
        assert found.data == b"secure"
        assert named == ["docs.example"]
        assert site.lookups == [("docs.example", 443)]
        error = await refused("https://other.example/", site.reach(tls=trusted))
        assert error.code is Code.UNREACHABLE
        assert "certificate" in error.message
        error = await refused("https://docs.example/", site.reach())
        assert error.code is Code.UNREACHABLE  # without the authority nothing vouches for it


@pytest.mark.parametrize(
    "url",
    [
        "",
        "docs.example",
        "ftp://docs.example/",
        "file:///etc/passwd",
        "gopher://docs.example/",
        "http://",
        "http:///path",
        "http://user:pass@docs.example/",
        "http://user@docs.example/",
        "http://docs.example:8080/",
        "http://docs.example:22/",
        "http://docs.example:99999/",
        "http://docs.example\\@inner/",
        "http://docs.example/a b",
        "http://docs.example/\r\nX: y",
        "http://docs.example/\x00",
        "http://[::1",
        "http://xn--\udcff/",
        "http://xn--/",
        "http://docs..example/",
        "http://" + "a" * 64 + ".example/",
        "http://docs.example/" + "a" * 3000,
    ],
)
async def test_a_url_that_is_not_allowed_is_refused_before_any_lookup(url):
    site = Site({})
    error = await refused(url, site.reach())
    assert error.code is Code.INVALID_ARGUMENT
    assert site.lookups == []
    assert "pass" not in str(error)


@pytest.mark.parametrize("url", ["http://docs.example:443/", "https://docs.example:80/"])
async def test_both_ports_may_be_named_with_either_scheme(url):
    async with Site({"/": text(b"x")}).open() as site:
        with contextlib.suppress(LightRagError):  # TLS to a plain server fails, later
            await fetch(url, Limits(timeout_s=0.5), site.reach())
    assert len(site.lookups) == 1


async def test_a_name_with_any_address_inside_is_refused():
    async with Site({"/": text(b"x")}).open() as site:
        error = await refused("http://docs.example/", site.reach("127.0.0.1", "10.0.0.1"))
        assert error.code is Code.INVALID_ARGUMENT
        error = await refused("http://docs.example/", site.reach("no address"))
        assert error.code is Code.INVALID_ARGUMENT
    assert site.asked == []


async def test_a_name_is_looked_up_once_so_that_rebinding_gains_nothing():
    async with Site({"/": text(b"outside")}).open() as site:
        answers = iter([[Target("127.0.0.1", site.port)]])  # a second lookup would fail

        async def once(_host, _port):
            return next(answers)

        found = await fetch("http://docs.example/", None, Reach(once, loopback_only))
    assert found.data == b"outside"


async def test_each_redirect_is_looked_up_and_checked_again():
    pages = {"/": replying(302, "Location: http://inner.example/secret")}
    async with Site(pages).open() as site:

        async def resolve(host, _port):
            inner = host == "inner.example"
            return [Target("10.1.2.3" if inner else "127.0.0.1", site.port)]

        error = await refused("http://docs.example/", Reach(resolve, loopback_only))
    assert error.code is Code.INVALID_ARGUMENT
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "http://docs.example:6379/",
        "http://u:p@docs.example/",
        "//docs.example:22/",
        "gopher://docs.example/",
    ],
)
async def test_a_redirect_obeys_the_rules_of_a_url(location):
    async with Site({"/": replying(302, f"Location: {location}")}).open() as site:
        error = await refused("http://docs.example/", site.reach())
    assert error.code is Code.INVALID_ARGUMENT
    assert len(site.asked) == 1


async def test_a_relative_redirect_is_followed():
    pages = {"/a/b": replying(301, "Location: ../c.md"), "/c.md": text(b"moved")}
    async with Site(pages).open() as site:
        found = await fetch("http://docs.example/a/b", None, site.reach())
    assert (found.data, found.url) == (b"moved", "http://docs.example/c.md")


@pytest.mark.parametrize("lines", [(), ("Location: http://[",), ("Location: /",)])
async def test_a_redirect_to_nowhere_or_in_a_circle_ends(lines):
    async with Site({"/": replying(302, *lines)}).open() as site:
        error = await refused("http://docs.example/", site.reach(), Limits(max_redirects=3))
    assert error.code in {Code.BAD_RESPONSE, Code.INVALID_ARGUMENT}
    assert len(site.asked) <= 4


async def test_a_redirect_from_https_to_http_is_refused():
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("docs.example").configure_cert(server_side)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    pages = {"/": replying(302, "Location: http://docs.example/")}
    async with Site(pages).open(server_side) as site:
        error = await refused("https://docs.example/", site.reach(tls=trusted))
    assert error.code is Code.INVALID_ARGUMENT


async def test_a_body_over_the_cap_is_dropped_whether_or_not_its_length_is_told():
    told = text(b"x" * 101)
    untold = TEXT + b"\r\n" + b"x" * 101
    lying = TEXT + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n"
    async with Site({"/a": told, "/b": untold, "/c": lying, "/d": text(b"x" * 100)}).open() as site:
        for path in "abc":
            error = await refused(
                f"http://docs.example/{path}", site.reach(), Limits(max_bytes=100)
            )
            assert error.code is Code.TOO_LARGE
        found = await fetch("http://docs.example/d", Limits(max_bytes=100), site.reach())
        assert len(found.data) == 100


async def test_a_body_that_breaks_off_is_no_document():
    broken = TEXT + b"Content-Length: 10\r\n\r\nhalf"
    async with Site({"/": broken}).open() as site:
        assert (await refused("http://docs.example/", site.reach())).code is Code.UNREACHABLE


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Type: application/zip",),
        ("Content-Type: image/png",),
        ("Content-Type: \x85",),
        (),
    ],
)
async def test_a_media_type_that_is_not_taken_is_refused(lines):
    async with Site({"/": replying(200, *lines, body=b"x")}).open() as site:
        error = await refused("http://docs.example/", site.reach())
    assert error.code is Code.INVALID_ARGUMENT
    assert "media type" in error.message


async def test_an_encoded_or_empty_body_is_refused():
    pages = {"/z": text(b"x", "Content-Encoding: gzip"), "/e": text(b"")}
    async with Site(pages).open() as site:
        for path in "ze":
            error = await refused(f"http://docs.example/{path}", site.reach())
            assert error.code is Code.BAD_RESPONSE


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (204, Code.BAD_RESPONSE),
        (206, Code.BAD_RESPONSE),
        (304, Code.BAD_RESPONSE),
        (400, Code.BAD_RESPONSE),
        (401, Code.FORBIDDEN),
        (403, Code.FORBIDDEN),
        (404, Code.NOT_FOUND),
        (410, Code.NOT_FOUND),
        (429, Code.RATE_LIMITED),
        (500, Code.SERVER_ERROR),
        (503, Code.SERVER_ERROR),
    ],
)
async def test_a_status_has_its_code_and_the_wait_that_was_asked_for(status, code):
    async with Site({"/": replying(status, "Retry-After: 7")}).open() as site:
        error = await refused("http://docs.example/", site.reach())
    assert (error.code, error.status, error.retry_after_s) == (code, status, 7)


async def test_a_silent_host_ends_with_the_budget():
    async with Site({"/": None}).open() as site:
        error = await refused("http://docs.example/", site.reach(), Limits(timeout_s=0.2))
    assert error.code is Code.TIMEOUT


async def test_a_lookup_that_hangs_ends_with_the_budget():
    async def never(_host, _port):
        await asyncio.Event().wait()

    error = await refused("http://docs.example/", Reach(never), Limits(timeout_s=0.1))
    assert error.code is Code.TIMEOUT


async def test_the_next_address_is_tried_when_one_refuses():
    async with Site({"/": text(b"second")}).open() as site:

        async def resolve(_host, _port):
            closed = Target("127.0.0.1", 1)
            return [closed, Target("127.0.0.1", site.port)]

        found = await fetch("http://docs.example/", None, Reach(resolve, loopback_only))
        assert found.data == b"second"

        async def nobody(_host, _port):
            return [Target("127.0.0.1", 1)]

        error = await refused("http://docs.example/", Reach(nobody, loopback_only))
        assert error.code is Code.UNREACHABLE


# --- addresses --------------------------------------------------------------------------------

NOWHERE = str(ipaddress.IPv4Address(0))
INSIDE = [
    NOWHERE, "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.9.9.9",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1",
    "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1", "2606:4700:4700::1111%eth0",
]  # fmt: skip
OUTSIDE = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.167.0.1", "2606:4700:4700::1111", "2a00::1"]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused(address):
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_internet_is_let_through(address):
    assert is_public(ipaddress.ip_address(address))


@given(st.integers(0, 2**32 - 1))
def test_nothing_that_python_calls_private_is_public(number):
    address = ipaddress.IPv4Address(number)
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_no_address_that_carries_another_is_public(number):
    address = ipaddress.IPv6Address(number)
    if is_public(address):
        assert address.is_global
        assert (address.ipv4_mapped, address.sixtofour, address.teredo) == (None, None, None)


def v4_spellings(address):
    number = int(ipaddress.IPv4Address(address))
    first, second, third, fourth = ipaddress.IPv4Address(address).packed
    tail = (second << 16) | (third << 8) | fourth
    spelled = [
        address, f"{number}", f"0x{number:x}", f"0{number:o}", f"{first}.{tail}",
        f"0x{first:x}.{second}.{(third << 8) | fourth}", f"0{first:o}.{second}.{third}.{fourth}",
        f"[::ffff:{address}]", f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]", f"[::{address}]",
        f"[64:ff9b::{address}]", f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]",
        f"{address}.", address.replace(".", "。"), f"{first}%2E{second}.{third}.{fourth}",
    ]  # fmt: skip
    return st.sampled_from(spelled)


@settings(deadline=None)
@given(
    st.sampled_from(["127.0.0.1", "10.20.30.40", "169.254.169.254", "192.168.0.1", NOWHERE])
    .flatmap(v4_spellings)
    .flatmap(lambda host: st.sampled_from([host, host.upper(), f"{host}:80", f"{host}:443"])),
    st.sampled_from(["http", "https", "HTTP"]),
)
async def test_no_spelling_of_an_inner_address_is_connected_to(host, scheme):
    asked = []

    async def resolve(name, port):
        # The machine's own lookup, which understands most spellings; it needs no network for them.
        found = await system_names(name, port)
        asked.extend(found)
        return found

    error = await refused(f"{scheme}://{host}/", Reach(resolve), Limits(timeout_s=20))
    # Refused by its text or its address, or it is no spelling at all; never asked for a page.
    assert error.code in {Code.INVALID_ARGUMENT, Code.UNREACHABLE}
    if asked:
        assert error.code is Code.INVALID_ARGUMENT
