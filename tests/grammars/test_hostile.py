"""Hostile input: every compile, and the first masks, end in time, with success or with an error that names a limit.

Each input is tried in a child process with a limit of CPU time, so that a hang or a crash is a failure of one test. The bound is
generous: most inputs take milliseconds; those that a limit ends take some seconds at most.
"""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grammars import Choice, Gbnf, JsonSchema, Lark, Limits, Regex, Vocabulary
from grammars.constraint import Constraint
from grammars.errors import GuidedError, LimitError
from guided.evaluation.children import in_child
from guided.evaluation.tokenizers import small_vocabulary

SECONDS = 60
"""CPU seconds that one input may take."""
MASKS = 8
LIMITS = Limits(fuel=20_000)
"""Less fuel than by default, so that what burns all of it takes little time; it burns it in the same places."""

OK, EITHER = "success", "success or a limit"


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """Warmed up, so that children share what is compiled on first use."""
    vocabulary = small_vocabulary()
    for constraint in (Regex("a+"), JsonSchema({"type": "object"}), Lark('start: "a"')):
        automaton = constraint.compile(vocabulary)
        automaton.mask(automaton.start)
    return vocabulary


def tried(make: Callable[[], Constraint], vocabulary: Vocabulary) -> dict[str, Any]:
    """What becomes of a constraint: ``status`` is ``success`` or the name of the error's class."""

    def work() -> dict[str, Any]:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        try:
            automaton = make().compile(vocabulary)
            state, rng = automaton.start, random.Random(1)
            for _ in range(MASKS):
                row = automaton.mask(state)
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                text = [token for token in allowed.tolist() if token not in vocabulary.eos_token_ids]
                if not text:
                    break
                state = automaton.advance(state, rng.choice(text))
        except GuidedError as error:
            return {"status": type(error).__name__, "reason": str(error), "limit": getattr(error, "limit", None)}
        return {"status": "success", "reason": "", "limit": None}

    return in_child(work)


def judge(outcome: str, found: dict[str, Any]) -> None:
    """``outcome``: ``success``, the name of a limit, of an error class, or :data:`EITHER`."""
    if outcome == EITHER:
        assert found["status"] in ("success", "LimitError"), found
    elif outcome in Limits.__dataclass_fields__:
        assert (found["status"], found["limit"]) == ("LimitError", outcome), found
    else:
        assert found["status"] == outcome, found
    if found["status"] == "LimitError":
        assert found["limit"] in Limits.__dataclass_fields__ and f"Limits({found['limit']}=...)" in found["reason"]


# ---------------------------------------------------------------- regular expressions
REGEXES = {
    "nested stars": (OK, lambda: "(a*)*b"),
    "nested counts": (OK, lambda: "((a{1,100}){1,100}){1,100}"),
    "counts of counts of counts": (OK, lambda: "((((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99})"),
    "a billion": (OK, lambda: "a{999999999}"),
    "more than a billion": ("RegexError", lambda: "a{9999999999}"),
    "exponential automaton": (OK, lambda: "(a|b)*a(a|b){200}"),
    "product of exponential automata": (EITHER, lambda: "".join(f"(?=.*a.{{{i}}}b)" for i in range(1, 12)) + ".*"),
    "complements of searches": (EITHER, lambda: "".join(f"(?!.*(x{i}|y{i})+z)" for i in range(30)) + ".*"),
    "long alternation": (OK, lambda: "|".join(f"w{i}" for i in range(20_000))),
    "counted long alternation": (OK, lambda: f"({'|'.join(f'w{i}' for i in range(20_000))}){{0,1000}}"),
    "too long an alternation": ("regex_size", lambda: "|".join(f"w{i}" for i in range(100_000))),
    "too many groups in groups": ("nesting", lambda: "(" * 100_000 + "a" + ")" * 100_000),
    "too long a literal": ("regex_size", lambda: "a" * 1_000_000),
    "optional chain": (OK, lambda: "a?" * 3_000 + "a" * 3_000),
    "counted words": (OK, lambda: r"(\w{1,1000}\s){1,1000}"),
    "large class": (OK, lambda: f"[{''.join(chr(0x100 + 2 * i) for i in range(20_000))}]*"),
    "stacked stars": (OK, lambda: "(" * 100 + "a" + "*)" * 100),
    "stacked counts": (OK, lambda: "(" * 100 + "a" + "{2,3})" * 100),
    "overlapping stars": (OK, lambda: "(a*|b*|c*|[a-c]*d?)*" * 200),
}


