"""Files a profile can be written to; the suffix chooses."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from profscope.analysis.validate import column_problems
from profscope.errors import OptionError, TraceError
from profscope.schema import Tables
from profscope.traces.chrome import writer as chrome
from profscope.traces.chrome.writer import trace_pieces
from profscope.traces.document import worker_count
from profscope.traces.files import GzipFile, PlainFile, whole_file
from profscope.traces.perfetto import writer as perfetto
from profscope.traces.perfetto.writer import packet_pieces

__all__ = ["save"]

FILES: dict[str, type[PlainFile] | type[GzipFile]] = {
    ".json": PlainFile,
    ".json.gz": GzipFile,
    ".pftrace": PlainFile,
    ".pftrace.gz": GzipFile,
}


def save(profile: Tables, path: str | Path) -> None:
    """Write a profile to `path`, whole or not at all.

    Raises OptionError for a suffix that is none of `FILES`, TraceError for tables that do not follow the
    schema and for a place that cannot be written.
    """
    path = Path(path)
    suffix = next((suffix for suffix in FILES if path.name.endswith(suffix)), None)
    if suffix is None:
        raise OptionError(f"cannot save {path.name!r}: the suffix must be one of {', '.join(FILES)}")
    problems = column_problems(profile)
    if problems:
        raise TraceError(f"cannot save {path.name!r}: {problems[0]}")
    is_json = suffix.startswith(".json")
    pieces, end = (trace_pieces, chrome.END) if is_json else (packet_pieces, perfetto.END)
    try:
        with whole_file(path) as file, ThreadPoolExecutor(worker_count()) as pool:
            output = FILES[suffix](file, end)
            for piece in pieces(profile, pool, output.prepare):
                output.write(piece)
            output.close()
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from error
