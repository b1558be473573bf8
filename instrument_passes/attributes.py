"""What a pass says of a span. Declared here, once: a begin record prints it, the manifest keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ["BITS", "SpanAttributes"]

BITS: Final = "bits"  # in a field's metadata: how wide an integer is printed; 32 without


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanAttributes:
    """Attributes that have their default value are not printed and not stored.

    kind: what the table of spans shows, such as "op". name: what the span is called. op: the name of the op
    that it is around. bytes and flops: what one CTA moves and computes each time, known from the types of the
    op; 0 where there is nothing to tell (see `analyses/metrics.py`). part, channel and pending: what the op
    is to asynchronous work (see `async_roles.Role`), "" if nothing. stage, loop, ahead and peeled: what the
    op is to a pipelined loop (see `loop_stages.Stage`), "" if nothing.
    """

    kind: str
    name: str
    op: str
    bytes: int = field(default=0, metadata={BITS: 64})
    flops: int = field(default=0, metadata={BITS: 64})
    part: str = ""
    channel: int = 0
    pending: int = 0
    stage: str = ""
    loop: int = -1
    ahead: int = 0
    peeled: int = 0
