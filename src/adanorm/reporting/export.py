"""Test scores for other tools, as JSON in the schema of Every Eval Ever.

Runs that differ only in their seed are one model; its score is the mean of theirs.
"""

import json
import math
import time
import uuid
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr, create_model

from adanorm.config.sections import Config
from adanorm.config.titles import title
from adanorm.config.yaml_file import read_yaml_file
from adanorm.data.catalogue import SOURCES
from adanorm.files import as_json, digest_of, write_files
from adanorm.metrics.table import METRICS
from adanorm.records.reader import Record, Runs, seed_series
from adanorm.records.result import Result
from adanorm.stats.comparison import student_interval

SCHEMA = read_yaml_file(Path(__file__).with_name("schema.yaml"))
KINDS: dict[str, Any] = {
    "text": StrictStr, "texts": dict[str, StrictStr], "truth": StrictBool,
    "number": StrictFloat, "whole": StrictInt, "bound": StrictFloat | Literal["Infinity", "-Infinity"],
}  # fmt: skip


def schema_type(kind: Any) -> Any:
    """Return the type that an entry of schema.yaml describes; an object becomes a pydantic model."""
    if isinstance(kind, str):
        return KINDS[kind]
    if isinstance(kind, list):
        return Literal[tuple(kind)]
    if "each" in kind:
        return list[schema_type(kind["each"])]  # type: ignore[misc]
    fields = {
        key.rstrip("?"): (schema_type(part), None if "?" in key else ...)
        for key, part in kind.items()
    }
    return create_model("Object", __base__=Config, **fields)  # type: ignore[call-overload]


def export(runs: Runs, into: Path) -> list[Path]:
    """Write the test scores of runs into a folder, one file per model, and return the files.

    Raises ValueError before anything is written: if no run above scale smoke has a score, if a
    model's values do not fit the schema, and if the folder has the model already.
    """
    # By model and seed: a run may be named twice.
    models: dict[str, dict[int, tuple[Record, Result]]] = {}
    for record, result in runs:
        if result.is_complete and result.scale != "smoke":
            shared = {**record.identity, "seed": seed_series(result.seed), "files": result.data}
            name = f"{result.task}-{result.norm}-{result.scale}-{digest_of(shared)}"
            models.setdefault(f"adanorm-suite/{name}", {}).setdefault(result.seed, (record, result))
    schema = schema_type(SCHEMA)
    files: dict[str, bytes] = {}
    for model, by_seed in models.items():
        seed_runs = [*by_seed.values()]
        first = seed_runs[0][1]
        if any(result.test for _, result in seed_runs):
            values = _evaluations(model, seed_runs)
            schema.checked(values, f"{model}: ")
            files[f"data/{first.task}/{model}/{uuid.uuid4()}.json"] = as_json(values)
    if not files:
        raise ValueError("nothing to export: only completed runs count, and none of scale smoke")
    folders = ((into / file).parent for file in files)
    if existing := next((folder for folder in folders if folder.exists()), None):
        raise ValueError(f"{existing}: already exists; name another folder with output=")
    return write_files(into, files)


def _evaluations(model: str, runs: Runs) -> dict[str, Any]:
    """Return the scores of a model in the schema of Every Eval Ever."""
    (record, first), now = runs[0], str(time.time())
    name, packages = record.identity["data"]["source"], record.environment.get("packages", {})
    files = SOURCES[name].files if name in SOURCES else ()
    urls = [address for file in files for address in file.addresses[:1] if "://" in address]
    checksums = {file: f"sha256:{checksum}" for file, checksum in first.data.items()}
    source = {"dataset_name": name, "additional_details": checksums}
    source |= {"source_type": "url", "url": urls} if urls else {"source_type": "other"}
    about = {"evaluation_name": first.task, "source_data": source}
    tests = [result.test for _, result in runs if result.test]
    shared = [
        metric for metric in tests[0] if all(metric in test for test in tests)
    ]  # older ones lack some
    directed = [metric for metric in shared if METRICS[metric].higher_is_better is not None]
    return {
        "schema_version": "0.3.0",
        "evaluation_id": f"{first.task}/{model}/{now}",
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "The authors of the AdaNorm reproduction suite",
            "evaluator_relationship": "first_party",  # the model's trainer evaluated it
        },
        "eval_library": {"name": "adanorm", "version": packages.get("adanorm", "unknown")},
        "model_info": {
            "name": f"{title(first.norm)} on {title(first.task)}, scale {first.scale}",
            "id": model,
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": [about | _score(runs, metric) for metric in directed],
    }


def _score(runs: Runs, name: str) -> dict[str, Any]:
    """Return a test score: metric, mean, uncertainty over seeds (if there are several), and origin."""
    metric, done = METRICS[name], [result for _, result in runs if result.test]
    scores = [result.test_score(name) for result in done]
    mean, n = (
        min(fmean(scores), metric.largest),
        len(scores),
    )  # sacrebleu's perfect score is slightly larger
    commits = {
        (record.environment.get("commit"), record.environment.get("dirty")) for record, _ in runs
    }
    details = {
        "n": n,
        "seeds": [result.seed for result in done],
        "scores": scores,
        "diverged": len(runs) - n,
        "signature": (done[0].signatures or {}).get(name),
        "runs": [f"{result.task}/{result.norm}/{record.folder.name}" for record, result in runs],
        "commits": sorted(
            f"{commit}{' and changes' if dirty else ''}" for commit, dirty in commits
        ),
        "computed_by": sorted({str(record.arithmetic) for record, _ in runs}),
    }
    score: dict[str, Any] = {
        "score": mean,
        "details": {key: json.dumps(details[key]) for key in details},
    }
    if n > 1:
        error = (deviation := stdev(scores)) / math.sqrt(n)
        low, high = student_interval(mean, error, n - 1)
        interval = {"lower": low, "upper": high, "confidence_level": 0.95}
        score["uncertainty"] = {
            "standard_error": {"value": error, "method": "standard deviation over seeds / sqrt(n)"},
            "confidence_interval": {**interval, "method": "Student's t over seeds"},
            "standard_deviation": deviation,
            "num_samples": n,
        }
    config = {"metric_id": name, "metric_name": metric.label, "lower_is_better": metric.sign < 0}
    config |= {"metric_unit": "percent"} if metric.unit == "%" else {}
    most = "Infinity" if math.isinf(metric.largest) else metric.largest
    config |= {"score_type": "continuous", "min_score": 0.0, "max_score": most}
    return {"metric_config": config, "score_details": score}
