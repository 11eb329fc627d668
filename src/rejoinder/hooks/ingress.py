"""Topics: what comes in is verified, then kept together with a run for each hook, and only then answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from rejoinder.asks.judging import digest_of
from rejoinder.contract import pause
from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.settings import Settings
from rejoinder.contract.verifiers import Binding, SeenSetClaim
from rejoinder.observe.metrics import metrics
from rejoinder.store import signals as s
from rejoinder.store.deliveries import Deliveries
from rejoinder.store.signals import Signals
from rejoinder.verifiers.registry import Verifiers

Outcome = Literal["accepted", "already_seen", "gone"]
#: Seconds that a claim outlives what it is for: a copy that was fresh when it was verified may be kept as much later, or
#: have come to a server whose clock is behind.
LATE = 60


class ReboundError(RejoinderError):
    """The topic was bound or unbound while its event came in; nothing was kept. Send the event again."""

    code = "topic-rebound"
    status = 503


class TopicFullError(RejoinderError):
    """accept failed: too many events of this topic wait or are held; nothing was kept. Send the event again later."""

    code = "topic-full"
    status = 503


@dataclass(frozen=True, slots=True)
class Proven:
    """A request whose sender has shown what the topic asks for. ``claim`` makes it count once; ``post_only``: only the
    body was proven."""

    binding: Binding | None = None
    claim: SeenSetClaim | None = None
    post_only: bool = False


#: What comes to a topic that nobody verifies.
UNPROVEN = Proven()


class Ingress:
    def __init__(
        self, deliveries: Deliveries, verifiers: Verifiers, signals: Signals, settings: Settings
    ) -> None:
        self._deliveries = deliveries
        self._verifiers = verifiers
        self._signals = signals
        self._most = settings.webhook_open_topic_max_outstanding

    async def prove(self, topic: str, raw: bytes, headers: Mapping[str, str]) -> Proven:
        """Verify a request as the topic's binding asks, before anything of it is read. Raises VerificationFailedError,
        VerificationError."""
        binding = await self._deliveries.binding(topic)
        if binding is None:
            return UNPROVEN
        await self._verifiers.verify(binding, raw, headers)
        claim = self._verifiers.claim(binding, raw, headers)
        verifier = self._verifiers.get(binding.verifier)
        assert verifier is not None
        await pause.here("delivery.verified")
        return Proven(binding, claim, verifier.post_only)

    async def accept(
        self, topic: str, payload: Any, *, proven: Proven = UNPROVEN, link: bytes | None = None
    ) -> Outcome:
        """Keep an event and its hook runs, and count the delivery as seen, in one transaction.

        ``link`` is the digest of the trigger link that the event came through; ``gone``: that link does not count. Raises
        ReboundError where the topic is not bound as ``proven`` says, TopicFullError where an open topic takes no more
        now, and NotReadyError. Nothing was kept then, or the same delivery, sent again, is already seen."""
        kept = await self._deliveries.accept(
            uuid4(),
            topic,
            payload,
            binding=proven.binding,
            link=link,
            claim=_named(topic, proven),
            window=None if proven.claim is None else proven.claim.ttl + LATE,
            most=self._most,
        )
        await pause.here("delivery.kept")
        metrics.deliveries.labels(kept.status).inc()
        if kept.status == "rebound":
            raise ReboundError()
        if kept.status == "full":
            raise TopicFullError()
        if kept.status == "seen":
            return "already_seen"
        if kept.status == "gone":
            return "gone"
        if kept.hooks:
            self._signals.tell(s.HOOKS)
        return "accepted"


def _named(topic: str, proven: Proven) -> bytes | None:
    """What a delivery is known by. Its name is the sender's: another sender, with a secret of its own, may number its
    deliveries alike, and one sender may deliver the same event to two topics."""
    if proven.claim is None or proven.binding is None:
        return None
    name = proven.claim.key.encode("utf-8", "backslashreplace").decode()
    return digest_of(["topic", topic, proven.binding.as_json(), name])
