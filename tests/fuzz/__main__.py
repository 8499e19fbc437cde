"""``python -m tests.fuzz``: fuzzes all targets for a time, or repeats one case."""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.fuzz.running import fuzz
from tests.fuzz.targets import TARGETS

ALL = 1 << 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=TARGETS, help="only this one (default: all)")
    parser.add_argument("--seed", type=int, help="repeat this case (with --seconds: begin there)")
    parser.add_argument("--seconds", type=float, help="for all targets together (default 600)")
    args = parser.parse_args()
    targets = [args.target] if args.target else list(TARGETS)
    first = args.seed if args.seed is not None else secrets.randbits(40)
    once = args.seed is not None and args.seconds is None
    failed = False
    for target in targets:
        share = (args.seconds or 600.0) / len(targets)
        result = fuzz(target, first, 1 if once else ALL, share)
        print(result.text, flush=True)
        failed |= bool(result.failure)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
