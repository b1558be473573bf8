"""What holds a kernel back: one file a cause, each with `causes(judged)`. A file in here is found."""
