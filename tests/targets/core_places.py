"""Prints the native core's layout after its self-check. Arguments: the core's library; a fact to be wrong, or none."""

import gc
import sys

from core_breaks import load


def main():
    core = load(sys.argv[1])
    fact = sys.argv[2]
    if fact:
        core.set_layout(fact, core.layout()[fact] + 8)
    sentence = core.check(gc)
    facts = core.layout()
    if fact and sentence:  # a fact that this version does not have: nothing is read by such a table
        facts.update(runtime_main=0, runtime_collector=0, interpreter_collector=0)
    elif sentence:
        raise SystemExit(sentence)
    print(ascii(facts))


if __name__ == "__main__":
    main()
