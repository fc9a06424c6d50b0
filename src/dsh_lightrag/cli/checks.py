"""What may be wrong with a deployment: each check a value, run in order, each prerequisite first.

A check that could not be made is no good news: it has no verdict, and says why.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import SecretStr

from dsh_lightrag import wire
from dsh_lightrag.budget import Budget
from dsh_lightrag.cli.compatibility import read_compatibility
from dsh_lightrag.cli.network import (
    LOOPBACKS,
    knock_all,
    proxy_variables,
    resolve,
    shake_hands,
)
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.errors import Code, ConfigurationError, LightRagError
from dsh_lightrag.transport import Transport, proxy_of, reason_of, tls_context

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from dsh_lightrag.settings import Connection, LightRagSettings

# --- values -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a check ended.

    Attributes:
        ok: None when there is no verdict: not run, not needed, not to be told.
        what: what was seen.
        mend: what to do about it; empty when there is nothing to do.
    """

    ok: bool | None
    what: str
    mend: str = ""


def well(what: str) -> Verdict:
    """Judge that nothing is wrong."""
    return Verdict(ok=True, what=what)


def wrong(what: str, mend: str) -> Verdict:
    """Judge that something is wrong, and say what mends it."""
    return Verdict(ok=False, what=what, mend=mend)


def unjudged(what: str, mend: str = "") -> Verdict:
    """Give no verdict, and say why."""
    return Verdict(ok=None, what=what, mend=mend)


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's verdict under its id, as programs read it."""

    id: str
    ok: bool | None
    what: str
    mend: str

    def fields(self) -> dict[str, bool | str | None]:
        """Return it as a JSON-ready mapping."""
        return {"id": self.id, "ok": self.ok, "what": self.what, "mend": self.mend}


