"""A figure of a CTA for papers, READMEs and notebooks. matplotlib is imported when the first is drawn."""
