"""One device on a virtual clock: its driver, what it has sent, and what waits while it is frozen."""

from __future__ import annotations

import math
from collections.abc import Callable

from devices.compute.kept_memory import JobTickets
from devices.device_config import DeviceConfig
from devices.process.device_driver import DeviceDriver
from testbed.twin.job_results import JobResults, VirtualComputing
from testbed.twin.memory_links import MemoryClusters, MessageList
from testbed.wire.messages import STOPPED, Message, Vector
from testbed.wire.training_job import Job


def no_meter() -> None:
    """The kernel counts nothing here."""


class VirtualDevice:
    """One device. ``results`` computes its jobs; ``samples``: how many it has; ``brief``: see DeviceDriver."""

    __slots__ = ("_driver", "_frozen_until", "_sent", "_waiting", "config", "last_sign")

    def __init__(
        self, config: DeviceConfig, samples: int, results: JobResults, clusters: MemoryClusters, *, brief: bool
    ) -> None:
        name = config.spec.name
        self.config, self._sent = config, MessageList()
        self._driver: DeviceDriver | None = DeviceDriver(
            config,
            samples,
            _trainer(name, results),
            no_meter,
            self._sent,
            clusters.of(name),
            whole=True,
            brief=brief and config.spec.suspend_by != "signal",
        )
        self.last_sign = -math.inf
        """When the last heartbeat before its death was due."""
        self._frozen_until: float | None = None
        self._waiting: list[Message] = []
        """What it has been sent since it was frozen."""

    @property
    def is_dead(self) -> bool:
        """Whether the script has killed it."""
        return self._driver is None

    @property
    def lives(self) -> bool:
        """Whether it is neither dead nor frozen."""
        return self._driver is not None and self._frozen_until is None

    def receive(self, message: Message, now: float) -> float:
        """Accept a message of the aggregator. Return when it acts next."""
        if self._driver is None:
            return math.inf
        if self._frozen_until is not None:
            self._waiting.append(message)
            return self._frozen_until
        self._driver.handle(message, now)
        return self._driver.due()

    def act(self, now: float) -> tuple[list[Message], float]:
        """Do everything that is due. Return what it sends, and when it acts next."""
        driver = self._driver
        if driver is None:
            return [], math.inf
        if self._frozen_until is not None:
            if now < self._frozen_until:
                return [], self._frozen_until
            self._thaw(driver, now)
        device = driver.device
        driver.advance(now)
        driver.exchange(now)
        while device.wants_step(now):
            device.step()
            device.stepped(now)
            driver.advance(now)
            driver.exchange(now)
        if driver.is_killed:
            driver.send_heartbeat(now)
            self._driver, self.last_sign = None, driver.last_heartbeat
            return self._sent.take(), math.inf
        self._frozen_until = driver.freeze_until()
        return self._sent.take(), driver.due() if self._frozen_until is None else self._frozen_until

    def _thaw(self, driver: DeviceDriver, now: float) -> None:
        self._frozen_until = None
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            driver.handle(message, now)

    def stop(self, now: float) -> list[Message]:
        """End with the run. Return the last messages."""
        if self._driver is None:
            return []
        self._thaw(self._driver, now)
        self._driver.device.stop(now)
        self._driver.send_last_heartbeat(STOPPED)
        return self._sent.take()


def _trainer(device: str, results: JobResults) -> Callable[[Job, Vector, int, JobTickets], VirtualComputing]:
    def train(job: Job, base: Vector, number: int, tickets: JobTickets) -> VirtualComputing:
        return VirtualComputing(results.begin(device, job, base, number, tickets))

    return train
