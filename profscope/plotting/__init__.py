"""Figures of a profile for papers, READMEs and notebooks. matplotlib is imported when the first is drawn."""
