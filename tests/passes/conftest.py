from __future__ import annotations

from pathlib import Path

import pytest
import triton


@pytest.fixture(scope="session")
def file_check() -> Path:
    """The FileCheck that Triton's wheel ships."""
    found = Path(triton.__file__).parent / "FileCheck"
    assert found.exists(), f"no {found}"
    return found
