"""The passes: what lies in this folder is known by the name of its class."""

from instrument_passes.passes.base import Pass, PassContext, passes, register, signature, spelled, summary

__all__ = ["Pass", "PassContext", "passes", "register", "signature", "spelled", "summary"]
