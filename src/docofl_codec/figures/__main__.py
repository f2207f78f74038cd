"""``python -m docofl_codec.figures``."""

from __future__ import annotations

import argparse
import sys

from docofl_codec.figures.command import add_arguments, main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="docofl figures", description=main.__doc__)
    add_arguments(parser)
    sys.exit(main(parser.parse_args()))
