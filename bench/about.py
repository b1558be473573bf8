"""Where and when figures were taken."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import torch
import triton

import profscope

__all__ = ["about"]


def about(*, dry_run: bool = False) -> dict[str, Any]:
    """Date, device and versions; dry_run: the sizes are small."""
    has_gpu = torch.cuda.is_available()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name() if has_gpu else None,
        "cuda": torch.version.cuda,
        "cores": len(os.sched_getaffinity(0)),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "profscope": profscope.__version__,
        **({"dry_run": "small sizes, wall time: the figures mean nothing"} if dry_run else {}),
    }
