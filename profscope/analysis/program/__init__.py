"""Questions about the program around the kernels: `prof.program.host_scopes()`."""
