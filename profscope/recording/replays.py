"""What replays of CUDA graphs recorded, copied out behind each."""

from __future__ import annotations

from profscope.decoding.raw import Mark
from profscope.device.arena import cold_bytes
from profscope.device.buffers import Lane
from profscope.device.graphs import Captured
from profscope.recording.diagnostics import Diagnostics
from profscope.recording.lanes import Lanes
from profscope.recording.launch_log import LaunchLog, Route
from profscope.recording.messages import one_line
from profscope.recording.routes import Routes

__all__ = ["Replays"]


class Replays:
    """Where graphs hand over what they recorded; see `Graphs`."""

    def __init__(self, lanes: Lanes, log: LaunchLog, routes: Routes, journal: Diagnostics) -> None:
        self._lanes = lanes
        self._log = log
        self._routes = routes
        self._journal = journal

    def keep(self, graph: Captured, replay: int, stream: int) -> None:
        """Copy what a replay recorded behind it, and note its launches."""
        lane = self._lanes.thread.lane
        if self._journal.stopped:
            self._journal.skip(self._journal.stopped, len(graph.launches))
            return
        try:
            self._copy(graph, lane, replay, stream)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's replay goes on
            why = one_line(error)
            self._journal.skip(why, len(graph.launches))
        finally:
            lane.enqueued()

    def _copy(self, graph: Captured, lane: Lane, replay: int, stream: int) -> None:
        buffers = self._routes.buffers(graph.device)
        if buffers is None:
            return
        memory = graph.memory
        buffers.place(lane, memory.nbytes, stream, 0, ())
        filling, offset = lane.filling, lane.offset
        if filling is None:
            self._journal.skip(self._journal.stopped, len(graph.launches))
            return
        buffers.copy(filling, offset, memory)
        mark = Mark(graph=graph.index, replay=replay, cold=memory.nbytes > cold_bytes(graph.device))
        for program, plan, at in graph.launches:
            route = Route.of(buffers, plan, stream, graph.device, iter(()))
            self._log.entries.append((program, route, filling, offset + at, mark))
