"""Simulate trials on scores of the record, and count how often each answer is given.

`python -m scripts.benchmarks.trials` writes results/bench/trials.csv. The gaps of RT and MNIST are
those of LayerNorm and LayerNorm-simple on record with one seed, less their mean, drawn with
replacement. On the other beds they are normal, with a deviation of one margin.
"""

import csv
import io

import numpy as np

from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.stats.comparison import Answer
from adanorm.stats.sequential import Numbers
from adanorm.trials.power import BedNoise, share_better, simulated_answer
from adanorm.trials.rules import Bed, load_rules
from adanorm.verdicts.cell import cell_on_record

TRIALS = 200
PAIR = ("layernorm", "layernorm-simple")
FIRST_SEED = 41  # of the later plans
ANSWERS: tuple[Answer, ...] = ("better", "worse", "equivalent", "open")


def gaps_on_record(bed: Bed) -> Numbers | None:
    """Return the centred gaps of PAIR in margins, one per seed; None with fewer than ten."""
    sides = []
    for norm in PAIR:
        run = bed.experiment(norm, "adam").model_copy(update={"seed": FIRST_SEED})
        sides.append(cell_on_record(run, bed.quantity).by_seed)
    seeds = sorted({*sides[0]} & {*sides[1]})
    if len(seeds) < 10:
        return None
    gaps = np.array([sides[0][seed] - sides[1][seed] for seed in seeds])
    return (gaps - gaps.mean()) / bed.margin


def main() -> None:
    """Write the shares of answers by true lead and number of beds."""
    rules = load_rules()
    beds = [*rules.beds.values()]
    samples = [gaps_on_record(bed) for bed in beds]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["true lead in margins", "beds", "trials", *ANSWERS, "better as promised"])
    random = np.random.default_rng(0)
    most = rules.looks[-1]
    for count in range(1, len(beds) + 1):
        noise = []
        for sample in samples[:count]:
            noise.append(BedNoise(1.0 if sample is None else float(sample.std(ddof=1)), 0.0))
        for lead in (0.0, 0.5, 1.0):
            answers = []
            for _ in range(TRIALS):
                gaps = []
                for sample in samples[:count]:
                    normal = random.standard_normal(most)
                    gaps.append(normal if sample is None else random.choice(sample, most))
                answers.append(simulated_answer(rules, noise, lead + np.array(gaps), 3))
            shares = [answers.count(answer) / TRIALS for answer in ANSWERS]
            promised = share_better(rules, noise, lead, len(rules.looks))
            writer.writerow([lead, count, TRIALS, *shares, f"{promised:.2f}"])
    write_whole(PROJECT / "results" / "bench" / "trials.csv", table.getvalue().encode())


if __name__ == "__main__":
    main()
