"""The reader of text protos agrees with protobuf's own, and says where a text is wrong."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given
from hypothesis import strategies as st
from referee import refusal

from shardmark.instances import InputError
from shardmark.instances.importers._text_proto import AT, SKIPPED, Word, parse

LEAF = {"size": int, "label": str}
SCHEMA = {"name": str, "id": int, "final": bool, "leaf": [LEAF], "input": [int], "word": [str], "shape": SKIPPED}
SCHEMA |= {"blob": bytes, "blobs": [bytes], "kind": Word, "kinds": [Word], "shares": SKIPPED}
KINDS = ("DT_INVALID", "DT_FLOAT", "DT_INT8_REF", "other")
NODE = {"node": [SCHEMA]}


@pytest.fixture(scope="module")
def message_class():
    """Protobuf's class for a message of the schema above, and its text format."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="test", syntax="proto3")
    once, often = field.LABEL_OPTIONAL, field.LABEL_REPEATED

    def add(message, fields):
        for number, (name, label, kind, *other) in enumerate(fields, 1):
            message.field.add(name=name, number=number, label=label, type=kind, type_name="".join(other) or None)

    add(file.message_type.add(name="Leaf"), [("size", once, field.TYPE_INT64), ("label", once, field.TYPE_STRING)])
    node = [
        ("name", once, field.TYPE_STRING),
        ("id", once, field.TYPE_INT32),
        ("final", once, field.TYPE_BOOL),
        ("leaf", often, field.TYPE_MESSAGE, ".test.Leaf"),
        ("input", often, field.TYPE_INT32),
        ("word", often, field.TYPE_STRING),
        ("shape", once, field.TYPE_MESSAGE, ".test.Leaf"),
        ("blob", once, field.TYPE_BYTES),
        ("blobs", often, field.TYPE_BYTES),
        ("kind", once, field.TYPE_ENUM, ".test.Kind"),
        ("kinds", often, field.TYPE_ENUM, ".test.Kind"),
        ("shares", often, field.TYPE_FLOAT),
    ]
    kinds = file.enum_type.add(name="Kind")
    for number, name in enumerate(KINDS):
        kinds.value.add(name=name, number=number)
    add(file.message_type.add(name="Node"), node)
    add(file.message_type.add(name="Graph"), [("node", often, field.TYPE_MESSAGE, ".test.Node")])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Graph")), text_format


def plain(message):
    """Return a message as our reader would give it, without fields that have their default."""
    found = {AT: None}
    for descriptor, value in message.ListFields():
        if SCHEMA.get(descriptor.name, "") is SKIPPED:
            continue
        value = list(value) if type(value) not in (str, bytes, int, bool) else value
        if descriptor.enum_type is not None:
            value = [KINDS[kind] for kind in value] if isinstance(value, list) else KINDS[value]
        if isinstance(value, list) and not isinstance(value[0], (str, bytes, int)):
            value = [plain(inner) for inner in value]
        found[descriptor.name] = value
    return found


def without_places(value):
    if isinstance(value, dict):
        return {AT: None, **{key: without_places(inner) for key, inner in value.items() if key != AT}}
    return [without_places(inner) for inner in value] if isinstance(value, list) else value


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SMALL, LARGE = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
LEAVES = st.fixed_dictionaries({}, optional={"size": LARGE, "label": TEXT})
NODES = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT,
        "id": SMALL,
        "final": st.booleans(),
        "leaf": st.lists(LEAVES, max_size=3),
        "input": st.lists(SMALL, max_size=3),
        "word": st.lists(TEXT, max_size=2),
        "shape": LEAVES,
        "blob": st.binary(max_size=9),
        "blobs": st.lists(st.binary(max_size=9), max_size=2),
        "kind": st.integers(0, len(KINDS) - 1),
        "kinds": st.lists(st.integers(0, len(KINDS) - 1), max_size=3),
        "shares": st.lists(st.floats(width=32), max_size=3),
    },
)
STYLES = st.fixed_dictionaries(
    {},
    optional={
        "as_one_line": st.booleans(),
        "as_utf8": st.booleans(),
        "pointy_brackets": st.booleans(),
        "use_short_repeated_primitives": st.booleans(),
    },
)


@given(st.lists(NODES, max_size=3), STYLES)
def test_what_protobuf_writes_is_read_as_it_was(message_class, nodes, style):
    graph, text_format = message_class
    message = graph(node=nodes)
    text = text_format.MessageToString(message, **style)
    assert without_places(parse(text, "test", NODE)) == plain(message)


HAND = [
    "",
    "# nothing but a comment",
    "node{}",
    "node { id: 7 } node { id: 8 };node<id:9>, node:{id:-10}",
    "node { id: 0x1F input: [1, 2 , -3] input: [] input: 017 }",
    "node { name: 'it''s' # a comment } \n 'x' word: \"a\\n\\x41\\101\\u00e9\\U0001F600\" }",
    'node { final: true } node { final: t } node { final: False } node { final: 0 }\r\n\tnode { name: "\\303\\251" }',
    "node { blob: '\\377\\x80' \"\\303\" blobs: ['a', \"b\"] }",
    "node { kind: DT_FLOAT kinds: [ DT_INT8_REF , other ] kinds: DT_FLOAT }",
    "node { shares: [ -1.5e+3 , inf, -nan, .5f ] shares: 1e-3 }",
    "node { leaf { size: 9223372036854775807 } leaf: < size: -9223372036854775808 > shape { label: '}' } }",
]