@dataclass
class Patient:
    """The deployment under examination, and what the checks have found out so far."""

    connection: Connection
    timeout_ms: int
    transport: Transport
    in_container: bool
    proxy: bool = False
    addresses: list[str] = field(default_factory=list)
    answering: list[str] = field(default_factory=list)
    health: wire.Health = field(default_factory=lambda: wire.Health(status="unknown"))

    @property
    def client(self) -> LightRagClient:
        """The endpoints, with a whole budget for the check that asks."""
        return LightRagClient(self.transport, Budget.start(self.timeout_ms))


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its id, the checks that must not have failed, and how it is made."""

    id: str
    needs: tuple[str, ...]
    run: Callable[[Patient], Awaitable[Verdict]]


# --- the network ------------------------------------------------------------------------------

THROUGH_THE_PROXY = unjudged("not probed: requests go through the proxy")


async def dns(patient: Patient) -> Verdict:
    """Resolve the host name."""
    origin = patient.connection.origin
    if patient.proxy:
        return THROUGH_THE_PROXY
    try:
        patient.addresses = await resolve(origin.host, origin.port)
    except TimeoutError:
        return wrong(f"the name servers are silent on {origin.host}", _MEND_DNS)
    except OSError as error:
        return wrong(f"{origin.host}: {reason_of(error)}", _MEND_DNS)
    return well(f"{origin.host} is {', '.join(patient.addresses)}")


_MEND_DNS = "Correct the host in the endpoint, or this machine's name resolution."


async def loopback(patient: Patient) -> Verdict:
    """Tell which of this machine's two loopback addresses answers.

    Many servers listen on one family only, and `localhost` may mean the other.
    """
    origin = patient.connection.origin
    if patient.proxy or not origin.is_loopback:
        return unjudged(f"not needed: {origin.host} is reached otherwise")
    own = list(dict.fromkeys([*LOOPBACKS, *patient.addresses]))
    answers = await knock_all(own, origin.port)
    what = ", ".join(map(str, answers))
    answering = [answer.address for answer in answers if not answer.fault]
    if set(answering) & set(patient.addresses):
        return well(what)
    if answering:
        other = str(replace(origin, host=answering[0]))
        return wrong(what, f"The server listens on another family: set endpoint {other}.")
    if patient.in_container:
        return wrong(what, _MEND_CONTAINER.format(port=origin.port))
    return wrong(what, _MEND_REFUSED)


_MEND_REFUSED = "Start the LightRAG server, or correct the port in the endpoint."
_MEND_CONTAINER = (
    "This process runs in a container, whose loopback is its own: set endpoint "
    "http://host.docker.internal:{port} (on Linux with "
    "--add-host=host.docker.internal:host-gateway), and let the server listen on 0.0.0.0."
)


async def proxies(patient: Patient) -> Verdict:
    """Tell whether proxy variables are set, and whether they matter here."""
    names = ", ".join(proxy_variables())
    if not patient.connection.use_proxy:
        return well(f"{names} set, and ignored" if names else "no proxy variable is set")
    if not patient.proxy:
        return well(f"useProxy is on, but no proxy applies ({names or 'none set'})")
    if patient.connection.origin.is_loopback:
        return wrong(
            f"{names}: the proxy would be asked for an address of this machine",
            "Leave useProxy off, or add the host to NO_PROXY.",
        )
    return well(f"requests go through the proxy that the variables name ({names})")


async def tcp(patient: Patient) -> Verdict:
    """Connect to the port."""
    port = patient.connection.origin.port
    if patient.proxy:
        return THROUGH_THE_PROXY
    answers = await knock_all(patient.addresses, port)
    patient.answering = [answer.address for answer in answers if not answer.fault]
    what = f"port {port}: {', '.join(map(str, answers))}"
    if patient.answering:
        return well(what)
    mend = f"{_MEND_REFUSED} A firewall or an interface it does not listen on may be in the way."
    if proxy_variables():
        mend += " If it is behind the proxy, set useProxy."
    return wrong(what, mend)


# OpenSSL's verdicts on a certificate that have a remedy of their own.
_CERTIFICATE_MENDS: dict[int, str] = {
    9: "Check the clocks of both machines: the certificate is not valid yet.",
    10: "Renew the server's certificate: it has expired.",
    62: "Set the endpoint to a host name that the certificate names.",
    64: "Set the endpoint to an address or host name that the certificate names.",
}
_MEND_AUTHORITY = "Set caFile to the PEM file of the authority that signed the certificate."


async def tls(patient: Patient) -> Verdict:
    """Shake hands as the transport would: authority, validity and host name."""
    connection = patient.connection
    origin = connection.origin
    if origin.scheme != "https":
        return unjudged("not needed: the endpoint is plain http")
    if patient.proxy:
        return THROUGH_THE_PROXY
    try:
        until = await shake_hands(
            patient.answering[0], origin.port, origin.host, tls_context(connection)
        )
    except ssl.SSLCertVerificationError as error:
        mend = _CERTIFICATE_MENDS.get(error.verify_code, _MEND_AUTHORITY)
        return wrong(reason_of(error), mend)
    except TimeoutError:
        return wrong("the server is silent during the TLS handshake", _MEND_NO_TLS)
    except OSError as error:
        return wrong(reason_of(error), _MEND_NO_TLS)
    return well(f"trusted, valid for {origin.host} until {until}")


_MEND_NO_TLS = "Check that this port speaks TLS; one that does not needs an http:// endpoint."


# --- the server -------------------------------------------------------------------------------

_HEALTH_MENDS: dict[Code, str] = {
    Code.NOT_FOUND: "This is another service, or LightRAG under a path: set basePath.",
    Code.UNAUTHORIZED: "Something before the server asks for a login: let /health through.",
    Code.TIMEOUT: "The port is open, but the server does not answer: see its log.",
    Code.UNREACHABLE: "The port speaks no HTTP: an https server needs an https:// endpoint.",
    Code.INVALID_ARGUMENT: "An https server needs an https:// endpoint.",
    Code.BAD_RESPONSE: "This is no LightRAG server, or a proxy or login page before it.",
    Code.SERVER_ERROR: "See the server's log, and that of a proxy before it.",
}


async def health(patient: Patient) -> Verdict:
    """Ask the server whether it is well; no key is needed for that."""
    try:
        patient.health = await patient.client.health()
    except LightRagError as error:
        own_hint = bool(patient.connection.workspace) or "redirect" in error.message
        mend = error.hint if own_hint else _HEALTH_MENDS.get(error.code, error.hint)
        return wrong(error.message, mend)
    what = f"the server says {patient.health.status}"
    if patient.health.status != "healthy":
        return wrong(what, _HEALTH_MENDS[Code.SERVER_ERROR])
    return well(what)


async def version(patient: Patient) -> Verdict:
    """Compare the server's versions with those that were tested."""
    core, api = patient.health.core_version, patient.health.api_version
    known = read_compatibility().lightrag
    if core is None or api is None:
        return wrong("the server tells no version", "Check that the endpoint is a LightRAG server.")
    what = f"LightRAG {core}, API {api}"
    tested = f"tested: {', '.join(known.core.tested)}, API {', '.join(known.api.tested)}"
    if core in known.core.tested and api in known.api.tested:
        return well(f"{what}: tested")
    if known.core.admits(core) and known.api.admits(api):
        return unjudged(f"{what}: declared to work, but not tested ({tested})")
    return wrong(
        f"{what}: outside what is declared to work ({known.core.declared})",
        f"Run a version that is declared to work ({tested}).",
    )


