"""The engine against brute force: languages by enumeration, masks by asking for every token, completions by running them."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grammars.automaton as automaton_module
import grammars.lexer as lexer_module
from grammars.automaton import Automaton
from grammars.constraint import Constraint
from grammars.errors import ConstraintError, DeadEnd, LimitError
from grammars.json_schema import JsonSchema
from grammars.limits import Limits
from grammars.regex.charset import CharSet
from grammars.regex.expr import Pool
from grammars.rules import (
    Capture,
    Node,
    RepeatRule,
    Rule,
    Skip,
    State,
    StaticRule,
    Terminal,
    finish,
    lexeme,
    literal,
    optional,
    repeat,
    sequence,
    union,
)
from grammars.vocabulary import Vocabulary

EOS, BOS = 262, 263
TOKENS = [bytes([b]) for b in range(256)] + [b"ab", b"abc", b"aa", b'":', b'",', b'{"', b"<eos>", b"<s>"]
MORE = [b'a":', b'a":1', b'ab":', b'abc" :3', b'abc":0', b'"a":', b'bc":', b'x":0', b'x":1', b'"xy":0,', b"n\xc3"]
MORE += [b'\xa9":5', b'1,"', b'0,"ab', b'":0,"', b'":3,', b'","', b'a","', b'a","a', b'", "b","', b'c","ab"', b"a,b"]
MORE += [b"b,a,", b"c>", b"a,a"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, [EOS], [BOS])


class Built(Constraint):
    """A constraint out of a function that writes its rules."""

    def __init__(self, build) -> None:
        self.function = build

    def build(self, pool: Pool) -> Rule:
        return finish(self.function(pool))


def bits(row: np.ndarray) -> set[int]:
    return set(np.nonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))[0].tolist())


def walk_and_check(automaton: Automaton, steps: int, seed: int) -> None:
    """A random walk; at each state the mask, the successors and the shortest completion are checked by brute force."""
    rng = random.Random(seed)
    size = automaton.vocabulary.size
    state = automaton.start
    for _ in range(steps):
        mask = bits(automaton.mask(state))
        assert mask == {t for t in range(size) if automaton.allows(state, t)}
        tokens, states = automaton.successors(state)
        assert sorted(tokens.tolist()) == sorted(mask - {EOS})
        cheap, costs = automaton.completion_costs(state)
        cost = dict(zip(cheap.tolist(), costs.tolist(), strict=True))
        assert cost.keys() == set(tokens.tolist())
        for token, after in zip(tokens.tolist(), states.tolist(), strict=True):
            assert automaton.advance(state, token) == after
            assert automaton.distance(after) <= cost[token] <= automaton.distance(after) + 4
        end = state
        for token in automaton.shortest_completion(state):
            end = automaton.advance(end, token)
        assert automaton.accepts(end)
        text = sorted(mask - {EOS})
        if not text:
            break
        state = automaton.advance(state, rng.choice(text))


# ---------------------------------------------------------------- random grammars against enumeration
NAMES = "STU"


@st.composite
def bodies(draw: st.DrawFn, depth: int = 2):
    kind = draw(st.sampled_from(["lit", "lit", "ref", "seq", "alt", "rep", "opt"] if depth else ["lit", "ref"]))
    if kind == "lit":
        return ("lit", draw(st.sampled_from(["a", "b", "ab", "ba", ""])))
    if kind == "ref":
        return ("ref", draw(st.sampled_from(NAMES)))
    if kind in ("seq", "alt"):
        return (kind, draw(st.lists(bodies(depth - 1), min_size=1, max_size=3)))
    if kind == "opt":
        return ("rep", draw(bodies(depth - 1)), 0, 1)
    lo = draw(st.integers(0, 2))
    return ("rep", draw(bodies(depth - 1)), lo, draw(st.one_of(st.none(), st.integers(lo, 3))))


def enumerate_language(grammar: dict, length: int) -> dict[str, set[str]]:
    """All sentences of at most ``length`` characters, by fixpoint."""
    words: dict[str, set[str]] = {n: set() for n in grammar}

    def join(left: set[str], right: set[str]) -> set[str]:
        return {a + b for a in left for b in right if len(a) + len(b) <= length}

    def of(body) -> set[str]:
        if body[0] == "lit":
            return {body[1]} if len(body[1]) <= length else set()
        if body[0] == "ref":
            return set(words[body[1]])
        if body[0] == "seq":
            out = {""}
            for part in body[1]:
                out = join(out, of(part))
            return out
        if body[0] == "alt":
            return set().union(*map(of, body[1]))
        _, part, lo, hi = body
        one, out = of(part), {""}
        for _ in range(lo):
            out = join(out, one)
        total, last = set(out), out
        for _ in range(length + 1 if hi is None else hi - lo):
            last = join(last, one)
            total |= last
        return total

    while True:
        new = {n: of(body) for n, body in grammar.items()}
        if new == words:
            return words
        words = new


def rules_of(grammar: dict, pool: Pool) -> StaticRule:
    rules = {n: StaticRule(n) for n in grammar}

    def node(body) -> Node | Rule:
        if body[0] == "lit":
            return literal(pool, body[1])
        if body[0] == "ref":
            return rules[body[1]]
        if body[0] == "rep":
            return repeat(node(body[1]), body[2], body[3])
        return (sequence if body[0] == "seq" else union)(*map(node, body[1]))

    for name, body in grammar.items():
        rules[name].define(node(body))
    return rules["S"]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({n: bodies() for n in NAMES}))
def test_random_grammars_accept_exactly_their_language(grammar: dict) -> None:
    language = enumerate_language(grammar, 5)["S"]
    vocabulary = Vocabulary(TOKENS, [EOS], [BOS])
    try:
        automaton = Built(lambda pool: rules_of(grammar, pool)).compile(vocabulary)
    except ConstraintError:
        assert not language
        return
    for n in range(6):
        for letters in itertools.product("ab", repeat=n):
            text = "".join(letters)
            assert automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())) == (text in language), text
    walk_and_check(automaton, 6, 0)


# ---------------------------------------------------------------- particular shapes
def digits(pool: Pool) -> int:
    return pool.plus(pool.byteset(sum(1 << b for b in b"0123456789")))


def arithmetic(pool: Pool) -> Rule:
    total, product, factor = StaticRule("sum"), StaticRule("product"), StaticRule("factor")
    total.define(union(sequence(total, literal(pool, "+"), product), product))
    product.define(union(sequence(product, literal(pool, "*"), factor), factor))
    factor.define(union(sequence(literal(pool, "("), total, literal(pool, ")")), lexeme(pool, digits(pool))))
    return total


def json_like(pool: Pool) -> Rule:
    blanks = Skip((Terminal(pool.repeat(pool.byteset(1 << 32 | 1 << 10), 1, 5)),), once=True)
    inside = pool.star(pool.chars(CharSet([(32, 33), (35, 91), (93, 0x10FFFF)])))
    string = lexeme(pool, pool.cat(pool.literal(b'"'), inside, pool.literal(b'"')))
    value, array, obj = StaticRule("value"), StaticRule("array"), StaticRule("object")

    def mark(text: str) -> Node:
        return literal(pool, text)

    pair = sequence(string, mark(":"), value)
    array.define(sequence(mark("["), optional(sequence(value, repeat(sequence(mark(","), value)))), mark("]")), blanks)
    obj.define(sequence(mark("{"), optional(sequence(pair, repeat(sequence(mark(","), pair)))), mark("}")), blanks)
    value.define(union(array, obj, string, lexeme(pool, digits(pool))))
    return value


def statements(pool: Pool) -> Rule:
    """Greedy lexing: keywords before identifiers, a number that may have to be given back, ignored blanks."""

    def token(expr: int, priority: float = 0) -> Terminal:
        return Terminal(expr, priority, group=1)

    blanks = Skip((token(pool.plus(pool.byteset(1 << 32))),), once=False)
    word = token(pool.plus(pool.byteset(sum(1 << b for b in range(97, 123)))))
    number = token(pool.cat(digits(pool), pool.opt(pool.cat(pool.literal(b"."), digits(pool)))))
    statement, expression = StaticRule("statement"), StaticRule("expression")
    expression.define(union(word, number, sequence(expression, token(pool.literal(b".")), word)), blanks)
    branch = sequence(token(pool.literal(b"if"), 1), expression, statement, token(pool.literal(b"else"), 1), statement)
    statement.define(union(branch, expression), blanks)
    return statement


def keyed(pool: Pool) -> Rule:
    """A key that is one of some, each with its own value, or any other but the forbidden: walks for the difference from a base."""
    quote, colon = pool.literal(b'"'), pool.cat(pool.literal(b'"'), pool.repeat(pool.literal(b" "), 0, 3), pool.literal(b":"))
    text = pool.star(pool.chars(CharSet([(32, 33), (35, 0x10FFFF)])))
    names = {"a": "1", "aab": "2", "abc": "3", "abcabc": "4", "né": "5"}
    others = pool.minus(text, pool.alt(*(pool.literal(n.encode()) for n in [*names, "ab", "aabc", "forbidden"])))
    pair = StaticRule("pair")
    pair.define(
        union(
            *(sequence(lexeme(pool, pool.cat(quote, pool.literal(n.encode()), colon)), literal(pool, v)) for n, v in names.items()),
            sequence(lexeme(pool, pool.cat(quote, others, colon)), literal(pool, "0")),
        )
    )
    return StaticRule("object").define(repeat(sequence(pair, literal(pool, ","))))


@dataclass(frozen=True)
class Remember:
    """The words used so far, and the one just written."""

    used: frozenset[bytes]

    def __call__(self, text: bytes) -> frozenset[bytes]:
        return self.used | {text}


class Distinct(Rule):
    """A list of words, each once; between one and five of them."""

    name = "distinct"
    start = (frozenset(), True)

    def __init__(self, pool: Pool, words: int) -> None:
        self.pool, self.words, self.comma = pool, words, Terminal(pool.literal(b","))
        self.skip = Skip((Terminal(pool.repeat(pool.literal(b" "), 1, 2)),))

    def expand(self, key) -> State:
        used, wanted = key if isinstance(key, tuple) else (key, False)
        if not wanted:
            return State([(self.comma, (used, True))] if len(used) < 5 else [], final=True, skip=self.skip)
        left = self.pool.minus(self.words, self.pool.choice(used))
        return State([(Terminal(left), Capture(Remember(used)))], skip=self.skip)


def distinct_words(pool: Pool) -> Rule:
    plain = pool.star(pool.byteset(sum(1 << b for b in range(32, 127) if b != 34)))
    return Distinct(pool, pool.cat(pool.literal(b'"'), plain, pool.literal(b'"')))


def distinct_letters(pool: Pool) -> Rule:
    rule = StaticRule("document")
    distinct = Distinct(pool, pool.repeat(pool.byteset(0b111 << 97), 1, 3))
    return rule.define(sequence(literal(pool, "<"), distinct, literal(pool, ">"), optional(rule)))


@pytest.mark.parametrize(
    ("build", "text", "fits"),
    [
        (distinct_words, '"a","b"', True), (distinct_words, '"a","a"', False), (distinct_words, '"a", "ab" ,"abc"', True),
        (distinct_words, '"","a",""', False), (distinct_words, '"1","2","3","4","5"', True),
        (distinct_words, '"1","2","3","4","5","6"', False),
        (distinct_letters, "<a,b,ab>", True), (distinct_letters, "<a,b,a>", False), (distinct_letters, "<a,b,ab><a>", True),
        (distinct_letters, "<aa,aaa,a>", True), (distinct_letters, "<aa,aa>", False),
    ],
)  # fmt: skip
def test_captures(vocabulary: Vocabulary, build, text: str, fits: bool) -> None:
    automaton = Built(build).compile(vocabulary)
    assert automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())) is fits


@pytest.mark.parametrize("build", [arithmetic, json_like, statements, keyed, distinct_words, distinct_letters])
@pytest.mark.parametrize("seed", range(3))
def test_masks_successors_and_completions_by_brute_force(build, seed: int) -> None:
    vocabulary = Vocabulary(TOKENS + MORE, [EOS], [BOS])
    walk_and_check(Built(build).compile(vocabulary), 50, seed)
    letters = [t for t in range(len(vocabulary)) if vocabulary.is_text(t) and set(vocabulary.tokens[t]) <= set(b'abcn\xc3\xa9":0123, x')]
    for text in (b'"', b'"a', b'"aa', b'"ab', b'"abc', b'"abcab', b'"n', b'"x'):
        automaton = Built(keyed).compile(vocabulary)
        state = automaton.advance_bytes(automaton.start, text)
        assert bits(automaton.mask(state)) & set(letters) == {t for t in letters if automaton.allows(state, t)}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("if a b else c", True), ("ifa", True), ("if", False), ("1.x", True), ("1.5", True), ("1.5.x", True), ("  1 . x  ", True),
        ("if 1.x 2 else 3.y.z", True), ("1.", False), ("iff", True), ("", False), ("if ifx y else elsez", True),
        ("12.34.a.b", True), ("1.2.3", False),
    ],
)  # fmt: skip
def test_greedy_lexing(vocabulary: Vocabulary, text: str, fits: bool) -> None:
    automaton = Built(statements).compile(vocabulary)
    assert automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"a":1}', True), (' {"a":1}', False), ('{ "a" : [1, 2 ,3] }', True), ('{"a":[1,]}', False), ('{"a":1', False), ("[] ", False),
        ("[     ]", True), ("[      ]", False), ('[1,\n [[ "x"],2]]', True),
    ],
)  # fmt: skip
def test_blanks_are_skipped_between_lexemes_only(vocabulary: Vocabulary, text: str, fits: bool) -> None:
    automaton = Built(json_like).compile(vocabulary)
    assert automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())) is fits


def test_right_recursion_keeps_no_trail(vocabulary: Vocabulary) -> None:
    def build(pool: Pool) -> Rule:
        rule = StaticRule("list")
        return rule.define(union(sequence(lexeme(pool, pool.byteset(1 << 97 | 1 << 98)), rule), literal(pool, "c")))

    automaton = Built(build).compile(vocabulary)
    states = {automaton.advance_bytes(automaton.start, b"a" * n) for n in range(2, 200)}
    assert len(states) == 1


def test_equal_configurations_are_the_same_state(vocabulary: Vocabulary) -> None:
    automaton = Built(json_like).compile(vocabulary)
    first, second = (automaton.advance_bytes(automaton.start, t) for t in (b'{"a":[1,2', b'{"bcd" : [77, 5'))
    assert first == second
    assert automaton.advance_bytes(first, b"") == first


def test_big_counts_are_free_until_visited(vocabulary: Vocabulary) -> None:
    automaton = Built(
        lambda pool: StaticRule("r").define(repeat(sequence(literal(pool, "a"), optional(literal(pool, "b"))), 3, 100_000))
    ).compile(vocabulary)
    state = automaton.advance_bytes(automaton.start, b"aab" * 20)
    assert automaton.accepts(state)
    assert automaton.shortest_completion(automaton.start) == [258, 97]
    assert not automaton.accepts(automaton.advance_bytes(automaton.start, b"aab"))


def test_states_survive_a_full_arena() -> None:
    vocabulary = Vocabulary(TOKENS, [EOS], [BOS])
    automaton = Built(json_like).compile(vocabulary, Limits(arena=20))
    texts = [b'{"a":' + b"[" * n + b"1," * n for n in range(1, 15)]
    states = [automaton.advance_bytes(automaton.start, t) for t in texts]
    fresh = Built(json_like).compile(Vocabulary(TOKENS, [EOS], [BOS]))
    for _ in range(2):
        for text, state in zip(texts, states, strict=True):
            assert bits(automaton.mask(state)) == bits(fresh.mask(fresh.advance_bytes(fresh.start, text)))
            closing = b"1" + b"]" * text.count(b"[") + b"}"
            assert automaton.accepts(automaton.advance_bytes(state, closing))
    assert len(automaton._parser) < 2000


def test_end_of_sequence(vocabulary: Vocabulary) -> None:
    automaton = Built(arithmetic).compile(vocabulary)
    assert not automaton.allows(automaton.start, EOS)
    state = automaton.advance(automaton.start, ord("7"))
    done = automaton.advance(state, EOS)
    assert done == automaton.DONE
    assert automaton.accepts(done)
    assert bits(automaton.mask(done)) == {EOS}
    assert automaton.advance(done, EOS) == done
    assert automaton.advance(done, ord("7")) == automaton.DEAD
    assert automaton.advance(automaton.start, BOS) == automaton.DEAD
    assert automaton.successors(done)[0].size == 0


def test_bad_calls(vocabulary: Vocabulary) -> None:
    automaton = Built(arithmetic).compile(vocabulary)
    with pytest.raises(DeadEnd):
        automaton.mask(automaton.DEAD)
    with pytest.raises(DeadEnd):
        automaton.advance(999_999, 97)
    with pytest.raises(DeadEnd):
        automaton.shortest_completion(automaton.DEAD)
    with pytest.raises(ConstraintError, match="int32"):
        automaton.fill_mask(automaton.start, np.zeros(3, np.int32))
    with pytest.raises(ConstraintError, match="empty"):
        Built(lambda pool: StaticRule("loop")).compile(vocabulary)


def test_forced_text(vocabulary: Vocabulary) -> None:
    def build(pool: Pool) -> Rule:
        return StaticRule("r").define(sequence(literal(pool, "xaab"), union(literal(pool, "c"), literal(pool, "d"))))

    automaton = Built(build).compile(vocabulary)
    assert automaton.forced_bytes(automaton.start) == b"xaab"
    assert automaton.forced_tokens(automaton.start) == [ord("x")]  # what follows may still become "a", "abc"
    state = automaton.advance_bytes(automaton.start, b"xaabc")
    assert automaton.forced_bytes(state) == b""


def test_ambiguity_is_bounded() -> None:
    def build(pool: Pool) -> Rule:
        rules = [StaticRule(f"r{i}") for i in range(40)]
        for rule in rules:
            rule.define(union(literal(pool, "a"), *(sequence(a, b) for a in rules[:6] for b in rules)))
        return rules[0]

    automaton = Built(build).compile(Vocabulary(TOKENS, [EOS], [BOS]), Limits(item_set=200))
    with pytest.raises(LimitError, match="item_set"):
        state = automaton.start
        for _ in range(10):
            state = automaton.advance(state, 97)


def test_lazy_rules_are_expanded_once_a_state(vocabulary: Vocabulary) -> None:
    asked: list[int] = []

    class Countdown(Rule):
        """Exactly as many ``a`` as there were digits' worth at first: states by need."""

        name = "countdown"
        start = 1000

        def __init__(self, pool: Pool) -> None:
            self.letter = Terminal(pool.literal(b"a"))

        def expand(self, key) -> State:
            asked.append(key)
            return State([(self.letter, key - 1)] if key else [], final=key == 0)

    automaton = Built(Countdown).compile(vocabulary)
    state = automaton.advance_bytes(automaton.start, b"a" * 10)
    assert bits(automaton.mask(state)) == {97, 256 + 2}
    assert len(asked) == len(set(asked)) < 30
    assert sum(len(TOKENS[t]) for t in automaton.shortest_completion(state)) == 990


