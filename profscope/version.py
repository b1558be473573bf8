"""The version of profscope, which is also that of its other packages."""

from instrument_passes import __version__ as __version__
