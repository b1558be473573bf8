"""What `profscope view --report` prints: the answers to all questions, for programs."""

import json
import sys

from profscope.analysis.report import report
from profscope.profiles import Profile

__all__ = ["show_report"]


def show_report(profile: Profile, whole: Profile) -> None:
    """Print the report as JSON. whole: the launches that `profile` is a part of, of which the verdict is."""
    json.dump(report(profile.tables, whole.tables), sys.stdout, indent=1)
    sys.stdout.write("\n")
