"""The version of profscope and of its other packages."""

from profscope.instrument_passes import __version__ as __version__
