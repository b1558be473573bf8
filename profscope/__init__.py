"""profscope: see where each warp's time goes inside a Triton GPU kernel."""
