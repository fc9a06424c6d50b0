"""The engine's errors leave as the seam's, every one of them."""

from __future__ import annotations

import pytest

from dsh_lightrag.engine import EngineError
from dsh_lightrag.server.backend import BackendError
from dsh_lightrag.server.embedded.faults import translated


def below(kind):
    """Return the errors of a tree, without its root."""
    return [one for child in kind.__subclasses__() for one in (child, *below(child))]


@pytest.mark.parametrize("kind", below(EngineError), ids=lambda kind: kind.__name__)
def test_each_error_of_the_engine_has_one_of_the_seam_with_the_same_words(kind):
    with pytest.raises(BackendError, match="What is wrong") as told, translated():
        raise kind("What is wrong.", "What to do.")
    assert told.value.mend == "What to do."
