"""The figures of the DoCoFL paper that compare compressors, from one command.

``docofl figures`` (or ``python -m docofl_codec.figures``) measures, and writes a CSV and a PNG for
each figure. It needs matplotlib, and torch for the weights of real networks:
``pip install "docofl_codec[figures]"``.

================  ==================================================================================
``gradient``      ECUQ against gradient compressors on CNN weights, LSTM weights and lognormal
                  vectors (section "Anchor Compression")
``dimension``     ECUQ, ECQ and ECK-Means over the dimension, at 2 bits (appendix on ECUQ)
``budget``        the same over the budget, for 4,096 coordinates
``sparsification``  ECUQ against Rand-K, Top-K and Count-Sketch (appendix "Additional Evaluations")
================  ==================================================================================
"""

from __future__ import annotations

from docofl_codec.figures.claims import Claim, check_claims
from docofl_codec.figures.command import add_arguments, main
from docofl_codec.figures.experiments import FIGURES, Settings, measure_figure
from docofl_codec.figures.rows import Row, read_csv, write_csv

__all__ = [
    "FIGURES",
    "Claim",
    "Row",
    "Settings",
    "add_arguments",
    "check_claims",
    "main",
    "measure_figure",
    "read_csv",
    "write_csv",
]
