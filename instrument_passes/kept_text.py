"""Long texts as a profile's metadata keep them: short, and of letters that every format has.

unpacked(packed("module { ... }")) == "module { ... }"
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

from profscope.instrument_passes.errors import IRError

__all__ = ["packed", "unpacked"]

_MOST_BYTES: Final = 64 << 20  # of a text: a file that says more has been made to fill the memory


def packed(text: str) -> str:
    """The text in base 64 of zlib's format: a tenth of PTX, a seventh of TTGIR."""
    return base64.b64encode(zlib.compress(text.encode(errors="surrogatepass"))).decode()


def unpacked(text: str) -> str:
    """The text that `packed` was given. Raises IRError for anything else, and beyond 64 MiB."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        if not inflater.eof:
            raise IRError("a kept text is cut off, or longer than 64 MiB")
        return data.decode(errors="surrogatepass")
    except (binascii.Error, zlib.error, ValueError) as error:
        raise IRError(f"a kept text cannot be read: {error}") from error
