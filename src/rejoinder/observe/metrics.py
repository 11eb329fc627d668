"""What is counted, in Prometheus' form. No label holds an id, an identity or anything a caller chose freely."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400, 3 * 86_400, 7 * 86_400)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.asked = Counter(
            "rejoinder_questions_asked", "Questions recorded", ["format", "mode"], registry=r
        )
        self.answered = Counter(
            "rejoinder_questions_answered", "Answers recorded", ["format", "via"], registry=r
        )
        self.answer_age = Histogram(
            "rejoinder_answer_age_seconds", "From asked to answered", buckets=_WAITS, registry=r
        )
        self.refused = Counter("rejoinder_answers_refused", "Answers refused", ["reason"], registry=r)
        self.callbacks = Counter(
            "rejoinder_callbacks",
            "Requests that came with a ticket, by what became of them",
            ["outcome"],
            registry=r,
        )
        self.callback_route = Gauge(
            "rejoinder_callback_route_up",
            "1 where a canary came through the public address to a callback door, 0 where not, NaN before the first",
            registry=r,
        )
        self.callback_route.set(math.nan)
        self.deliveries = Counter(
            "rejoinder_deliveries",
            "Events that came to topics, by what became of them",
            ["outcome"],
            registry=r,
        )
        self.hook_runs = Counter(
            "rejoinder_hook_runs", "Attempts of hooks, by what they came to", ["outcome"], registry=r
        )
        self.expired = Counter("rejoinder_questions_expired", "Questions that lapsed", registry=r)
        self.withdrawn = Counter(
            "rejoinder_questions_withdrawn", "Questions withdrawn for a dead process", registry=r
        )
        self.waiting = Gauge("rejoinder_callers_waiting", "Callers blocked in this process", registry=r)
        self.streams = Gauge("rejoinder_streams_open", "Event streams open in this process", registry=r)
        self.stream_delay = Gauge(
            "rejoinder_stream_delay_seconds",
            "Age of the oldest event a running transaction holds back",
            registry=r,
        )
        self.runs = Counter("rejoinder_runs_finished", "Runs that ended", ["state"], registry=r)
        self.resumed = Counter("rejoinder_runs_resumed", "Parked runs resumed", registry=r)
        self.fenced = Counter(
            "rejoinder_writes_fenced", "Writes refused because another worker drives the run", registry=r
        )
        self.flooded = Counter(
            "rejoinder_requests_limited", "Requests to public doors over their limit", ["family"], registry=r
        )
        self.slots = Counter("rejoinder_schedule_turns", "Turns of schedules that were taken", registry=r)
        self.requests = Histogram(
            "rejoinder_http_request_seconds",
            "Requests by route template; blocked ones are counted when they end",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=r,
        )

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)


metrics = Metrics()
