"""The C header of an exported kernel: what its launcher must know, as constants and two functions."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["c_header"]


def c_header(name: str, document: dict[str, Any]) -> str:
    """The text for what `Description.document` says. name: what all that it defines begins with."""
    name = re.sub(r"\W", "_", name)
    name = f"_{name}" if name[:1].isdigit() else name
    macro, profile, launch = name.upper(), document["profile"], document["launch"]
    parameters = "\n".join(
        f" *   {at}  {each['type']:<8} {each['name']}{_hidden(document, each)}"
        for at, each in enumerate(document["parameters"])
    )
    constants = {
        "ENTRY": f'"{document["entry"]}"',
        "PARAMETERS": len(document["parameters"]),
        "THREADS": launch["threads_per_cta"],
        "SHARED_BYTES": launch["shared_bytes"],
        "CLUSTER": launch["cluster"],
        "COOPERATIVE": int(launch["cooperative"]),
        "PROGRAMMATIC": int(launch["programmatic"]),
        "GLOBAL_SCRATCH_BYTES_PER_CTA": document["global_scratch"]["bytes_per_cta"],
        "PROFILE_ALIGNMENT": profile["alignment"],
        "RING_LOG2": profile["ring_log2"],
    }
    defines = "\n".join(f"#define {macro}_{what} {value}" for what, value in constants.items())
    area = f"UINT64_C({profile['cta_bytes']})"
    if profile["ring_bytes"]:
        area = f"({area} + (UINT64_C({profile['ring_bytes']}) << ring_log2))"
    return f"""\
/* {document["entry"]}, instrumented by profscope {document["profscope"]} for {document["target"]}.
 *
 * Parameters of the kernel, in order:
{parameters}
 *
 * A launch: allocate {name}_profile_bytes() and
 * {macro}_PROFILE_ALIGNMENT bytes more, set all of them to zero, round the address up to a multiple of
 * {macro}_PROFILE_ALIGNMENT, and pass what {name}_profile_pointer() makes of it.
 * When the kernel has ended, copy the bytes back from the rounded address and write them to a file;
 * profscope.decode(file, json) reads it. A null pointer records nothing.
 *
 * stride_log2: one CTA of every 2^stride_log2 records. ring_log2: loops keep their last 2^ring_log2
 * iterations, from {profile["min_ring_log2"]} to {profile["max_ring_log2"]}.
 */
#ifndef PROFSCOPE_{macro}_H
#define PROFSCOPE_{macro}_H

#include <stdint.h>

{defines}

/* ctas: of the grid, those of all clusters. */
static inline uint64_t {name}_profile_bytes(uint64_t ctas, unsigned stride_log2, unsigned ring_log2) {{
    uint64_t areas = (ctas + (UINT64_C(1) << stride_log2) - 1) >> stride_log2;
    (void)ring_log2;
    return {profile["header_bytes"]} + areas * {area};
}}

static inline uint64_t {name}_profile_pointer(uint64_t address, unsigned stride_log2, unsigned ring_log2) {{
    return address | {profile["enable_bits"]} | (uint64_t)stride_log2 << {profile["stride_shift"]}
           | (uint64_t)(ring_log2 - {profile["min_ring_log2"]}) << {profile["ring_shift"]};
}}

#endif
"""


def _hidden(document: dict[str, Any], parameter: dict[str, Any]) -> str:
    if not parameter["hidden"]:
        return ""
    if parameter["name"] == "profile_scratch":
        return ": the profile pointer"
    size = document["global_scratch"]["bytes_per_cta"]
    return (
        f": {size} bytes for each CTA, aligned to {document['global_scratch']['alignment']}"
        if size
        else ": null"
    )
