"""Benchmarks of docofl_codec: yardsticks, speed targets and the comparison with other codecs."""
