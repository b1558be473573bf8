"""A kernel's configurations, numbered: with BLOCK=256 and with BLOCK=1024 it is two programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from profscope.decoding.build import Build
from profscope.instrument_passes.contractions import unlike_text
from profscope.instrument_passes.kept_text import packed
from profscope.instrument_passes.manifest import Manifest

__all__ = [
    "Configured",
    "about_code",
    "about_sources",
    "about_variants",
    "fused_otherwise",
    "number_variants",
    "rounding_notes",
]


class Configured(Protocol):
    """A launch, or many of one program."""

    @property
    def manifest(self) -> Manifest: ...

    @property
    def build(self) -> Build | None: ...


def number_variants(launches: Sequence[Configured]) -> list[int]:
    """For each launch its variant: 0 for the configuration that its kernel was first launched with, and so
    on. Launches whose configuration is not known share one."""
    numbers: dict[str, dict[str, int]] = {}  # kernel -> key -> number
    variants = []
    for launch in launches:
        of_kernel = numbers.setdefault(launch.manifest.kernel, {})
        variants.append(of_kernel.setdefault(_key(launch), len(of_kernel)))
    return variants


def about_variants(
    launches: Sequence[Configured], variants: Sequence[int], bare: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Entry "variants" of the metadata: by kernel, a list in which each variant stands at its number.

    variant, key (the same in every session; "" if the configuration is unknown), the fields of
    `Build.configuration`, `model` if torch.compile names the kernel's origin, and `builds`: resources of each
    binary, "bare" or "instrumented". Instrumented ones also have `rounds_as_bare`: whether they round as the
    bare binary does, None if that is unknown or payloads add arithmetic; if they do not, `fused_otherwise`:
    the places of the sums that differ; and `twin` if CTAs that do not record run a body of their own, which
    is among its instructions. bare: by key, resources of bare binaries, and `fused_otherwise` in the recorded
    one, if known.
    """
    about: dict[str, list[dict[str, Any]]] = {}
    builds: dict[tuple[str, int], dict[int, tuple[Manifest, Build]]] = {}
    for launch, variant in zip(launches, variants, strict=True):
        of_kernel = about.setdefault(launch.manifest.kernel, [])
        if variant == len(of_kernel):
            configuration = {} if launch.build is None else launch.build.configuration
            of_kernel.append({"variant": variant, "key": _key(launch), **configuration, "builds": []})
        if launch.build is not None:
            of_variant = builds.setdefault((launch.manifest.kernel, variant), {})
            of_variant[id(launch.build)] = launch.manifest, launch.build
    for (kernel, variant), of_variant in builds.items():
        entry = about[kernel][variant]
        if model := _model([build for _, build in of_variant.values()]):
            entry["model"] = model
        resources: list[dict[str, Any]] = []
        known = dict(bare.get(entry["key"], {}))
        places = known.pop("fused_otherwise", None)
        if known:
            resources.append({"build": "bare", **known})
        for manifest, build in of_variant.values():
            resource = {"build": "instrumented", **build.resources(), **_rounding(manifest, places)}
            resource |= {"twin": True} if manifest.twin else {}
            if resource not in resources:
                resources.append(resource)
        entry["builds"] = resources
    return about


def _rounding(manifest: Manifest, places: Sequence[str] | None) -> dict[str, Any]:
    """places: of sums that differ from the bare binary's, None if not known."""
    if places is None or _adds_arithmetic(manifest):
        return {"rounds_as_bare": None}
    return {"rounds_as_bare": not places} | ({"fused_otherwise": [*places]} if places else {})


def _adds_arithmetic(manifest: Manifest) -> bool:
    """Whether passes may have put arithmetic on floats into the kernel, for payloads."""
    columns = (
        column for section in manifest.sections for frame in section.frames for column in frame.columns
    )
    return any(column.kind == "f32" for column in columns)


def rounding_notes(about: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """The kernels whose results may not be the bare ones', from `about_variants`."""
    places = {
        kernel: fused_otherwise(build for variant in variants for build in variant["builds"])
        for kernel, variants in sorted(about.items())
    }
    return [
        f"{kernel}: results may round differently than without a session: {unlike_text(of_kernel)}"
        for kernel, of_kernel in places.items()
        if of_kernel
    ]


def fused_otherwise(builds: Iterable[Mapping[str, Any]]) -> list[str]:
    """The places of sums that binaries with records round differently than the bare ones."""
    return list(dict.fromkeys(place for build in builds for place in build.get("fused_otherwise") or ()))


def about_sources(launches: Sequence[Configured]) -> list[dict[str, Any]]:
    """Entry "sources" of the metadata: the texts of kernels and of the functions they call (`SourceText`)."""
    builds = {id(launch.build): launch.build for launch in launches if launch.build is not None}
    texts = dict.fromkeys(text for build in builds.values() for text in build.sources)
    return [text.described() for text in texts]


def about_code(launches: Sequence[Configured]) -> list[dict[str, str]]:
    """Entry "code" of the metadata: the compiled code of each kernel that recorded.

    kernel, key (of the configuration), and `ttgir` and `ptx`, as `instrument_passes.kept_text` packs them. If
    builds have equal kernel and key, the last one counts.
    """
    entries: dict[tuple[str, str], dict[str, str]] = {}
    for build, manifest in {
        id(launch.build): (launch.build, launch.manifest) for launch in launches if launch.build is not None
    }.values():
        if build.ttgir:
            about = {"kernel": manifest.kernel, "key": build.key}
            entries[manifest.kernel, build.key] = about | {
                "ttgir": packed(build.ttgir), "ptx": packed(build.ptx),
            }  # fmt: skip
    return list(entries.values())


def _model(builds: Sequence[Build]) -> dict[str, Any]:
    """What torch.compile made a variant of. Kernels of several graphs may share a name and configuration:
    then no one line is theirs."""
    models = [build.model for build in builds if build.model]
    distinct = [model for at, model in enumerate(models) if model not in models[:at]]
    if len(distinct) < 2:
        return distinct[0] if distinct else {}
    modules = dict.fromkeys(model["module"] for model in distinct if model["module"])
    return {
        "module": ", ".join(modules),
        "model_file": "",
        "model_line": 0,
        "ops": list(dict.fromkeys(op for model in distinct for op in model["ops"])),
        "places": [place for model in distinct for place in model["places"]],
    }


def _key(launch: Configured) -> str:
    return "" if launch.build is None else launch.build.key
