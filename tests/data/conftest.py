from collections.abc import Iterator

import pytest

from adanorm.data import download
from adanorm.data.download import Patience
from tests.servers import Server, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with scripted answers, and downloads that lose patience with it quickly."""
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    monkeypatch.setattr(
        download,
        "PATIENCE",
        Patience(
            attempts=3,
            backoff=0.001,
            connect=10.0,
            read=10.0,
        ),
    )
    with serving() as running:
        yield running
