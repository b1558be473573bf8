"""The model that all views of a profile show, computed once: plain data, which `report()` returns."""
