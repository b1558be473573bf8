"""The traces of a job: a folder with the part of each rank, and how parts become one profile."""
