"""The workers of a campaign: who takes part, who has stopped answering, and calls to them with a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from distributed import Client

from shardmark.harness.campaign.dask.scheduler import ANSWER_S
from shardmark.harness.campaign.dask.worker import CORES, cores_resource, register_campaign

CHECKS = 10  # checks in a row without a sign of life after which a worker counts as silent
GONE = (OSError, TimeoutError, CancelledError, RuntimeError, AttributeError)  # errors of a client without a scheduler


@dataclass
class Member:
    """A worker that takes part: its name, cores, last sign of life (Unix time) and checks since then.

    ``host`` is the name of its machine, "" until it has answered a call.
    """

    name: str
    cores: int
    seen: float
    checks: int = 0
    host: str = ""


class WorkerPool:
    """The workers of a campaign by address; ``say`` prints a sentence when one comes, goes, or stops answering.

    ``facts`` has those of each machine, by its name; ``silent`` the addresses of the workers, and of the scheduler,
    that have not answered; ``others`` those of workers that take no part.
    """

    def __init__(self, client: Client, scheduler: str, topic: str, say: Callable[[str], None]) -> None:
        self.client, self.scheduler, self.topic, self.say = client, scheduler, topic, say
        self.members: dict[str, Member] = {}
        self.facts: dict[str, Mapping[str, Any]] = {}
        self.silent: set[str] = set()
        self.others: set[str] = set()

    @property
    def cores(self) -> list[int]:
        """Numbers of cores of the workers that can carry out runs."""
        return [member.cores for member in list(self.members.values()) if member.host]

    def check(self) -> None:
        """Update the list of workers; do nothing if the scheduler does not answer."""
        found = self._workers_of_scheduler()
        if found is None:
            return
        ours = {address: facts for address, facts in found.items() if cores_resource() in facts["resources"]}
        self._name_others({address: facts for address, facts in found.items() if address not in ours})
        for address in self.members.keys() - ours.keys():
            self.say(f"{self.name(address)} has gone")
            del self.members[address]
            self.silent.discard(address)
        for address, facts in ours.items():
            self._note_heartbeat(address, facts)
        self._register([address for address, member in self.members.items() if not member.host])

    def call(self, function: Callable[..., Any], *values: Any, workers: Collection[str]) -> dict[str, Any]:
        """Call a function on workers that are not silent; return the result or error of each that answers in time."""
        asked = [address for address in workers if not self.silent & {address, self.scheduler}]
        begin = time.time()
        try:
            answers = self.client.sync(self._ask_all, function, values, asked)
        except GONE:
            return {}
        late = {address for address, answer in answers.items() if isinstance(answer, TimeoutError)}
        if late and self._workers_of_scheduler() is not None:  # else it is to blame
            for address in late:
                self._note_silent(address, begin)
        return {address: answer for address, answer in answers.items() if address not in late}

    def name(self, address: str) -> str:
        if address == self.scheduler:
            return f"the scheduler {address}"
        return f"worker {self.members[address].name} ({address})" if address in self.members else f"worker {address}"

    def _workers_of_scheduler(self) -> dict[str, Any] | None:
        """Return the scheduler's facts of each worker, None if it does not answer."""
        begin = time.time()
        try:
            found: dict[str, Any] = self.client.sync(self.client.scheduler.identity, callback_timeout=ANSWER_S)
        except GONE as error:
            if isinstance(error, TimeoutError):
                self._note_silent(self.scheduler, begin)
            return None
        self._note_answer(self.scheduler)
        return found["workers"]

    async def _ask_all(self, function: Callable[..., Any], values: Any, workers: Collection[str]) -> dict[str, Any]:
        async def ask(address: str) -> Any:
            asked = self.client.run(function, *values, workers=[address], on_error="return", asynchronous=True)
            return (await asyncio.wait_for(asked, ANSWER_S))[address]

        return dict(zip(workers, await asyncio.gather(*map(ask, workers), return_exceptions=True), strict=True))

    def _note_heartbeat(self, address: str, facts: Mapping[str, Any]) -> None:
        """Add a worker that has come; note whether it has given a sign of life since the last check."""
        seen = facts["last_seen"]
        cores = int(facts["resources"][cores_resource()])
        member = self.members.setdefault(address, Member(facts["name"], cores, seen))
        if seen != member.seen:
            member.seen, member.checks = seen, 0
            self._note_answer(address)
        elif member.checks < CHECKS:
            member.checks += 1
        else:
            self._note_silent(address, seen)

    def _note_silent(self, address: str, since: float) -> None:
        if address not in self.silent:
            self.silent.add(address)
            self.say(f"{self.name(address)} has not answered since {time.strftime('%H:%M:%S', time.localtime(since))}")

    def _note_answer(self, address: str) -> None:
        if address in self.silent:
            self.silent.discard(address)
            self.say(f"{self.name(address)} answers again")

    def _name_others(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Report workers with another version of Shardmark; those of other Dask users are nobody's business."""
        for address, facts in found.items():
            if address not in self.others and any(name.startswith(CORES[:-1]) for name in facts["resources"]):
                self.say(f"worker {facts['name']} ({address}) takes no part: it has another version of Shardmark")
                self.others.add(address)

    def _register(self, addresses: Collection[str]) -> None:
        """Ask new workers what a campaign must know of them."""
        for address, answer in self.call(register_campaign, self.topic, workers=addresses).items():
            if isinstance(answer, dict):
                self.facts[answer["host"]] = answer["facts"]
                self.members[address].host = answer["host"]
                self.say(f"{self.name(address)}: {answer['description']}")
