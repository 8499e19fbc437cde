"""Units: short, steady in width, and read back as what was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.text.units import (
    BYTE_UNITS,
    fit_command,
    format_bytes,
    format_change,
    format_count,
    format_duration_ns,
    format_rate,
    parse_size,
    using,
)
from heaptop.errors import UsageError


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10_189, "9.95 KiB"),
        (10_239, "10.0 KiB"),
        (102_000, "99.6 KiB"),
        (12_900_000, "12.3 MiB"),
        (1024**2 - 1, "1.00 MiB"),
        (999 * 1024, "999 KiB"),
        (1 << 63, "8.00 EiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_bytes_are_written_with_three_digits_and_a_unit(number: int, text: str) -> None:
    assert format_bytes(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(999, "999 B"), (1000, "1.00 kB"), (10_189, "10.2 kB"), (12_900_000, "12.9 MB"), (1 << 63, "9.22 EB")],
)
def test_bytes_in_decimal_units(number: int, text: str) -> None:
    with using("decimal"):
        assert format_bytes(number) == text
    assert format_bytes(2048) == "2.00 KiB"


@given(st.sampled_from(sorted(BYTE_UNITS)), st.integers(0, (1 << 63) - 1))
def test_bytes_are_short_and_near_the_truth(name: str, number: int) -> None:
    units = BYTE_UNITS[name]
    with using(name):
        text = format_bytes(number)
    assert len(text) <= 8
    digits, unit = text.split()
    assert float(digits) * units.base ** units.names.index(unit) == pytest.approx(number, rel=0.006)


@given(st.sampled_from(sorted(BYTE_UNITS)), st.integers(0, (1 << 63) - 1))
def test_what_is_written_can_be_typed(name: str, number: int) -> None:
    with using(name):
        assert parse_size(format_bytes(number)) == pytest.approx(number, rel=0.006)


@given(st.integers(-(1 << 63), 1 << 63))
def test_a_count_takes_eight_columns_at_most(number: int) -> None:
    assert len(format_count(number)) <= 8


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (1_234_567.0, "1,234,567/s"),
        (21.4, "21/s"),
        (1.24, "1.2/s"),
        (0.3, "0.3/s"),
        (0.05, "3.0/min"),
        (0.0005, "1.8/h"),
    ],
)
def test_slow_rates_are_not_written_as_none(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(("rate", "text"), [(1_239.0, "1.21 KiB/s"), (0.3, "18 B/min"), (0.01, "36 B/h")])
def test_a_rate_of_bytes_has_the_unit_that_reads_best(rate: float, text: str) -> None:
    assert format_rate(rate, bytes_=True) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (12_345, "12,345"), (-999_999, "-999,999"), (1_234_567, "1.23 M"), (-999_999_999, "-1.00 G")],
)
def test_counts_are_written_in_full_or_with_a_unit(number: int, text: str) -> None:
    assert format_count(number) == text


@pytest.mark.parametrize(
    ("number", "as_bytes", "as_count"),
    [(None, "new", "new"), (0, "0", "0"), (2048, "+2.00 KiB", "+2,048"), (-3, "-3 B", "-3")],
)
def test_a_change_has_its_sign(number: int | None, as_bytes: str, as_count: str) -> None:
    assert format_change(number) == as_bytes
    assert format_change(number, bytes_=False) == as_count


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (12_345, "12.3 µs"),
        (999_999, "1 ms"),
        (4_560_000, "4.56 ms"),
        (59_400_000_000, "59.4 s"),
        (59_900_000_000, "1m 00s"),
        (125_000_000_000, "2m 05s"),
        (11_220_000_000_000, "3h 07m"),
    ],
)
def test_durations_are_written_with_three_digits_and_a_unit(nanoseconds: int, text: str) -> None:
    assert format_duration_ns(nanoseconds) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("500", 500), ("500B", 500), ("10kB", 10_000), ("1.5M", 1_500_000), ("1MiB", 1 << 20),
     ("2 Gi", 2 << 30), (".5kib", 512), (" 3TB ", 3 * 10**12)],
)  # fmt: skip
def test_sizes_are_read_in_decimal_and_binary_units(text: str, number: int) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 2", "1iB", "1e3", "one", "1XB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "k", "KiB", "MB", "Gi"]))
def test_any_whole_number_of_a_unit_is_exact(number: int, unit: str) -> None:
    scale = {"": 1, "k": 1000, "KiB": 1024, "MB": 10**6, "Gi": 1 << 30}[unit]
    assert parse_size(f"{number}{unit}") == number * scale


def test_a_command_begins_with_the_program_and_not_with_its_folders() -> None:
    assert fit_command("/opt/venv/bin/python3.12 /srv/app/shop.py --port 80") == "python3.12 /srv/app/shop.py --port 80"
    assert fit_command("gunicorn: worker [app]") == "gunicorn: worker [app]"
    assert fit_command("") == ""


def test_a_command_gives_up_the_folders_of_its_arguments_where_room_is_short() -> None:
    assert fit_command("/usr/bin/python3 /srv/app/shop.py -c /etc/shop.ini", 40) == "python3 …/shop.py -c …/shop.ini"
    assert fit_command("/usr/bin/python3 /srv/app/shop.py", 40) == "python3 /srv/app/shop.py"