# What a refusal says (status, phrase) and what it means; with a key and without one.
_LOGIN = "No credentials provided"
_REFUSALS: tuple[tuple[int, str, bool, str, str], ...] = (
    (403, "API Key required", False, "the server asks for a key, and none is set here",
     "Set LIGHTRAG_API_KEY (or --api-key-env) to the server's key."),
    (403, "Invalid API Key", True, "the server does not accept this key",
     "Set LIGHTRAG_API_KEY (or --api-key-env) to the server's key."),
    (401, _LOGIN, False, "the server has user accounts, and no key is set here",
     "Set LIGHTRAG_API_KEY here; if the server has accounts only, set it on its side too."),
    (401, _LOGIN, True, "the server has user accounts and does not accept this key",
     "Set LIGHTRAG_API_KEY on the server's side if it has accounts only; else correct the key."),
    (401, "Invalid token", True, "something on the way adds an Authorization header",
     "Let the proxy before the server remove it: LightRAG judges it before the key."),
    (401, "Invalid token", False, "something on the way adds an Authorization header",
     "Let the proxy before the server remove it: LightRAG judges it before the key."),
)  # fmt: skip


async def credentials(patient: Patient) -> Verdict:
    """Ask a route that needs the key; say what the refusal of one means."""
    key = bool(patient.connection.api_key.get_secret_value())
    try:
        await patient.client.status_counts()
    except LightRagError as error:
        for status, phrase, with_key, what, mend in _REFUSALS:
            if (error.status, with_key) == (status, key) and phrase in error.message:
                return wrong(what, mend)
        return wrong(error.message, error.hint)
    if not key:
        return well("no key is set, and the server asks for none")
    if await _open_to_anyone(patient):
        return well("a key is set, but the server asks for none: it was not checked")
    return well("the key is accepted")


async def _open_to_anyone(patient: Patient) -> bool:
    """Ask again without the key: a server that asks for none accepts a wrong one, too."""
    anonymous = replace(patient.connection, api_key=SecretStr(""))
    async with Transport(anonymous) as transport:
        client = LightRagClient(transport, Budget.start(patient.timeout_ms))
        try:
            await client.status_counts()
        except LightRagError:
            return False
    return True


async def routes(patient: Patient) -> Verdict:
    """Compare the routes that tools use with those that the server says it has."""
    try:
        paths = (await patient.client.openapi()).paths
    except LightRagError as error:
        if error.code is Code.NOT_FOUND:
            return unjudged("not compared: the server publishes no /openapi.json")
        return wrong(error.message, error.hint)
    used = [route for route in wire.Route if not (route.gateway or route is wire.Route.OPENAPI)]
    missing = [
        f"{route.method} {route.path}"
        for route in used
        if route.method.lower() not in paths.get(route.path, {})
    ]
    if missing:
        return wrong(f"missing: {', '.join(missing)}", "Run a tested server version.")
    return well(f"all {len(used)} that the tools use are there")


# --- what is behind the server ----------------------------------------------------------------

# LightRAG answers 200 with this text when its language model failed.


async def embedding(patient: Patient) -> Verdict:
    """Retrieve passages, which the embedding model must serve and no other."""
    request = wire.QueryDataRequest(
        query="Is anything there?", mode="naive", top_k=1, chunk_top_k=1, enable_rerank=False
    )
    try:
        await patient.client.query_data(request)
    except LightRagError as error:
        return wrong(
            f"retrieval failed: {error.message}",
            "Check the server's EMBEDDING_ settings (address, key, model) and its log.",
        )
    return well("the embedding model answers")


async def chat(patient: Patient) -> Verdict:
    """Let the server's language model say one word, past the index and past every cache."""
    request = wire.QueryRequest(query="Answer with one word: ready", mode="bypass", top_k=1)
    mend = "Check the server's LLM_ settings (address, key, model, quota) and its log."
    try:
        reply = await patient.client.query(request)
    except LightRagError as error:
        if error.status == _REFUSED and _NO_CHAT in error.message:
            return unjudged("the server has no chat model: it answers with quoted passages")
        return wrong(f"the language model failed: {error.message}", mend)
    if reply.kind is not wire.AnswerKind.WRITTEN:
        return wrong("the language model failed: no model wrote the answer", mend)
    return well("the language model answers")


