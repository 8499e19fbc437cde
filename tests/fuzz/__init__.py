"""Fuzzing of all that heaptop reads from others: ``python -m tests.fuzz --target elf --seed 7`` replays a case."""
