"""Real Triton kernels, one family a file: what the parsers, passes and the emulator are tested on."""
