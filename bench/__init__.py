"""Benchmarks: profscope beside Proton (`python -m bench`), and the emulator beside its peers."""
