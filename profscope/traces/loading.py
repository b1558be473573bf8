"""Read a trace file into a profile: our own exactly, torch.profiler's and Proton's as far as they go."""

from pathlib import Path
from typing import Any

from profscope.decoding.assemble import assemble
from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.importers.kineto import is_kineto, read_kineto
from profscope.traces.importers.native import from_document, from_first_line, from_first_packets
from profscope.traces.importers.proton import is_proton, read_proton
from profscope.traces.source import first_line, json_documents
from profscope.traces.spool import find, read

__all__ = ["load"]


def load(path: str | Path) -> Tables:
    """The profile in a trace file, JSON or our protobuf, whatever its suffix; or in a spool, or its folder.

    Raises TraceError, in one line saying what the file is, when it holds none that can be read.
    """
    path = Path(path)
    spool = find(path)
    if spool is not None:
        metadata, launches, notes = read(spool)
        return assemble(launches, metadata, notes)
    profile = from_first_packets(path)
    if profile is not None:
        return profile
    profile = from_first_line(path, first_line(path))
    if profile is not None:
        return profile
    documents = json_documents(path)
    if isinstance(documents[0], dict) and "profscope" in documents[0]:
        return from_document(path, documents[0])
    try:
        if is_proton(documents):
            return read_proton(documents)
        if is_kineto(documents):
            return read_kineto(documents)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is a damaged trace of another tool: {error!r}") from error
    raise TraceError(f"{path} is {_describe(documents[0])}")


def _describe(document: Any) -> str:
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if isinstance(events, list) and any(isinstance(event, dict) and "ph" in event for event in events):
        return "a Chrome trace without GPU kernels of torch.profiler or spans of Proton in it"
    if isinstance(events, list) and any(isinstance(event, dict) and "frame" in event for event in events):
        return "a Proton call-tree profile, which has no timeline; record it with data='trace'"
    if isinstance(document, dict):
        keys = ", ".join(map(repr, list(document)[:5])) or "no keys"
        return f"JSON but no trace: an object with {keys}"
    return f"JSON but no trace: {'an array' if isinstance(document, list) else 'a single value'}"
