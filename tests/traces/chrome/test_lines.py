"""The byte matrix against Python's own formatting."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profscope.traces.chrome.lines import (
    Constant,
    Hex,
    Microseconds,
    Number,
    Text,
    join_lines,
    line_words,
    text_table,
)
from profscope.traces.chrome.text import json_text, string_text

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=8)  # surrogates too
NANOSECONDS = st.one_of(st.integers(0, 2000), st.integers(0, 2**32 + 10), st.integers(0, 2**62))


@given(st.lists(st.tuples(ANY_TEXT, st.integers(-1, 2**40), NANOSECONDS), min_size=1, max_size=20))
def test_every_line_reads_back(rows: list[tuple[str, int, int]]) -> None:
    texts, numbers, times = zip(*rows, strict=True)
    table = text_table([f'\n{{"text":{string_text(text)},"number":' for text in texts])
    number = np.array(numbers)
    columns = [
        Text(table, np.arange(len(rows))),
        Number(number),
        Text(text_table(["null", ""]), (number >= 0).astype(np.int64)),
        Constant(',"sign":'),
        Number(number, b"  -1"),
        Constant(',"time":'),
        Microseconds(np.array(times)),
        Constant(',"hex":"'),
        Hex(np.array(times), max(times)),
        Constant('"}'),
    ]
    lines = line_words(len(rows), columns)
    read = [json.loads(line, parse_float=str) for line in lines.tobytes().split(b"\n")[1:]]
    expected = [
        {
            "text": text,
            "number": number if number >= 0 else None,
            "sign": number,
            "time": f"{ns // 1000}.{ns % 1000:03d}",
            "hex": ns,
        }
        for text, number, ns in rows
    ]
    for line in read:
        line["hex"] = int(line["hex"], 16)
    assert read == expected


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_pieces_are_merged_in_order(letters: list[str]) -> None:
    pieces = []
    for letter in sorted(set(letters)):
        numbers = np.array([at for at, own in enumerate(letters) if own == letter])
        texts = text_table([f"{letter * ord(letter)}{at:04}\n" for at in numbers])
        pieces.append((numbers, line_words(len(numbers), [Text(texts, np.arange(len(numbers)))])))
    lines = join_lines(pieces, len(letters)).decode().replace(" ", "").splitlines()
    assert lines == [f"{letter * ord(letter)}{at:04}" for at, letter in enumerate(letters)]


@given(
    st.recursive(ANY_TEXT | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner))
)
def test_documents_read_back_and_no_string_ends_in_a_backslash(value: object) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert not any(
        part.endswith("\\\\") and len(part) - len(part.rstrip("\\")) == 2 for part in text.split('"')[1::1]
    )
