"""The version of profscope, which is also that of its other packages."""

from profscope.instrument_passes import __version__ as __version__