# What a server of ours says that was started without a chat model.
_REFUSED = 400
_NO_CHAT = "no chat model configured"
_UNFINISHED = ("pending", "parsing", "analyzing", "processing")


async def ingestion(patient: Patient) -> Verdict:
    """Tell what is ingested, what failed, and what stands still."""
    counts, busy = await _counted(patient)
    if not busy and _total(counts, _UNFINISHED):
        counts, busy = await _counted(patient)  # it may have ended between the two requests
    told = ", ".join(f"{state} {count}" for state, count in counts.items() if count) or "empty"
    what = f"{told}; {'busy' if busy else 'idle'}"
    if counts.get("failed", 0):
        return wrong(
            what,
            "`dsh-lightrag documents --status failed` says why; `dsh-lightrag scan` tries again.",
        )
    if not busy and _total(counts, _UNFINISHED):
        return wrong(f"{what}: unfinished documents stand still", _MEND_STILL)
    if not wire.total_of(counts):
        return unjudged(f"{what}: questions find nothing yet", "Insert or scan documents.")
    return well(what)


_MEND_STILL = (
    "`dsh-lightrag scan` (with --enable writes) resumes them, as does the next insert: a server "
    "that was ended during processing does not do so by itself."
)


async def _counted(patient: Patient) -> tuple[dict[str, int], bool]:
    counts = (await patient.client.status_counts()).status_counts
    health = await patient.client.health()
    return counts, health.busy


def _total(counts: dict[str, int], states: tuple[str, ...]) -> int:
    return sum(counts.get(state, 0) for state in states)


# --- the examination --------------------------------------------------------------------------

ENDPOINT = "endpoint"
CHECKS: tuple[Check, ...] = (
    Check("dns", (ENDPOINT,), dns),
    Check("loopback", ("dns",), loopback),
    Check("proxy", (ENDPOINT,), proxies),
    Check("tcp", ("dns", "loopback", "proxy"), tcp),
    Check("tls", ("tcp",), tls),
    Check("health", ("tls",), health),
    Check("version", ("health",), version),
    Check("credentials", ("health",), credentials),
    Check("routes", ("health",), routes),
    Check("embedding", ("credentials",), embedding),
    Check("chat", ("credentials",), chat),
    Check("ingestion", ("credentials",), ingestion),
)


async def examine(
    load: Callable[[], LightRagSettings], *, in_container: bool
) -> AsyncGenerator[Finding]:
    """Yield each check's finding as soon as it is known; the first is the endpoint's form."""
    failed: set[str] = set()
    async with _admitted(load, in_container=in_container) as (patient, form):
        yield Finding(ENDPOINT, form.ok, form.what, form.mend)
        for check in CHECKS:
            missing = [need for need in check.needs if need in failed]
            if patient is None or missing:
                first = missing[0] if missing else ENDPOINT
                failed.add(check.id)
                yield Finding(check.id, None, f"not run: {first} comes first", "")
                continue
            verdict = await _verdict(check, patient)
            if verdict.ok is False:
                failed.add(check.id)
            redact = patient.transport.redact  # as everything is that leaves the process
            yield Finding(check.id, verdict.ok, redact(verdict.what), redact(verdict.mend))


@asynccontextmanager
async def _admitted(
    load: Callable[[], LightRagSettings], *, in_container: bool
) -> AsyncIterator[tuple[Patient | None, Verdict]]:
    """Load the settings and open a transport under them, or say why that cannot be."""
    try:
        settings = load()
    except ConfigurationError as error:
        yield None, wrong(f"{error.key} {error.problem}", error.mend)
        return
    connection = settings.connection
    what = f"{connection.origin}{connection.base_path}"
    what += ", with a key" if connection.api_key.get_secret_value() else ", without a key"
    async with Transport(connection) as transport:
        patient = Patient(connection, settings.timeout_ms, transport, in_container)
        try:
            patient.proxy = connection.use_proxy and proxy_of(connection) is not None
        except LightRagError as error:
            yield None, wrong(error.message, error.hint)
            return
        yield patient, well(what)


async def _verdict(check: Check, patient: Patient) -> Verdict:
    try:
        return await check.run(patient)
    except LightRagError as error:
        return wrong(error.message, error.hint)
