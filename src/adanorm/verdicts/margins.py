"""The smallest differences that matter by a study's rule: its own, else those of the plan."""

from __future__ import annotations

from itertools import chain, product

from adanorm.config.titles import quantity_title
from adanorm.studies.rule import Compares, Rule
from adanorm.studies.study import Study, load_study
from adanorm.verdicts.preregistration import preregistration


def check_margins(study: Study) -> None:
    """Raise ValueError where the study's rule lacks a margin of what it compares."""
    if (rule := study.rule) is None:
        return
    tasks = [study.columns, *(load_study(name).columns for name in rule.with_columns_of)]
    for task, family in product(chain.from_iterable(tasks), rule.families):
        rule_margin(rule, task, rule.quantity_of(family))


def rule_margin(rule: Rule, task: str, quantity: Compares) -> float:
    """Return the smallest difference that matters by a rule; raises ValueError where there is none."""
    own = rule.margins.get(task)
    found = preregistration().margin(task, quantity) if own is None else own.of(quantity)
    if found is None:
        raise ValueError(
            f"the study's rule: {task} has no margin of the {quantity_title(quantity)}: write it in `margins`"
        )
    return found