def test_repeat_rule_counts(vocabulary: Vocabulary) -> None:
    automaton = Built(lambda pool: RepeatRule(Terminal(pool.literal(b"a")), 2, 4)).compile(vocabulary)
    fits = [automaton.accepts(automaton.advance_bytes(automaton.start, b"a" * n)) for n in range(6)]
    assert fits == [False, False, True, True, True, False]


def test_what_an_automaton_leaves_is_freed_at_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}, "b": {"type": "array", "items": {"$ref": "#"}}}}
    vocabulary = Vocabulary([bytes([b]) for b in range(256)] + [b""], [256])
    gc.disable()
    try:
        automaton = JsonSchema(schema).compile(vocabulary)
        state = automaton.advance_bytes(automaton.start, b'{"a": "aa", "b": [{')
        automaton.mask(state)
        automaton.shortest_completion(state)
        parser = weakref.ref(automaton._parser)
        plans = [weakref.ref(plan) for plan in automaton._parser.rule_state_name(0)[0].writer.meaning._object_plans.values()]  # type: ignore[attr-defined]
        assert plans
        del automaton
        assert parser() is None
        assert all(plan() is None for plan in plans)
    finally:
        gc.enable()


def test_a_text_may_need_more_than_a_whole_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexer_module, "_MAX_STATES", 500)
    monkeypatch.setattr(automaton_module, "_PROGRESS", 20)
    vocabulary = Vocabulary([bytes([b]) for b in range(256)] + [b""], [256])
    automaton = JsonSchema({"type": "string", "maxLength": 600}).compile(vocabulary)
    states = [automaton.start]
    for byte in b'"' + b"a" * 600 + b'"':
        states.append(automaton.advance(states[-1], byte))
        assert states[-1] != automaton.DEAD
    assert automaton.accepts(states[-1])
    assert automaton.advance(states[-2], ord("a")) == automaton.DEAD
    assert automaton.advance(states[-3], ord("a")) != automaton.DEAD
    before = len(automaton._lexer)
    for state in states[::50]:
        automaton.mask(state)
    assert len(automaton._lexer) >= before, "the tables were begun anew for a text that needs all of them"
