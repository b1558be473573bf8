"""Control flow. The translator makes the ends of basic blocks of these; most have no function on arrays."""

from typing import Any

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.costs import Cost
from profscope.emulator.machine import reports
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.opcodes.table import Form, Meaning, op

__all__: list[str] = []


def nothing(form: Form) -> Meaning:
    return Meaning(lambda: None, [], [])


@op("bra", "uni", cost=Cost.CONTROL, results=0)
def bra(form: Form) -> Meaning:
    """go on at the label; threads that go different ways meet again where their ways do"""
    return nothing(form)


@op("brx.idx", "uni", cost=Cost.CONTROL, results=0)
def brx(form: Form) -> Meaning:
    """go on at the label that a picks from the list, counted from 0; the launch fails if there is none"""
    return nothing(form)


@op("ret exit", "uni", cost=Cost.CONTROL, results=0)
def ret(form: Form) -> Meaning:
    """the thread ends; in a device function, go on after the call"""
    return nothing(form)


@op("bar barrier", "sync aligned cta", cost=Cost.CONTROL, results=0)
def bar(form: Form) -> Meaning:
    """wait for all threads of the CTA that have not ended (or as many as the second operand says)"""
    return nothing(form)


@op("bar.warp", "sync", cost=Cost.CONTROL, results=0)
def bar_warp(form: Form) -> Meaning:
    """wait for the warp's lanes; they run in step here"""
    return nothing(form)


@op("nanosleep", cost=Cost.CONTROL, results=0)
def nanosleep(form: Form) -> Meaning:
    """go on"""
    return nothing(form)


@op("pmevent", cost=Cost.CONTROL, results=0)
def pmevent(form: Form) -> Meaning:
    """nothing: there are no performance counters"""
    return nothing(form)


@op("trap brkpt", cost=Cost.CONTROL, results=0)
def trap(form: Form) -> Meaning:
    """the launch fails"""

    def function(machine: Batch, mask: Array | None, site: Site) -> Any:
        raise machine.error(site, "the kernel executed a trap", np.ones((1, 1, 1), np.bool_), mask)

    return Meaning(function, [], [], on_machine=True)


@op("call.vprintf", cost=Cost.CALL, results=1)
def vprintf(form: Form) -> Meaning:
    """print: the arguments are a format and a buffer of values, as in C"""
    result, text, values = form.operands

    def function(machine: Batch, mask: Array | None, site: Site, text: Array, values: Array) -> Array:
        reports.print_from_threads(machine, mask, text, values)
        return np.zeros((1, 1, 1), np.int32)

    return Meaning(function, [(result, "i32")], [(text, "i64"), (values, "i64")], on_machine=True)


@op("call.__assertfail", cost=Cost.CALL, results=0)
def assertfail(form: Form) -> Meaning:
    """the launch fails with the assertion's message"""

    def function(machine: Batch, mask: Array | None, site: Site, *arguments: Array) -> None:
        message, file, line, _, _ = arguments
        reports.assertion_failed(machine, mask, site, message, file, line)

    kinds = ("i64", "i64", "i32", "i64", "i64")
    return Meaning(function, [], list(zip(form.operands, kinds, strict=True)), on_machine=True)
