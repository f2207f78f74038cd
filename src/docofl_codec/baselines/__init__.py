"""Every compressor that the DoCoFL paper compares ECUQ with, behind the one `Codec` protocol.

================  =======================================================================
`HadamardSQ`      random rotation, then stochastic quantization (Suresh et al., 2017)
`KashinSQ`        Kashin's representation, then the same (Lyubarskii and Vershynin, 2010)
`QSGD`            multiples of a step at random, Elias gamma coding (Alistarh et al., 2017)
`RandK`, `TopK`   some of the coordinates (Alistarh et al., 2018)
`CountSketch`     sums of hashed coordinates (Charikar et al., 2002)
`ECQ`             entropy-constrained quantization (Chou, Lookabaugh and Gray, 1989)
`ECKMeans`        k-means levels under a budget (the paper's appendix on ECUQ)
================  =======================================================================

Frames hold real bytes that :func:`docofl_codec.decode` reads; docs/format.md, section 9, specifies
them and docs/guides/choosing-a-codec.md weighs one against the other.
"""

from __future__ import annotations

from docofl_codec.baselines.countsketch import CountSketch
from docofl_codec.baselines.eckmeans import ECKMeans
from docofl_codec.baselines.ecq import ECQ
from docofl_codec.baselines.hadamard import HadamardSQ
from docofl_codec.baselines.kashin import KashinSQ
from docofl_codec.baselines.qsgd import QSGD
from docofl_codec.baselines.sparsification import RandK, TopK

__all__ = [
    "ECQ",
    "QSGD",
    "CountSketch",
    "ECKMeans",
    "HadamardSQ",
    "KashinSQ",
    "RandK",
    "TopK",
]
