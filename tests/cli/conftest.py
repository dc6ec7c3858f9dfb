"""Model folders for the commands."""

import pytest

from tests.tiny import save_folder, whole_words


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def literal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokens are the text between spaces, unchanged."""
    folder = save_folder(tmp_path_factory.mktemp("literal"))
    whole_words().save_pretrained(folder)
    return str(folder)
