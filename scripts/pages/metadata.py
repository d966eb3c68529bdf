"""Descriptions for other tools: a Croissant file for each data source, an RO-Crate of the results."""

import json
import mimetypes
from pathlib import Path
from typing import Any

from adanorm.data.catalogue import SOURCES, File, Source

PAPER, TITLE = "https://arxiv.org/abs/1911.07013", "Understanding and Improving Layer Normalization"
PUBLISHED = "2026-11-22"  # version 0.1.0
CROISSANT = "http://mlcommons.org/croissant/"
# The context that the specification of Croissant 1.1 requires.
CONTEXT: dict[str, Any] = json.loads(
    Path(__file__).with_name("croissant-context.json").read_text("utf-8")
)
TYPES = {".gz": "application/gzip", ".tgz": "application/gzip", ".zip": "application/zip"}
# The parts of the results, with their descriptions.
PARTS = {
    "runs/": "One line per run: configuration, environment, curves, result; and the outputs on the test set.",
    "analyses/": "Records of what a norm does as runs train, or on its own.",
    "tables/": "Tables of every study and of the claims, written from the records.",
    "figures/": "Figures, written from the records.",
    "bench/": "What norms and models cost, as ratios within a run.",
    "metadata/": "Croissant descriptions of the data sources.",
    "report/index.html": "The report: every number with the runs behind it.",
    "REPORT.md": "The report in the shape of a reproducibility report.",
    "published.csv": "The numbers of the paper, with their source.",
    "baselines.json": "Scores of what needs no training.",
}


def croissants() -> dict[str, dict[str, Any]]:
    """Return the Croissant description of every data source that has an address, by the source's name."""
    firsts = {
        name: [(*file.addresses, "")[0] for file in source.files]
        for name, source in SOURCES.items()
    }
    names = [
        name for name, addresses in firsts.items() if all("://" in address for address in addresses)
    ]
    return {name: croissant(name, SOURCES[name]) for name in names}


def croissant(name: str, source: Source) -> dict[str, Any]:
    """Return the Croissant 1.1 description of a data source: files with sizes, checksums and addresses.

    If a file has no published SHA-256 or MD5, the data set is called live: live ones need no
    checksums.
    """
    files = [_file_object(file) for file in source.files]
    unchecked = any("sha256" not in entry and "md5" not in entry for entry in files)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": f"{CROISSANT}1.1",
        "name": name,
        "description": f"The files of {name} that experiments read, as they are downloaded and verified.",
        "license": source.license,
        "url": source.files[0].addresses[0].partition("#")[0],
        "citeAs": f"see the license: {source.license}",
        "version": "1.0.0",
        "datePublished": "2019-12-08",  # the date of the paper that used them
        **({"isLiveDataset": True} if unchecked else {}),
        "distribution": files,
    }


def _file_object(file: File) -> dict[str, Any]:
    kind, _, checksum = (file.checksum or "").partition(":")
    suffix = next((ending for ending in TYPES if file.name.endswith(ending)), "")
    entry: dict[str, Any] = {"@type": "cr:FileObject", "@id": file.name, "name": file.name}
    entry["contentUrl"] = file.addresses[0].partition("#")[0]
    entry["encodingFormat"] = (
        TYPES.get(suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    )
    if file.size is not None:
        entry["contentSize"] = f"{file.size} B"
    if kind in ("sha256", "md5"):
        entry[kind] = checksum
    return entry


def ro_crate(results: Path) -> dict[str, Any]:
    """Return the RO-Crate 1.1 description of a folder of results, with the parts that it has."""
    parts = [part for part in PARTS if (results / part).exists()]
    mit, authors = "https://spdx.org/licenses/MIT", "#authors"
    crate: dict[str, Any] = {"@id": "ro-crate-metadata.json", "@type": "CreativeWork"}
    crate |= {"conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}, "about": {"@id": "./"}}
    whole = {
        "@id": "./",
        "@type": "Dataset",
        "name": "AdaNorm, reproduced: records, tables and figures",
        "description": f"Runs that reproduce '{TITLE}' (Xu et al., NeurIPS 2019), and what is"
        " written from them.",
        "datePublished": PUBLISHED,
        "author": {"@id": authors},
        "publisher": {"@id": authors},
        "license": {"@id": mit},
        "isBasedOn": {"@id": PAPER},
        "hasPart": [{"@id": part} for part in parts],
    }
    others = [
        {"@id": mit, "@type": "CreativeWork", "name": "MIT License"},
        {
            "@id": authors,
            "@type": "Organization",
            "name": "The authors of the AdaNorm reproduction suite",
        },
        {"@id": PAPER, "@type": "ScholarlyArticle", "name": TITLE},
    ]
    graph = [crate, whole, *others, *map(_part, parts)]
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}


def _part(path: str) -> dict[str, Any]:
    kind = "Dataset" if path.endswith("/") else "File"
    part = {"@id": path, "@type": kind, "name": path.rstrip("/"), "description": PARTS[path]}
    return part | ({"encodingFormat": mimetypes.guess_type(path)[0]} if kind == "File" else {})