@pytest.mark.parametrize("name", REGEXES)
def test_regex(name: str, vocabulary: Vocabulary) -> None:
    outcome, pattern = REGEXES[name]
    judge(outcome, tried(lambda: Regex(pattern()), vocabulary))


# ---------------------------------------------------------------- JSON Schema
def nested(depth: int, around: Callable[[Any], Any], core: Any) -> Any:
    for _ in range(depth):
        core = around(core)
    return core


def holding(name: str, value: Any) -> dict[str, Any]:
    return {"properties": {name: value}, "required": [name]}


def chain(length: int, link: Callable[[dict[str, str], int], Any], last: Any = None) -> dict[str, Any]:
    """Definitions each of which is made of references to the next one."""
    links = {f"d{i}": link({"$ref": f"#/$defs/d{i + 1}"}, i) for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": last or {"type": "string"}}}


def condition(ref: dict[str, str], i: int) -> Any:
    return {"if": ref, "then": {"properties": {"a": ref}}, "else": {"items": ref}}


SCHEMAS: dict[str, tuple[str, Callable[[], Any]]] = {
    "deep allOf": ("nesting", lambda: nested(450, lambda s: {"allOf": [s, {"minimum": 1}]}, {"type": "integer"})),
    "bottomless allOf": ("SchemaError", lambda: nested(100_000, lambda s: {"allOf": [s]}, {"type": "integer"})),
    "wide allOf": (EITHER, lambda: {"allOf": [{"properties": {f"p{i}": {"type": "string"}}} for i in range(2_000)]}),
    "allOf of anyOf": (
        "fuel",
        lambda: {"allOf": [{"anyOf": [holding(f"a{i}", {"const": j}) for j in range(4)]} for i in range(30)]},
    ),
    "oneOf of patterns": (EITHER, lambda: {"oneOf": [{"type": "string", "pattern": f"a{{{i}}}"} for i in range(300)]}),
    "oneOf of objects": (EITHER, lambda: {"oneOf": [holding(f"a{i}", {"type": "string"}) for i in range(60)]}),
    "itself": ("SchemaError", lambda: {"$ref": "#"}),
    "not itself": ("SchemaError", lambda: {"not": {"$ref": "#"}}),
    "itself or a string": ("SchemaError", lambda: {"anyOf": [{"$ref": "#"}, {"type": "string"}]}),
    "ring of references": ("SchemaError", lambda: {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    "holds itself for ever": ("ConstraintError", lambda: {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
    "chain of references": ("nesting", lambda: chain(10_000, lambda ref, i: ref)),
    "doubling allOf": (EITHER, lambda: chain(60, lambda ref, i: {"allOf": [ref, ref]})),
    "doubling anyOf": (EITHER, lambda: chain(60, lambda ref, i: {"anyOf": [ref, {"type": "array", "items": ref}]})),
    "doubling properties": (OK, lambda: chain(60, lambda ref, i: {"properties": {"a": ref, "b": ref}})),
    "doubling negations": (EITHER, lambda: chain(40, lambda ref, i: {"not": {"properties": {"a": ref, "b": ref}}})),
    "conditions of conditions": (EITHER, lambda: chain(40, condition)),
    "deep objects": (OK, lambda: nested(200, lambda s: {"type": "object", "properties": {"a": s}, "required": ["a"]}, {})),
    "bottomless arrays": ("SchemaError", lambda: nested(50_000, lambda s: {"type": "array", "items": s}, {})),
    "alternating negations": (EITHER, lambda: nested(60, lambda s: {"not": {"properties": {"a": s}, "required": ["a"]}}, {"minLength": 3})),
    "large enum": (OK, lambda: {"enum": [f"value {i * 7919 % 100_003}" for i in range(100_000)]}),
    "enum of objects": (EITHER, lambda: {"enum": [{"a": i, "b": [i]} for i in range(1_000)]}),
    "not in a large enum": (OK, lambda: {"not": {"enum": [f"v{i}" for i in range(20_000)]}}),
    "huge maxLength": (OK, lambda: {"type": "string", "maxLength": 10**30}),
    "huge minLength": (OK, lambda: {"type": "string", "minLength": 10**9}),
    "huge minItems": (OK, lambda: {"type": "array", "items": {"type": "integer"}, "minItems": 10**9}),
    "huge contains": (OK, lambda: {"type": "array", "contains": {"type": "integer"}, "minContains": 1_000, "maxContains": 100_000}),
    "huge numbers": (OK, lambda: {"type": "integer", "minimum": 10**4000}),
    "far bounds": (OK, lambda: {"type": "number", "minimum": 1e-300, "maximum": 1e300}),
    "large step": (OK, lambda: {"type": "integer", "multipleOf": 10**18 + 9}),
    "tiny step": (OK, lambda: {"type": "number", "multipleOf": 1e-300}),
    "coprime steps": (OK, lambda: {"allOf": [{"multipleOf": p} for p in (7919, 7907, 7901, 7883, 7879)]}),
    "pattern and count": (OK, lambda: {"type": "string", "pattern": "(ab|c)+d", "maxLength": 100_000}),
    "not an exponential pattern": (OK, lambda: {"type": "string", "not": {"pattern": "(a|b)*a(a|b){20}"}}),
    "pattern and not pattern": (EITHER, lambda: {"type": "string", "pattern": "a(a|b){18}$", "not": {"pattern": "b(a|b){17}$"}}),
    "many patterns": (EITHER, lambda: {"type": "string", "allOf": [{"pattern": f"(a|b)*x{i}(a|b){{{i + 5}}}"} for i in range(20)]}),
    "overlapping patternProperties": (
        EITHER,
        lambda: {"type": "object", "patternProperties": {f"a{{{i}}}.*b{{{20 - i}}}": {"minimum": i} for i in range(20)}},
    ),
    "propertyNames": (
        EITHER,
        lambda: {"propertyNames": {"pattern": "(a|b)*a(a|b){16}$"}, "patternProperties": {"(b|a)*b(a|b){15}$": {"minimum": 1}}},
    ),
    "unique arrays of themselves": (EITHER, lambda: {"oneOf": [
        {"maxItems": 0, "type": "array", "unevaluatedItems": {"enum": [True, {}, "1"], "multipleOf": 1}},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 2, "uniqueItems": True},
    ]}),
    "unique elements": (EITHER, lambda: {"type": "array", "uniqueItems": True, "items": {"enum": list(range(1_000))}, "minItems": 500}),
    "many contains": (EITHER, lambda: {"type": "array", "allOf": [{"contains": {"multipleOf": p}} for p in range(2, 40)]}),
    "many required": (OK, lambda: {"type": "object", "required": [f"r{i}" for i in range(1_000)]}),
    "chain of dependentRequired": (
        EITHER,
        lambda: {"type": "object", "dependentRequired": {f"r{i}": [f"r{i + 1}", f"r{2 * i + 1}"] for i in range(500)}},
    ),
    "dependentSchemas": (
        EITHER,
        lambda: {"type": "object", "dependentSchemas": {f"r{i}": {"properties": {f"r{i + 1}": {"minimum": i}}} for i in range(25)}},
    ),
    "unevaluatedProperties": (
        EITHER,
        lambda: {"anyOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(20)], "unevaluatedProperties": False},
    ),
    "long prefixItems": (OK, lambda: {"type": "array", "prefixItems": [{"const": i} for i in range(10_000)], "minItems": 10_000}),
    "many arrays": (OK, lambda: {"anyOf": [{"type": "array", "prefixItems": [{"const": i}, {"const": i % 7}]} for i in range(1_000)]}),
    "long constant": (EITHER, lambda: {"const": {"a": "x" * 1_000_000}}),
    "deep constant": (EITHER, lambda: {"const": json.loads("[" * 900 + "]" * 900)}),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_schema(name: str, vocabulary: Vocabulary) -> None:
    outcome, schema = SCHEMAS[name]
    judge(outcome, tried(lambda: JsonSchema(schema(), limits=LIMITS), vocabulary))


@pytest.mark.parametrize("count", [0, 200])
def test_many_members_in_any_order(count: int, vocabulary: Vocabulary) -> None:
    members = {f"r{i}": {"type": "integer"} for i in range(4_000)}
    schema = {"type": "object", "properties": members, "minProperties": count}
    judge(EITHER, tried(lambda: JsonSchema(schema, order="any", limits=LIMITS), vocabulary))


def test_fuel_is_that_of_the_constraint(vocabulary: Vocabulary) -> None:
    schema = {"allOf": [{"anyOf": [{"required": [f"{c}{i}"]} for c in "ab"]} for i in range(6)]}
    with pytest.raises(LimitError, match="the limit fuel=50 was reached"):
        JsonSchema(schema, limits=Limits(fuel=50)).compile(vocabulary)
    assert JsonSchema(schema).compile(vocabulary).start


def test_a_step_that_failed_leaves_the_vocabulary_usable(vocabulary: Vocabulary) -> None:
    with pytest.raises(LimitError):
        JsonSchema(SCHEMAS["allOf of anyOf"][1](), limits=Limits(fuel=20_000)).compile(vocabulary)
    automaton = JsonSchema({"type": "object", "required": ["a"]}).compile(vocabulary)
    assert automaton.accepts(automaton.advance_bytes(automaton.start, b'{"a": [1, {"b": "c"}]}'))


# ---------------------------------------------------------------- grammars
def names(prefix: str, count: int, between: str) -> str:
    return between.join(f"{prefix}{i}" for i in range(count))


def rules(count: int, line: Callable[[int], str], last: str) -> str:
    return "\n".join([*(line(i) for i in range(count)), last]) + "\n"


GBNF: dict[str, tuple[str, Callable[[], str]]] = {
    "10,000 rules": (OK, lambda: long_chain(10_000)),
    "10,000 alternatives": (OK, lambda: "root ::= " + " | ".join(f'"w{i}"' for i in range(10_000)) + "\n"),
    "all kinds of recursion": (OK, lambda: 'root ::= root root | root root root | "a" | ""\n'),
    "cycle": (OK, lambda: 'root ::= root | a\na ::= b | root\nb ::= a | "x"\n'),
    "no end": ("ConstraintError", lambda: 'root ::= "a" root\n'),
    "doubling": (OK, lambda: "root ::= r0\n" + rules(60, lambda i: f"r{i} ::= r{i + 1} r{i + 1}", 'r60 ::= "a"')),
    "doubling, perhaps empty": (EITHER, lambda: "root ::= r0\n" + rules(60, lambda i: f"r{i} ::= r{i + 1} r{i + 1}", 'r60 ::= "a"?')),
    "huge count": ("GrammarError", lambda: 'root ::= ("a" root?){0,1000000000}\n'),
    "nested counts": (OK, lambda: 'root ::= ((((x{0,100}){0,100}){0,100}){0,100}){0,100}\nx ::= "a" | "(" x ")"\n'),
    "deep groups": (OK, lambda: f'root ::= {"(" * 400}"a"{")" * 400}\n'),
    "too deep groups": ("nesting", lambda: f'root ::= {"(" * 100_000}"a"{")" * 100_000}\n'),
    "long sequence": (OK, lambda: "root ::= " + " ".join(['"a" x'] * 10_000) + '\nx ::= "b" | "c" x\n'),
    "ambiguous operators": (OK, lambda: f"root ::= e\ne ::= {' | '.join(f'e {json.dumps(o)} e' for o in '+-*/%&|^<>=')} | e e | [a-z]+\n"),
}


def long_chain(count: int) -> str:
    return "root ::= r0\n" + rules(count, lambda i: f'r{i} ::= "a" r{i + 1} | "b"', f'r{count} ::= "c"')


@pytest.mark.slow
def test_a_hundred_thousand_rules(vocabulary: Vocabulary) -> None:
    judge(OK, tried(lambda: Gbnf(long_chain(100_000)), vocabulary))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["allOf of anyOf", "conditions of conditions", "oneOf of patterns", "many contains"])
def test_json_schema_with_the_default_limits(name: str, vocabulary: Vocabulary) -> None:
    outcome, schema = SCHEMAS[name]
    judge(outcome, tried(lambda: JsonSchema(schema()), vocabulary))


@pytest.mark.parametrize("name", GBNF)
def test_gbnf(name: str, vocabulary: Vocabulary) -> None:
    outcome, grammar = GBNF[name]
    judge(outcome, tried(lambda: Gbnf(grammar()), vocabulary))


LARK: dict[str, tuple[str, Callable[[], str]]] = {
    "2,000 rules": (OK, lambda: "start: r0\n" + rules(2_000, lambda i: f'r{i}: "a" r{i + 1} | "b"', 'r2000: "c"')),
    "1,000 patterns": (EITHER, lambda: f"start: ({names('T', 1_000, ' | ')})*\n" + rules(1_000, lambda i: f"T{i}: /a{i}[0-9]*/", "")),
    "all kinds of recursion": (OK, lambda: 'start: start start | start start start | "a" |\n'),
    "nested counts": (OK, lambda: 'start: (a ~ 1..1000) ~ 1..1000\na: "x"\n'),
    "nested counts in a terminal": (OK, lambda: 'start: T\nT: ("x" ~ 1..1000) ~ 1..1000\n'),
    "huge count": (OK, lambda: 'start: a ~ 1..1000000000\na: "x"\n'),
    "deep groups": (OK, lambda: f'start: {"(" * 200}"a"{")" * 200}\n'),
    "too deep groups": ("GrammarError", lambda: f'start: {"(" * 20_000}"a"{")" * 20_000}\n'),
    "exponential patterns": (EITHER, lambda: "start: T U\nT: /(a|b)*a(a|b){25}/\nU: /(b|a)*b(a|b){24}/\n"),
    "many optional parts": ("grammar_size", lambda: f"start: [{names('a', 40, '] [')}]\n" + rules(40, lambda i: f'a{i}: "x"', "")),
    "many optional groups": ("grammar_size", lambda: "start:" + " (a | b)?" * 40 + '\na: "x"\nb: "y"\n'),
    "counted optional parts": ("grammar_size", lambda: 'start: ([a] [b]) ~ 1..40\na: "x"\nb: "y"\n'),
    "templates of templates": (OK, lambda: 'start: t0{"a"}\n' + rules(9, lambda i: f"t{i}{{x}}: t{i + 1}{{x}} t{i + 1}{{x}}", "t9{x}: x")),
    "growing templates": ("nesting", lambda: 'start: t{a}\nt{x}: x | "b" t{u{x}}\nu{x}: x x\na: "a"\n'),
}


@pytest.mark.parametrize("name", LARK)
def test_lark(name: str, vocabulary: Vocabulary) -> None:
    outcome, grammar = LARK[name]
    judge(outcome, tried(lambda: Lark(grammar(), limits=LIMITS), vocabulary))


def test_the_extent_of_a_lark_grammar_is_told_before_it_is_written_out() -> None:
    grammar = "start: [a] (b | c)? a* c+ b~0..2\n" + 'a: "x"\nb: "y"\nc: "z"\n'
    # 2 (a or not) x 3 (b, c, neither) x 2 (a*) x 1 x 3 (no, one, two b) expansions, of five symbols at most
    with pytest.raises(LimitError, match=r"grammar_size=100 .* of the rule start"):
        Lark(grammar, limits=Limits(grammar_size=100))
    assert Lark(grammar, limits=Limits(grammar_size=200)).limits.grammar_size == 200


CHOICES = {
    "100,000 choices": lambda: [f"choice {i * 7919 % 100_003}" for i in range(100_000)],
    "long choices": lambda: ["x" * 100_000, "x" * 99_999 + "y"],
}


@pytest.mark.parametrize("name", CHOICES)
def test_choice(name: str, vocabulary: Vocabulary) -> None:
    judge(OK, tried(lambda: Choice(CHOICES[name]()), vocabulary))


# ---------------------------------------------------------------- the guard itself
def test_a_hang_and_a_crash_would_be_seen(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever() -> Constraint:
        while True:
            pass

    monkeypatch.setitem(globals(), "SECONDS", 1)
    assert tried(forever, vocabulary)["status"] == "crash"

    def recursion() -> Constraint:
        return recursion()

    assert tried(recursion, vocabulary)["status"] == "error"
