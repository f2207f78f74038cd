"""The reference federated-learning loop: data sets, models, training, reports.

Needs the extra ``fl`` (torch, scikit-learn, matplotlib, rich).
"""

from __future__ import annotations

from docofl_codec.fl.config import RunConfig, parse_codecs, read_config
from docofl_codec.fl.runner import Runner, RunResult, run

__all__ = ["RunConfig", "RunResult", "Runner", "parse_codecs", "read_config", "run"]
