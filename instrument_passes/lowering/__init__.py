"""How `lower-records` works inside: what is being built (`builder`) and where it goes (`weave`)."""
