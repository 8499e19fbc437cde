"""Whether allocations are sampled, and since when.

Times are the target's, as its messages bring them.
"""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.protocol.messages import NATIVE, Sampler


@dataclass(frozen=True, slots=True)
class SamplingStatus:
    """The sampling status. While it is off, figures of what lives are those of the moment it was switched off at."""

    on: bool = False
    since_ns: int | None = None  # When it was last switched on, or off; None before anything was asked
    ever_on: bool = False
    """Whether anything was ever sampled. While ``on`` is false: whether there are figures of an earlier moment."""
    void_ns: int | None = None
    """When what had been sampled was last given up, as it was followed no longer; None: it never was."""
    voids: int = 0  # How often that was
    epoch: int = 0
    means: str = NATIVE  # By what it is, or was when it was on
    why: str = ""  # Why it is off though it was asked for, or what voided the samples: a sentence without its full stop

    def after(self, message: Sampler) -> SamplingStatus:
        """The status after this message."""
        begun_anew = self.ever_on and message.on and (not self.on or message.epoch != self.epoch)
        changed = self.since_ns is None or message.on != self.on
        return SamplingStatus(
            on=message.on,
            since_ns=message.time_ns if changed else self.since_ns,
            ever_on=self.ever_on or message.on,
            void_ns=message.time_ns if begun_anew else self.void_ns,
            voids=self.voids + begun_anew,
            epoch=message.epoch,
            means=message.means,
            why=message.text,
        )