@pytest.mark.parametrize("text", HAND)
def test_what_people_write_is_read_as_protobuf_reads_it(message_class, text):
    graph, text_format = message_class
    expected = plain(text_format.Parse(text, graph()))
    found = without_places(parse(text, "test", NODE))
    for node, other in zip(found.get("node", []), expected.get("node", []), strict=True):
        assert {k: v for k, v in node.items() if v not in (0, False, "", [])} == other


def test_a_sign_may_stand_apart():
    """As the specification has it; protobuf's own reader for Python refuses it."""
    assert parse("node { id: -  # five\n 5 input: [- 1,-0x10] }", "test", NODE)["node"] == [
        {AT: 0, "id": -5, "input": [-1, -16]}
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("node {\n  id: 1\n  colour: 3\n}", "line 3 column 3: expected one of the fields name, id, final, leaf, input"),
        ("nodes { }", "line 1 column 1: expected one of the fields node, found nodes"),
        ("node { id: 1 id: 2 }", "line 1 column 14: expected one value for id"),
        ("node { kind: 'DT_FLOAT' }", "line 1 column 14: expected a name without quotes, found 'DT_FLOAT'"),
        ("node { kind: -1 }", "line 1 column 14: expected a name without quotes, found -1"),
        ("node { blob: DT_FLOAT }", "line 1 column 14: expected a string in quotes, found DT_FLOAT"),
        (r"node { blob: '\q' }", "line 1 column 14: expected a string in quotes"),
        ("node { id: [1, 2] }", "line 1 column 8: expected one value for id"),
        ("node { id: 1.5 }", "line 1 column 12: expected an integer from -2^63 to 2^63 - 1, found 1.5"),
        ("node { id: -# one\n one }", "expected an integer from -2^63 to 2^63 - 1, found -# one one"),
        ("node { id: 1e5 }", "expected an integer from -2^63 to 2^63 - 1, found 1e5"),
        ("node { id: 08 }", "expected an integer from -2^63 to 2^63 - 1, found 08"),
        ("node { id: 9223372036854775808 }", "expected an integer from -2^63 to 2^63 - 1, found 9223372036854775808"),
        (f"node {{ id: {'9' * 5000} }}", f"expected an integer from -2^63 to 2^63 - 1, found {'9' * 37}..."),
        ("node { id: '1' }", "expected an integer from -2^63 to 2^63 - 1, found '1'"),
        ("node { id: inf }", "expected an integer from -2^63 to 2^63 - 1, found inf"),
        ("node { id { } }", "line 1 column 11: expected an integer from -2^63 to 2^63 - 1 for id, found a message"),
        ("node { input: [1, x] }", "line 1 column 19: expected an integer from -2^63 to 2^63 - 1, found x"),
        ("node { name: first }", "line 1 column 14: expected a string in quotes, found first"),
        ("node { name: 5 }", "expected a string in quotes, found 5"),
        ('node { name: "\\q" }', 'expected a string in quotes, found "\\q"'),
        ('node { name: "\\777" }', 'expected a string in quotes, found "\\777"'),
        ('node { name: "\\xff" }', 'expected a string in quotes, found "\\xff"'),
        ('node { name: "\\UFFFFFFFF" }', "expected a string in quotes"),
        ('node { name: "\\ud800" }', "expected a string in quotes"),
        ("node { final: yes }", "expected true or false, found yes"),
        ("node: 5", "line 1 column 7: expected a message for node"),
        ("node: [{ id: 1 }]", "line 1 column 1: expected a field such as"),
        (
            "node { [a.b]: 1 }",
            "line 1 column 8: expected a field such as `id: 1` or `node { ... }`, found '[a.b]: 1 }'",
        ),
        ("node { id 1 }", "line 1 column 8: expected a field such as"),
        ("node { id: }", "line 1 column 8: expected a field such as"),
        ("node { input: [1 2] }", "line 1 column 8: expected a field such as"),
        ('node { name: "open\n }', "line 1 column 8: expected a field such as"),
        ("node { id: 1", "line 1 column 1: expected the message to be closed"),
        ("# x\n\n  node { leaf { size: 1 }", "line 3 column 3: expected the message to be closed"),
        ("node { shape { a { b: 1 } }", "line 1 column 1: expected the message to be closed"),
        ("node { id: 1 >", "line 1 column 14: expected '}', found '>'"),
        ("node { shape < a: 1 } }", "line 1 column 21: expected '>', found '}'"),
        ("node { } }", "line 1 column 10: expected a field, found '}'"),
        ('{"node": []}', "line 1 column 1: expected a field such as"),
        ("\x00\x01", "line 1 column 1: expected a field such as"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(text, sentence):
    message = refusal(parse, text, "graph.pbtxt", NODE)
    assert message.startswith("graph.pbtxt: line ")
    assert sentence in message


@pytest.mark.parametrize(
    "unit",
    [
        "node { id: 1 }\n",
        "# comment\n",
        " ",
        "node { shape {",
        "node",
        "'",
        "node { name: 'a' ",
        "node { name: " + "'a' ",
        "\\",
        "node { input: [" + "1, ",
        "}",
    ],
)
def test_no_text_takes_more_than_linear_time(unit):
    """In a text of half a mebibyte, anything else would run into the suite's time limit."""
    with contextlib.suppress(InputError):
        parse(unit * (2**19 // len(unit)), "test", NODE)
