"""Pages of docs/ that are generated: `python -m instrument_passes.documents.NAME > docs/NAME.md`."""
