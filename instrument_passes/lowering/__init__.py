"""Parts of `lower-records`: the ops to build (`builder`) and their places (`weave`)."""
