"""Clients that call a server all the time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import httpx


class Callers:
    """Threads that send requests without a pause that matters; half of them over one connection, half with a new one for each."""

    def __init__(self, connect: Callable[[], httpx.Client], count: int = 6) -> None:
        """`connect`: makes a client, whose server has the application `instances`."""
        self.answered: Counter[int] = Counter()
        self.failed: list[str] = []
        self._connect = connect
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _call(self, number: int) -> None:
        client, sent = self._connect(), 0
        while not self._ends.wait(0.02):
            if number % 2:
                client.close()
                client = self._connect()
            sent += 1
            try:
                answer = client.put(f"/Item/{number}", json={"value": sent}) if number % 3 else client.get("/Who/")
                self.answered[answer.json()["pid"] if answer.content else 0] += 1
                if not answer.is_success:
                    self.failed.append(answer.text)
            except httpx.HTTPError as error:
                self.failed.append(repr(error))
        client.close()

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
