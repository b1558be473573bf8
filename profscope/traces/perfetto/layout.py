"""How a Perfetto trace of profscope's begins and ends, by which a reader knows it and sees it is whole."""

from profscope.traces.perfetto.protobuf import field

__all__ = ["DATA_FIELD", "END", "packet"]

DATA_FIELD = (1 << 29) - 1
"""The field of a packet that holds a part of the "profscope" object: the last number there is."""


def packet(*fields: bytes) -> bytes:
    """One TracePacket, as a field of the trace."""
    return field(1, b"".join(fields))


END = packet(field(DATA_FIELD - 1, "profscope: end"))
"""How every trace ends; a reader that stops after the data checks for it."""
