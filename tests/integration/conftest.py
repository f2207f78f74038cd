"""What all tests of integrations share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep Flower's log, which repeats every option and round, out of the report."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel("WARNING")
    yield
    logger.setLevel(before)
