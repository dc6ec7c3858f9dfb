import pytest

from thalweg.methods import registry


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the registry, so that a test can register methods."""
    monkeypatch.setattr(registry, "_methods", dict(registry.list_methods()))
