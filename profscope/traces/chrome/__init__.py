"""Chrome traces, in JSON."""
