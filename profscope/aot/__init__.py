"""How is a kernel launched by a program without Python, and how are its records read?"""

__all__: list[str] = []
