"""A bounded cache that threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Cache(Generic[T]):
    """Keeps what was used last, as long as the weights add up to no more than ``limit``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, tuple[T, int]] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: bytes, value: T, weight: int = 1) -> None:
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, weight)
            self._weight += weight
            while self._weight > self._limit:
                _, (_, freed) = self._entries.popitem(last=False)
                self._weight -= freed

    def __len__(self) -> int:
        return len(self._entries)
