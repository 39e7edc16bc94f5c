"""A device that decides by nested conditions what comes next: a plain reference for ``Device._upcoming``."""

from __future__ import annotations

import math

from devices.device import Device, Entry
from devices.work import Work


class ReferenceDevice(Device):
    def _upcoming(self) -> list[Entry]:
        return self._in_order()  # nothing is kept

    def _advance(self, now: float) -> None:
        while True:
            work = self._work
            download = self._downloads.due
            suspension = self._suspensions.current
            if suspension is not None:
                if work is not None and work.send_at <= min(now, suspension.until):
                    self._send(now)
                elif suspension.until > now:
                    return
                else:
                    self._wake_up(suspension.until, now)
            elif work is not None and work.send_at <= min(now, download):
                self._send(now)
            else:
                gone, wanted = self._suspensions.next_absence, self.wants_step(now)
                moment = self._work_due(work) if work is not None and not wanted else math.inf
                if min(download, moment) > min(now, gone):
                    if gone > now or wanted:
                        return
                    self._go_away(now)
                elif work is not None and moment <= download:
                    self._advance_work(work, now)
                else:
                    self._end_download(now)

    def wants_step(self, now: float) -> bool:
        work = self._work
        return (
            work is not None
            and self._jobs.paced
            and work.done < work.steps
            and self._suspensions.current is None
            and not work.suspends_now
            and work.pace.begins(work.done) <= min(now, self._suspensions.next_absence)
        )

    def _due(self) -> float:
        if self._suspensions.current is not None:
            return min(self._suspensions.current.until, self._work.send_at if self._work is not None else math.inf)
        moment = min(self._suspensions.next_absence, self._downloads.due)
        if self._work is not None:
            moment = min(moment, self._work.send_at, self._work_due(self._work))
        return moment

    def _work_due(self, work: Work) -> float:
        if work.update is not None:
            return work.upload.due if work.upload is not None else work.retry_at
        if work.suspends_now:
            return work.pace.ended(work.done)
        if work.done == work.steps:
            ended = work.pace.ended(work.done)
            last = min(self._suspensions.next_absence, self._script.killed_at)
            return ended - self._lead if ended <= last else math.inf
        return work.pace.begins(work.done) if self._jobs.paced else math.inf

    def _advance_work(self, work: Work, now: float) -> None:
        if work.update is None:
            if work.suspends_now:
                self._suspend(now)
            elif work.done == work.steps:
                self._finish_training(now)
        elif work.upload is None:
            self._begin_upload(now)
        else:
            self._end_upload(now)
