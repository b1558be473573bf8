"""PTX text to plain data; nothing here knows what an instruction means."""

__all__: list[str] = []
