from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Without the type checks of a test run, which would speak before the library does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
