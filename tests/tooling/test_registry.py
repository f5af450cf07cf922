"""The registry refuses what no provider would take, and says of which tool."""

from __future__ import annotations

import pytest

from lamella.core.errors import ConfigurationError
from lamella.core.prompt import ToolSpec
from lamella.tooling.tool import Invocation, Registry, ToolKind, ToolScope


class Tool:
    kind = ToolKind.OTHER
    timeout = 1.0

    def __init__(self, name: str, schema: str = '{"type":"object"}') -> None:
        self.spec = ToolSpec(name, "Does it.", schema)

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "done"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "its input schema is no JSON object"),
        ("[]", "its input schema is no JSON object"),
        ("{}", "its input schema has the type None, not 'object'"),
        ('{"type":"string"}', "its input schema has the type 'string', not 'object'"),
        ('{"type":"object","properties":[]}', "the `properties` of its input schema are no object"),
        ('{"type":"object","properties":{"a":1}}', "its property “a” is no schema"),
        ('{"type":"object","required":"a"}', "the `required` of its input schema is no list of names"),
        ('{"type":"object","properties":{"a":{}},"required":["b"]}', "requires b, which it does not describe"),
        ('{"type":"object","properties":{"a":{"pattern":"["}}}', "its input schema is invalid"),
        ('{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/x"}}}', "its input schema is invalid"),
        ('{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}', "its input schema is invalid"),
    ],
)
def test_an_invalid_schema_is_refused_by_name(schema: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Registry([Tool("good"), Tool("bad", schema)])
    assert "“bad”" in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint == "Correct the schema."


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two tools named same"):
        Registry([Tool("same"), Tool("same")])


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no name"):
        Registry([Tool(" ")])


def test_the_list_never_depends_on_the_order() -> None:
    names = [spec.name for spec in Registry([Tool("b"), Tool("a"), Tool("c")]).specs()]
    assert names == ["a", "b", "c"]
