"""Perfetto's own traces, in protobuf."""
