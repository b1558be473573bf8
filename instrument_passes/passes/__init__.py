"""All built-in passes; importing this registers them."""

from instrument_passes.passes.allocate_buffer import AllocateBuffer
from instrument_passes.passes.base import Pass, PassContext, passes, register, signature
from instrument_passes.passes.iteration_spans import IterationSpans
from instrument_passes.passes.kernel_span import KernelSpan
from instrument_passes.passes.loop_spans import LoopSpans
from instrument_passes.passes.lower_records import LowerRecords
from instrument_passes.passes.op_spans import OpSpans
from instrument_passes.passes.scope_spans import ScopeSpans
from instrument_passes.passes.value_probe import ValueProbe

__all__ = [
    "AllocateBuffer",
    "IterationSpans",
    "KernelSpan",
    "LoopSpans",
    "LowerRecords",
    "OpSpans",
    "Pass",
    "PassContext",
    "ScopeSpans",
    "ValueProbe",
    "passes",
    "register",
    "signature",
]
