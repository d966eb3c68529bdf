"""Make the comparisons by test examples that claims lack: `python -m scripts.comparisons`.

Verdicts allow for the noise of test examples where two norms have been compared on them. A comparison that a
new seed has left behind is made again, which needs the task's data.
"""

from adanorm.config.paths import choices
from adanorm.verdicts.by_example import bring_up_to_date, claimed_pairs
from adanorm.verdicts.claims import SCALES
from scripts.command_line import ended_by_mistakes

CELLS = [(task, scale) for task in choices("task") for scale in SCALES]

if __name__ == "__main__":
    with ended_by_mistakes():
        for task, scale in CELLS:
            for one in bring_up_to_date(task, scale, claimed_pairs(task)):
                worse, better = one.record.norms
                print(f"{task} {scale}: {better} over {worse}, {len(one.gaps)} seeds")
