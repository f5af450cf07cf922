"""Arguments are checked before a call; what does not fit is told with its place and with what would."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from lamella.core.json import Json, encode_text
from lamella.tooling.arguments import MAX_FIELDS, check_arguments, fitted, wrong_schema

SCHEMA = encode_text(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "mode": {"enum": ["read", "write"]},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def test_what_fits_passes() -> None:
    assert check_arguments(SCHEMA, {"path": "a", "lines": [1, 2], "mode": "read"}) == ""


def test_each_problem_has_its_place() -> None:
    given: dict[str, Json] = {"lines": [1, "two", 0], "mode": "erase", "page": 3}
    assert check_arguments(SCHEMA, given) == snapshot(
        """\
- lines[1]: "two" is not of type "integer"
- lines[2]: 0 is less than the minimum of 1
- mode: "erase" is not one of "read" or "write"
- arguments: Additional properties are not allowed ('page' was unexpected)
- arguments: "path" is a required property
Accepted:
- path (required): type string, minLength 1
- lines (optional): type array
- mode (optional): enum ["read","write"]\
"""
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"path": "a", "lines": "[1, 2]"}, {"path": "a", "lines": [1, 2]}),
        ({"path": "[1]"}, {"path": "[1]"}),
        ({"path": "a", "lines": [1]}, {"path": "a", "lines": [1]}),
    ],
)
def test_a_list_that_was_encoded_twice_is_read(given: dict[str, Json], read: dict[str, Json]) -> None:
    """Only where the schema asks for one; a text that looks like one stays a text."""
    assert fitted(SCHEMA, given) == (read, "")


@pytest.mark.parametrize("lines", ["[1, 0]", "1, 2", "[1", '{"a": 1}', "2"])
def test_what_fits_neither_way_is_told_as_it_was_written(lines: str) -> None:
    given: dict[str, Json] = {"path": "a", "lines": lines}
    assert fitted(SCHEMA, given) == (given, check_arguments(SCHEMA, given))
    assert 'not of type "array"' in check_arguments(SCHEMA, given)


def test_an_object_or_nothing_is_read_too() -> None:
    filters = {"anyOf": [{"type": "object"}, {"type": "null"}]}
    schema = encode_text({"type": "object", "properties": {"filters": filters}})
    assert fitted(schema, {"filters": '{"year": 2025}'}) == ({"filters": {"year": 2025}}, "")


def test_an_answer_stays_short() -> None:
    fields = {f"field_{n}": {"enum": ["x" * 5_000]} for n in range(200)}
    schema = encode_text({"type": "object", "properties": fields, "additionalProperties": False})
    said = check_arguments(schema, {f"field_{n}": "y" * 10_000 for n in range(200)})
    assert len(said) < (MAX_FIELDS + 10) * 300


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(?=a)(a+)+\1?$", "^(a|a)*$", r"^(\w+\s?)*$"])
def test_no_pattern_holds_everybody_up(pattern: str) -> None:
    schema = encode_text({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    assert wrong_schema(schema) == ""
    began = perf_counter()
    check_arguments(schema, {"a": "a" * 5_000 + "!"})
    assert perf_counter() - began < 5


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$dynamicRef": "#meta"}}},
        {"properties": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_turns_in_circles_ends(schema: Any) -> None:
    text = encode_text({"type": "object", **schema})
    if wrong_schema(text) == "":
        check_arguments(text, {"a": {"a": {"a": 1}}})


@given(st.dictionaries(st.text(max_size=8) | st.sampled_from(["path", "lines", "mode"]), JSON, max_size=5))
def test_whatever_is_given_is_judged(arguments: dict[str, Any]) -> None:
    said = check_arguments(SCHEMA, arguments)
    fits = (
        isinstance(arguments.get("path"), str)
        and arguments["path"] != ""
        and arguments.keys() <= {"path", "lines", "mode"}
        and arguments.get("mode", "read") in ("read", "write")
        and isinstance(arguments.get("lines", []), list)
        and all(
            isinstance(line, int | float) and not isinstance(line, bool) and line == line // 1 and line >= 1
            for line in arguments.get("lines", [])
        )
    )
    assert (said == "") == fits


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_whatever_a_schema_is_it_is_judged(schema: dict[str, Any]) -> None:
    text = encode_text({"type": "object", **schema})
    if wrong_schema(text) == "":
        check_arguments(text, {"a": 1})
