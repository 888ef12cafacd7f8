"""The pool's expressions as the kernels see them, and back.

Kernels find the derivatives of spelt texts, of what is none of some texts and of counted repetitions by themselves (:mod:`.kernels.texts`);
for everything else they ask, once an expression, and are given the pool's answer as moves. :class:`Mirror` translates: a concatenation
whose head or tail is of these kinds becomes a node of the kernels, whatever else is in it stays an *atom*, an expression of the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .kernels import earley
from .kernels.fields import GROW, N_MOVES
from .kernels.texts import BYTE, CHAIN, COUNT, EXCEPT, NATIVE, PAIR, RAW, WALK
from .regex.alternatives import charsets_of, within
from .regex.kinds import ALT, BOTH, BYTES, CAT, LEAF, LITERAL, REPEAT, WORDS
from .strings import ANY_ESCAPES, MINIMAL_ESCAPES, Except, TextSet, Walk, any_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .kernels.memory import Tables
    from .regex.expr import Pool
    from .strings import Speller

__all__ = ["NOTHING", "NO_ITEMS", "NO_PARSER", "Mirror"]

NO_PARSER = np.empty(0, np.int64)
NO_ITEMS = np.empty((0, 2), np.int32)
_FEW = 64  # texts of a set that are looked for one by one
#: The last arguments of :func:`grammars.kernels.earley.run` where an operation needs none.
NOTHING = (np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int32))


class Mirror:
    """Translates between one pool and the tables of one lexer.

    Args:
        pool: the expressions.
        tables: the lexer's; see :mod:`.kernels.fields`.
        grow: makes the room that kernels asked for.
    """

    def __init__(self, pool: Pool, tables: Tables, grow: Callable[[], None]) -> None:
        self.pool, self.tables = pool, tables
        self._grow = grow
        self._natives: dict[int, int] = {}
        self._parts: dict[tuple[int, int], bool] = {}
        self._exprs: dict[int, int] = {}
        self._text_ids: dict[tuple[str, bool] | bytes, int] = {}
        self._texts: list[tuple[str, Speller] | bytes] = []
        self._set_ids: dict[TextSet, int] = {}
        self._sets: list[TextSet] = []
        self._codes = self._set_texts = 0
        tables.writable[0] = np.frombuffer(pool.writable_bytes.to_bytes(32, "little"), np.uint64)
        self._atom(pool.EPSILON)
        tables.atoms[pool.EPSILON, :2] = 0

    # ------------------------------------------------------------ to the kernels
    def native(self, e: int) -> int:
        """The kernels' expression for the pool's ``e``."""
        natives, pool = self._natives, self.pool
        found = natives.get(e)
        chain = []
        while found is None and pool.kinds[e] == CAT:  # down to a tail that is known: what stands behind a key, say
            head, tail = pool.args[e]
            chain.append((head, e))
            e = tail
            found = natives.get(e)
        if found is None:
            found = natives[e] = self._front(e, pool.EPSILON, e)
        for head, whole in reversed(chain):
            found = natives[whole] = self._front(head, found, whole)
        return found

    def _front(self, head: int, rest: int, whole: int) -> int:
        """``head`` in front of ``rest``; ``whole`` is the pool's expression for that."""
        pool = self.pool
        kind, args = pool.kinds[head], pool.args[head]
        if kind == LITERAL:
            return self._spelt(self._text(args[0]), rest)
        if kind == LEAF and isinstance(args[0], Walk):
            begun = args[0]
            if len(begun.texts.texts) == 1 and not begun.depth and not begun.prefix:
                return self._spelt(self._text((begun.texts.texts[0], begun.texts.codec)), rest)
            return self._node(WALK, self._walk_of(begun), 0, 0, rest)
        if kind == LEAF and isinstance(args[0], Except):
            return self._node(EXCEPT, self._walk_of(args[0].walk), self._atom(args[0].others), 0, rest)
        if self._repeats(head):
            body, lo, hi = args
            star = pool.star(body)
            self._atom(star)
            self.tables.atoms[self._atom(body), 4:] = min(pool.min_length(body), NATIVE), star
            return self._node(COUNT, body, lo, -1 if hi is None else hi, rest)
        if kind == BOTH:
            counts = [e for e in args if self._counts(e)]
            if counts:
                others = pool.both(*(e for e in args if e != counts[0]))
                body = pool.args[counts[0]][0]
                if not self._made_of(body, others):  # kernels count on that: else too long is not the only way to have nothing in common
                    others = pool.both(pool.star(body), others)
                whole = self._node(PAIR, self.native(counts[0]), self.native(others), 0, rest)
                self.tables.nodes[whole - NATIVE, 8] = 1
                return whole
        if rest >= NATIVE:
            return self._node(CHAIN, self._atom(head), 0, 0, rest)
        return self._atom(whole)

    def _repeats(self, e: int) -> bool:
        """Whether an expression is a counted repetition that kernels can count (any number of times is an atom)."""
        pool = self.pool
        if pool.kinds[e] != REPEAT:
            return False
        body, lo, hi = pool.args[e]
        return bool((lo or hi is not None) and max(lo, hi or 0) < NATIVE and not pool.is_empty(body))

    def _counts(self, e: int) -> bool:
        """Whether an expression is a string's length, say: a bounded repetition of something prefix-free."""
        return self._repeats(e) and self.pool.args[e][2] is not None and self.pool.prefix_free(self.pool.args[e][0])

    def _made_of(self, body: int, e: int) -> bool:
        """Whether every member of ``e`` is known to be in ``body*``; looks at the structure only."""
        key = body, e
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self._consists(body, e)
        return found

    def _consists(self, body: int, e: int) -> bool:
        pool = self.pool
        while pool.kinds[e] == CAT:
            head, e = pool.args[e]
            if not self._made_of(body, head):
                return False
        kind, args = pool.kinds[e], pool.args[e]
        if e in (pool.EMPTY, pool.EPSILON) or within(pool, e, body):
            return True
        if kind in (LITERAL, BYTES):
            return pool.is_empty(pool.minus(e, pool.star(body)))
        if kind == REPEAT:
            return self._made_of(body, args[0])
        if kind == ALT:
            return all(self._made_of(body, m) for m in args)
        if kind == BOTH:
            return any(self._made_of(body, m) for m in args)
        if kind == LEAF and isinstance(args[0], Except):
            return self._made_of(body, args[0].others)
        for encoder in (ANY_ESCAPES, MINIMAL_ESCAPES):
            if kind == LEAF and pool.star(body) == any_text(pool, encoder):
                if isinstance(args[0], Walk):
                    return not args[0].prefix and args[0].texts.codec.minimal == (encoder is MINIMAL_ESCAPES)
                return encoder in charsets_of(pool, e)
        return False

    def _atom(self, e: int) -> int:
        """Makes an expression of the pool known to the kernels."""
        self.tables.reserve("atoms", e + 1)[e, 2] = self.pool.nullable(e)
        return e

    def _run(self, operation: int, a: int = 0, b: int = 0, numbers: tuple[int, ...] = ()) -> int:
        """What the kernel returns, given room."""
        items = NO_ITEMS
        if numbers:
            items = np.zeros((3, 2), np.int32)
            items.reshape(-1)[: len(numbers)] = numbers
        while True:
            found: int = earley.run(NO_PARSER, self.tables.context, operation, a, b, items, *NOTHING)
            if found != GROW:
                return found
            self._grow()

    def _spelt(self, text: int, rest: int) -> int:
        return self._run(earley.SPELT, text, rest)

    def _node(self, kind: int, a: int, b: int, c: int, rest: int) -> int:
        return self._run(earley.NODE, numbers=(kind, a, b, c, rest))

    def _walk_of(self, walk: Walk) -> int:
        return self._run(earley.WALK_OF, numbers=(self._set(walk.texts), walk.lo, walk.hi, walk.depth, *_encode(walk.prefix)))

    def _set(self, texts: TextSet) -> int:
        """The number of a set of texts."""
        found = self._set_ids.get(texts)
        if found is None:
            found = self._set_ids[texts] = len(self._sets)
            self._sets.append(texts)
            few = len(texts.texts) <= _FEW
            numbers = [self._text((text, texts.codec)) for text in texts.texts] if few else self._many(texts)
            first, self._set_texts = self._set_texts, self._set_texts + len(numbers)
            self.tables.reserve("set_texts", self._set_texts)[first : self._set_texts] = numbers
            self.tables.reserve("sets", found + 1)[found] = first, len(numbers)
        return found

    def _many(self, texts: TextSet) -> NDArray[np.int32]:
        """The numbers of texts that are too many to be looked for among those that are there."""
        made = texts.codec.codes("".join(texts.texts))
        first, self._codes = self._codes, self._codes + len(made)
        self.tables.reserve("codes", self._codes)[first : self._codes] = made
        lengths = np.fromiter(map(len, texts.texts), np.int32, len(texts.texts))
        begin = len(self._texts)
        self._texts += [(text, texts.codec) for text in texts.texts]
        rows = self.tables.reserve("texts", len(self._texts))[begin : len(self._texts)]
        rows[:, 0], rows[:, 1] = first + lengths.cumsum() - lengths, lengths
        return np.arange(begin, len(self._texts), dtype=np.int32)

    def _text(self, text: tuple[str, Speller] | bytes) -> int:
        """The number of a text with its way of spelling, or of a byte string."""
        key = text if isinstance(text, bytes) else (text[0], text[1].minimal)
        found = self._text_ids.get(key)
        if found is None:
            found = self._text_ids[key] = len(self._texts)
            self._texts.append(text)
            if isinstance(text, bytes):
                codes = [byte | RAW | BYTE for byte in text]
            else:
                codes = text[1].codes(text[0])
            first, self._codes = self._codes, self._codes + len(codes)
            self.tables.reserve("codes", self._codes)[first : self._codes] = codes
            self.tables.reserve("texts", found + 1)[found] = first, len(codes)
        return found

    def answer(self, e: int) -> None:
        """Gives the kernels the moves of ``e``, which they asked for."""
        tables, pool = self.tables, self.pool
        if e < 0:
            self._tell(-1 - e)
            return
        expr = self.expr(e)
        parts = pool.transitions(expr)
        targets = [self.native(t) for _, t in parts]
        first = int(tables.count[N_MOVES])
        end = first + len(parts)
        if parts:
            masks = np.frombuffer(b"".join([mask.to_bytes(32, "little") for mask, _ in parts]), np.uint64)
            tables.reserve("masks", end)[first:end] = masks.reshape(-1, 4)
            tables.reserve("targets", end)[first:end] = targets
        tables.count[N_MOVES] = end
        if e >= NATIVE:
            tables.nodes[e - NATIVE, 5:7] = first, len(parts)
            return
        self._atom(e)
        tables.atoms[e, :2] = first, len(parts)
        if pool.nullable(e):
            without = self._atom(pool.nonnull(e))
            tables.atoms[e, 3] = without

    def _tell(self, e: int) -> None:
        """Notes the least bytes of ``e``, or whether a pair has a member."""
        tables, pool = self.tables, self.pool
        if e < NATIVE:
            tables.atoms[self._atom(e), 4] = min(pool.min_length(e), NATIVE)
        elif tables.nodes[e - NATIVE, 0] == PAIR:
            _, a, b = tables.nodes[e - NATIVE, :3].tolist()
            tables.nodes[e - NATIVE, 8] = not pool.is_empty(pool.both(self.expr(a), self.expr(b)))
        else:
            tables.nodes[e - NATIVE, 8] = min(pool.min_length(self.expr(e)), NATIVE)

    def is_pair(self, e: int) -> bool:
        """Whether the kernels' ``e`` begins with what two expressions have in common."""
        return e >= NATIVE and bool(self.tables.nodes[e - NATIVE, 0] == PAIR)

    def bounded(self, e: int) -> tuple[int, int, int, int] | None:
        """(body, most, pattern, rest), if ``e`` begins with what up to ``most`` times ``body`` and a pattern have in common.

        Only where the body is prefix-free, and ``rest`` begins otherwise, so that bytes tell where the pattern ends.
        """
        if not self.is_pair(e):
            return None
        nodes = self.tables.nodes
        _, a, b, _, rest = nodes[e - NATIVE, :5].tolist()
        if a < NATIVE:
            return None
        kind, body, lo, hi, end = nodes[a - NATIVE, :5].tolist()
        if kind != COUNT or lo or hi < 0 or end != self.pool.EPSILON or not self.pool.prefix_free(body):
            return None
        return (body, hi, b, rest) if self._disjoint(body, self.expr(rest)) else None

    def chain(self, a: int, b: int) -> int:
        """The kernels' expression of ``a`` and then ``b``."""
        return self._run(earley.CAT_OF, a, b)

    # ------------------------------------------------------------ counted repetitions
    def repetition(self, e: int) -> tuple[int, int, int, int] | None:
        """(body, least, most or -1, rest), if ``e`` repeats a prefix-free body, and what follows begins otherwise."""
        if e < NATIVE:
            return None
        kind, body, lo, hi, rest = self.tables.nodes[e - NATIVE, :5].tolist()
        if kind != COUNT or rest == self.pool.EPSILON or not self.pool.prefix_free(body):
            return None
        after = self.expr(rest)
        return (body, lo, hi, rest) if self._disjoint(body, after) and self._without(body, after) else None

    def _without(self, body: int, e: int) -> bool:
        """Whether ``e`` is known never to come to repeat ``body`` itself, which would be counted as well; looks at the structure only."""
        pool = self.pool
        while pool.kinds[e] == CAT:
            head, e = pool.args[e]
            if not self._without(body, head):
                return False
        kind, args = pool.kinds[e], pool.args[e]
        if kind == ALT:
            return all(self._without(body, m) for m in args)
        if kind == REPEAT:
            return args[0] != body and self._without(body, args[0])
        return kind in (BYTES, LITERAL, WORDS) or e == pool.EPSILON or (kind == LEAF and not isinstance(args[0], Except))

    def _disjoint(self, a: int, b: int) -> bool:
        union = 0
        for mask, _ in self.pool.raw(b):
            union |= mask
        return not self.pool.nullable(b) and not any(mask & union for mask, _ in self.pool.raw(a))

    def counted(self, body: int, most: int, rest: int) -> int:
        """``body`` up to ``most`` times, then ``rest``."""
        return self._node(COUNT, body, 0, most, rest)

    # ------------------------------------------------------------ back
    def expr(self, e: int) -> int:
        """The pool's expression for the kernels' ``e``."""
        if e < NATIVE:
            return e
        found = self._exprs.get(e)
        if found is None:
            pool = self.pool
            nodes = self.tables.nodes
            chain = []
            last = e
            while last >= NATIVE and last not in self._exprs:
                chain.append(last)
                last = int(nodes[last - NATIVE, 4])
            found = self._exprs.get(last, last)
            for n in reversed(chain):
                found = self._exprs[n] = pool.cat(self._head(*nodes[n - NATIVE, :4].tolist()), found)
        return found

    def _head(self, kind: int, a: int, b: int, c: int) -> int:
        pool = self.pool
        if kind == CHAIN:
            return a
        if kind == COUNT:
            return pool.repeat(a, b, None if c < 0 else c)
        if kind == PAIR:
            return pool.both(self.expr(a), self.expr(b))
        texts, lo, hi, depth, stage, value = self.tables.walks[a].tolist()
        if texts < 0:
            text = self._texts[-1 - texts]
            if isinstance(text, bytes):
                return pool.literal_piece(text[depth:])
            walk = Walk(TextSet.of((text[0],), text[1]), 0, 1, depth, _decode(stage, value))
        else:
            walk = Walk(self._sets[texts], lo, hi, depth, _decode(stage, value))
        return pool.leaf(walk if kind == WALK else Except(walk, b, pool))


def _encode(prefix: bytes) -> tuple[int, int]:
    """What is read of a spelling as the kernels note it: stage, value."""
    if not prefix.startswith(b"\\"):
        return len(prefix), int.from_bytes(prefix, "big")
    digits = prefix[2:6] + prefix[8:]
    value = int(digits, 16) if digits else 0
    return (4 if len(prefix) == 1 else len(prefix) + 3), value


def _decode(stage: int, value: int) -> bytes:
    """What is read of a spelling (digits in lower case), from stage and value."""
    if stage <= 3:
        return value.to_bytes(stage, "big")
    if stage <= 8:
        return b"\\u%0*x" % (stage - 5, value) if stage > 5 else b"\\u"[: stage - 3]
    second = max(stage - 11, 0)
    text = b"%0*x" % (4 + second, value)
    return b"\\u" + text[:4] + b"\\u"[: min(stage - 9, 2)] + text[4:]
