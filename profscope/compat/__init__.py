"""The seam to Triton's and torch's own inside: the only room that touches what they do not document."""
