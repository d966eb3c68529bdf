"""Test scores for other tools, as JSON in the schema of Every Eval Ever.

Runs that differ only in their seed are one model; its score is the mean of theirs.
"""

import json
import math
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from pydantic import (
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
)

from adanorm.config.sections import Config, seed_series
from adanorm.config.titles import METRICS, title
from adanorm.config.values import digest_of, read_yaml_file
from adanorm.files import Values, as_json, write_files
from adanorm.records.environment import code_text
from adanorm.records.reader import Record, Runs
from adanorm.records.result import Result
from adanorm.stats.comparison import student_interval

SCHEMA = read_yaml_file(Path(__file__).with_name("schema.yaml"))
KINDS: Values = {
    "text": StrictStr,
    "texts": dict[str, StrictStr],
    "truth": StrictBool,
    "number": StrictFloat,
    "whole": StrictInt,
    "bound": StrictFloat | Literal["Infinity", "-Infinity"],
}


def schema_type(kind: Any) -> Any:
    """Return the type that an entry of schema.yaml describes.

    An object becomes a pydantic model.
    """
    if isinstance(kind, str):
        return KINDS[kind]
    if isinstance(kind, list):
        return Literal[tuple(kind)]
    if "each" in kind:
        return list[schema_type(kind["each"])]  # type: ignore[misc]
    fields = {
        key.rstrip("?"): (
            schema_type(part),
            None if "?" in key else ...,
        )
        for key, part in kind.items()
    }
    return create_model("Object", __base__=Config, **fields)  # type: ignore[call-overload]


def export(
    runs: Runs,
    into: Path,
    addresses: Callable[[str], Sequence[str]],
) -> list[Path]:
    """Write the test scores of runs into a folder, one file per model, and return the files.

    `addresses` returns those of a data source's files. Raises ValueError before anything is
    written: if no run above scale smoke but a dry run has a score, if a model's values do not
    fit the schema, and if the folder has the model already.
    """
    schema = schema_type(SCHEMA)
    files = {}
    for model, seed_runs in _by_model(runs).items():
        record, first = seed_runs[0]
        if any(result.test for _, result in seed_runs):
            urls = addresses(record.identity["data"]["source"])
            values = _evaluations(
                model,
                seed_runs,
                urls,
            )
            schema.checked(values, f"{model}: ")
            files[f"data/{first.task}/{model}/{uuid.uuid4()}.json"] = as_json(values)
    if not files:
        raise ValueError(
            "nothing to export: no run there is completed, above scale smoke, and no dry run"
        )
    for file in files:
        folder = (into / file).parent
        if any(folder.glob("*.json")):
            raise ValueError(f"{folder}: already exists; name another folder with output=")
    try:
        return write_files(into, files)
    except OSError:  # such as a full disk: the next try finds no part of this one
        for file in files:
            (into / file).unlink(missing_ok=True)
        raise


def _by_model(runs: Runs) -> dict[str, Runs]:
    """Return the completed runs above scale smoke by model, one per seed, without dry runs."""
    models: dict[str, dict[int, tuple[Record, Result]]] = {}
    for record, result in runs:
        is_dry = result.dry_run is not None
        if result.is_complete and result.scale != "smoke" and not is_dry:
            shared = {
                **record.identity,
                "seed": seed_series(result.seed),
                "files": result.data,
            }
            name = f"{result.task}-{result.norm}-{result.scale}-{digest_of(shared)}"
            by_seed = models.setdefault(f"adanorm-suite/{name}", {})
            by_seed.setdefault(result.seed, (record, result))
    return {model: list(by_seed.values()) for model, by_seed in models.items()}


def _evaluations(model: str, runs: Runs, urls: Sequence[str]) -> Values:
    """Return the scores of a model in the schema of Every Eval Ever."""
    record, first = runs[0]
    now = str(time.time())
    packages = record.environment.get("packages", {})
    source = {
        "dataset_name": record.identity["data"]["source"],
        "additional_details": {file: f"sha256:{sha}" for file, sha in first.data.items()},
        "source_type": "other",
    }
    if urls:
        source |= {"source_type": "url", "url": list(urls)}
    tests = [result.test for _, result in runs if result.test]
    shared = set.intersection(*map(set, tests))  # older runs lack some metrics
    evaluations = []
    for metric in tests[0]:
        if metric in shared and METRICS[metric].higher_is_better is not None:
            about = {"evaluation_name": first.task, "source_data": source}
            evaluations.append(about | _score(runs, metric))
    return {
        "schema_version": "0.3.0",
        "evaluation_id": f"{first.task}/{model}/{now}",
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "The authors of the AdaNorm reproduction suite",
            "evaluator_relationship": "first_party",  # the model's trainer evaluated it
        },
        "eval_library": {
            "name": "adanorm",
            "version": packages.get("adanorm") or "unknown",
        },
        "model_info": {
            "name": f"{title(first.norm)} on {title(first.task)}, scale {first.scale}",
            "id": model,
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": evaluations,
    }


def _score(runs: Runs, name: str) -> Values:
    """Return a test score: metric, mean, uncertainty over several seeds, and origin."""
    metric = METRICS[name]
    done = [result for _, result in runs if result.test]
    scores = [result.test_score(name) for result in done]
    mean = fmean(scores)
    count = len(scores)
    commits = {code_text(record.environment) for record, _ in runs}
    details = {
        "n": count,
        "seeds": [result.seed for result in done],
        "scores": scores,
        "diverged": len(runs) - count,
        "signature": (done[0].signatures or {}).get(name),
        "runs": [f"{result.task}/{result.norm}/{record.folder.name}" for record, result in runs],
        "commits": sorted(commits),
        "computed_by": sorted({str(record.arithmetic) for record, _ in runs}),
    }
    score: Values = {
        "score": min(mean, metric.largest),  # sacrebleu's perfect score is slightly larger
        "details": {key: json.dumps(value) for key, value in details.items()},
    }
    if count > 1:
        deviation = stdev(scores)
        error = deviation / math.sqrt(count)
        low, high = student_interval(
            score["score"],
            error,
            count - 1,
        )
        score["uncertainty"] = {
            "standard_error": {
                "value": error,
                "method": "standard deviation over seeds / sqrt(n)",
            },
            "confidence_interval": {
                "lower": low,
                "upper": high,
                "confidence_level": 0.95,
                "method": "Student's t over seeds",
            },
            "standard_deviation": deviation,
            "num_samples": count,
        }
    config = {
        "metric_id": name,
        "metric_name": metric.label,
        "lower_is_better": metric.sign < 0,
        "score_type": "continuous",
        "min_score": 0.0,
        "max_score": "Infinity" if math.isinf(metric.largest) else metric.largest,
    }
    if metric.unit == "%":
        config["metric_unit"] = "percent"
    return {"metric_config": config, "score_details": score}
