"""A logger that cannot be used is refused in one line, before a run."""

import pytest

from adanorm.config.sections import LoggerConfig
from adanorm.records.loggers import check


@pytest.mark.needs("wandb")
@pytest.mark.parametrize("project", ["a/b", "why?", "x" * 129])
def test_a_projects_name_that_wandb_refuses_is_refused_before_a_run(project: str) -> None:
    with pytest.raises(ValueError, match=r"logger\.project=\S+: wandb takes at most 128") as caught:
        check(LoggerConfig(name="wandb", project=project))
    assert "\n" not in str(caught.value)


@pytest.mark.needs("wandb")
def test_wandb_online_without_its_server_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", 4 * "0123456789")
    monkeypatch.setattr("adanorm.records.loggers.SECONDS_TO_ANSWER", 1)
    with pytest.raises(
        ValueError, match=r"wandb cannot be used .*upload with `wandb sync`"
    ) as caught:
        check(LoggerConfig(name="wandb", mode="online"))
    assert "\n" not in str(caught.value)
