"""What passes ask of a module before they change it."""

import instrument_passes.passes  # noqa: F401  until walk has left passes
