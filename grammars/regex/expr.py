"""Hash-consed regular expressions over bytes, with lazily computed derivatives.

A :class:`Pool` interns expressions: an expression is a small integer, equal numbers are equal
expressions, and everything that is a function of an expression is computed once. Smart constructors
normalise at birth (similarity in the sense of Brzozowski, "Derivatives of regular expressions", 1964, and Owens, Reppy and
Turon, "Regular-expression derivatives re-examined", 2009), so that the derivatives of an expression are finitely many
and in practice few. Derivatives by *all* bytes are found at once as a partition of the byte values
(:meth:`Pool.transitions`): 256-bit integers are the masks.

The searches (emptiness, shortest member) are in :mod:`.search`, cutting at a horizon in :mod:`.saturate`, derivatives in
:mod:`.derivatives`, the simplification of alternatives in :mod:`.alternatives`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from ..errors import LimitError
from ..limits import Limits
from . import alternatives, derivatives, saturate, search
from .charset import ANY, CharSet
from .derivatives import Parts
from .kinds import ALL_BYTES, ALT, BOTH, BYTES, CAT, EMPTY, EPSILON, LEAF, LITERAL, NOT, REPEAT, VARIABLE, WORDS
from .leaves import Leaf, Utf8

__all__ = ["ALL_BYTES", "STEP", "Leaf", "Pool"]

STEP = 6
"""A step may do the work of so many searches; see :meth:`Pool.metered`."""
_T = TypeVar("_T")
_CHUNK = 64  # literals are cut into pieces of this many bytes, from their end
_MANY = 8  # this many literals in one alternation become a sorted word list


class Pool:
    """A table of byte-regular expressions (ids). One pool serves any number of constraints over one vocabulary.

    Args:
        writable: characters that can be written at all (default: every one); others are left out of classes and literals.
        writable_bytes: bytes that can be written, as a 256-bit mask.
        fuel: work (nodes made plus members of the alternatives and intersections made) that one search may spend before it ends in
            :class:`~grammars.errors.LimitError`; default ``Limits().fuel``. The derivatives of one expression may spend :data:`STEP`
            times as much.

    Attributes:
        work: done so far.
        deadline: the work at which the step under way ends in an error; infinity where none is metered (see :meth:`metered`).

    Not thread-safe: the owner serialises access.
    """

    EMPTY = 0
    EPSILON = 1

    def __init__(self, writable: CharSet | None = None, writable_bytes: int = ALL_BYTES, fuel: int | None = None) -> None:
        self.writable, self.writable_bytes = writable, writable_bytes
        self.fuel = Limits().fuel if fuel is None else fuel
        self.work = 0
        self.deadline, self._allowed = math.inf, self.fuel
        self._ids: dict[tuple[Any, ...], int] = {}
        self.kinds: list[int] = []
        self.args: list[tuple[Any, ...]] = []
        self._nullable: list[bool] = []
        self.known: list[bool | None] = []  # whether the language is empty; None: not found out yet
        self._raw: list[Parts | None] = []
        self._transitions: list[tuple[tuple[int, int], ...] | None] = []
        self._word_sets: dict[tuple[bytes, ...], int] = {}
        self.words: list[tuple[bytes, ...]] = []
        self._chars: dict[CharSet, int] = {}
        self.definitions: dict[int, int] = {}
        self._undefined: dict[int, tuple[Any, ...]] = {}  # variables without a definition yet: derivatives wait
        self._nonnull: dict[int, int] = {}
        self.shortest_memo: dict[int, bytes | None] = {}
        self.bound_memo: dict[int, int] = {}
        self.saturate_memo: dict[tuple[int, int], int] = {}
        self.charset_memo: dict[int, dict[alternatives.Encoder | None, CharSet]] = {}
        self.chars_memo: dict[tuple[int, alternatives.Encoder | None], int | None] = {}
        self.within_memo: dict[tuple[int, int], bool] = {}
        self.shape_memo: dict[int, alternatives.Shape | None] = {}
        self._new((EMPTY,), (), False, True)
        self._new((EPSILON,), (), True, False)
        self.universe = writable_bytes
        if writable is not None and writable_bytes != ALL_BYTES:
            self.universe |= search.byte_closure(self, self.chars(ANY))
        self.anything = self._new((NOT, 0), (0,), True, False)
        self._any_text: int | None = None

    # ------------------------------------------------------------ interning
    def _new(self, key: tuple[Any, ...], args: tuple[Any, ...], nullable: bool, empty: bool | None) -> int:
        node = self._ids.get(key)
        if node is None:
            node = len(self.kinds)
            self._ids[key] = node
            self.kinds.append(key[0])
            self.args.append(args)
            self._nullable.append(nullable)
            self.known.append(empty)
            self._raw.append(None)
            self._transitions.append(None)
            self.work += 1
            if self.work > self.deadline:
                self.charge(0)
        return node

    def __len__(self) -> int:
        return len(self.kinds)

    def charge(self, units: int) -> None:
        """Counts work, of whatever kind, that was done or is about to be done.

        Raises:
            LimitError: the step under way has no fuel left.
        """
        self.work += units
        if self.work > self.deadline:
            raise LimitError("fuel", self._allowed, f"{STEP} times over, in one step of working out a language")

    def metered(self, fuel: int, step: Callable[[], _T]) -> _T:
        """What ``step`` returns, which may spend :data:`STEP` times that fuel; a step within a metered one has a share in that one's.

        Raises:
            LimitError: it needs more.
        """
        if self.deadline < math.inf:
            return step()
        self.deadline, self._allowed = self.work + STEP * fuel, fuel
        try:
            return step()
        finally:
            self.deadline = math.inf

    def spend(self, start: int) -> None:
        """Raises :class:`LimitError` if the work done since ``start`` (a former value of ``work``) exceeds the fuel."""
        if self.work - start > self.fuel:
            raise LimitError("fuel", self.fuel, "in a search over the states of a regular expression")

    # ------------------------------------------------------------ atoms
    def byteset(self, mask: int) -> int:
        """One byte out of ``mask`` (bit ``b`` for byte ``b``) and the writable bytes."""
        return self._bytes(mask & self.writable_bytes)

    def _bytes(self, mask: int) -> int:
        if mask & (mask - 1) == 0:
            return self._literal(bytes((mask.bit_length() - 1,))) if mask else 0
        return self._new((BYTES, mask), (mask,), False, False)

    def literal(self, data: bytes) -> int:
        """Exactly ``data``; EMPTY if it cannot be written (as characters where it is UTF-8, byte by byte otherwise)."""
        return self._cut(data) if self._can_write(data) else 0

    def _can_write(self, data: bytes) -> bool:
        if self.writable is None and self.writable_bytes == ALL_BYTES:
            return True
        if self.writable is not None:
            try:
                return all(c in self.writable for c in data.decode())
            except UnicodeDecodeError:
                pass
        return all(self.writable_bytes >> b & 1 for b in set(data))

    def _cut(self, data: bytes) -> int:
        out, end = 1, len(data)
        while end > 0:
            start = max(0, end - _CHUNK)
            piece = self._literal(data[start:end])
            out = piece if out == 1 else self._new((CAT, piece, out), (piece, out), False, False)
            end = start
        return out

    def literal_piece(self, data: bytes) -> int:
        """Part of a literal that exists already (nothing is checked)."""
        return self._cut(data)

    def _literal(self, data: bytes) -> int:
        return self._new((LITERAL, data), (data,), False, False) if data else 1

    def chars(self, chars: CharSet) -> int:
        """One UTF-8 encoded character out of ``chars`` and the writable ones."""
        node = self._chars.get(chars)
        if node is None:
            kept = chars if self.writable is None else chars & self.writable
            if kept and kept.ranges[-1][1] < 0x80:
                node = self._bytes(kept.ascii_mask)
            else:
                leaf = Utf8.of(kept)
                if len(kept) == 1 and leaf.ranges:
                    node = self._cut(chr(leaf.ranges[0][0]).encode())
                else:
                    node = self.leaf(leaf) if leaf.ranges else 0
            self._chars[chars] = node
        return node

    def note_chars(self, e: int, encoder: alternatives.Encoder, chars: CharSet) -> None:
        """Says that ``e`` is one character out of ``chars`` as ``encoder`` writes it, so that counted repetitions
        of such can be simplified. The encoder must be a prefix-free code that writes different characters differently."""
        alternatives.charsets_of(self, e)[encoder] = chars

    def any_text(self) -> int:
        """Any text: (any writable character)*. Complements of text languages are intersected with it."""
        if self._any_text is None:
            self._any_text = self.star(self.chars(ANY))
        return self._any_text

    def leaf(self, leaf: Leaf) -> int:
        """A user-defined automaton, see :class:`~grammars.regex.leaves.Leaf`."""
        if type(leaf) is Utf8 and leaf.remaining == 1:
            return self._bytes(leaf.mask)
        return self._new((LEAF, leaf), (leaf,), leaf.nullable, False)

    def variable(self, key: Hashable, nullable: bool) -> tuple[int, bool]:
        """A recursively defined expression, by its key: ``(id, whether it was made now and still needs define)``.

        The definition may use the id only behind at least one byte, and ``nullable`` must be the truth about it.
        """
        before = len(self.kinds)
        node = self._new((VARIABLE, key), (before,), nullable, False if nullable else None)
        if node == before:
            self._undefined[node] = (VARIABLE, key)
        return node, node == before

    def define(self, variable: int, expr: int) -> None:
        """Gives a variable its meaning (once)."""
        if self._nullable[variable] != self._nullable[expr]:
            raise ValueError("a variable's definition must be nullable exactly if the variable is")
        self.definitions[variable] = expr
        del self._undefined[variable]

    def abandon(self) -> None:
        """Forgets the variables that were not defined (because an error came between), so that their keys can be used again."""
        for key in self._undefined.values():
            del self._ids[key]
        self._undefined.clear()

    # ------------------------------------------------------------ concatenation and repetition
    def cat(self, *parts: int) -> int:
        """Concatenation."""
        if len(parts) == 2:
            return self._cat(parts[0], parts[1])
        out = 1
        for part in reversed(parts):
            out = self._cat(part, out)
        return out

    def _cat(self, a: int, b: int) -> int:
        if b == 1 or a == 0:
            return a
        if a == 1 or b == 0:
            return b
        kind = self.kinds[a]
        if kind == CAT:  # right-nested: the heads of `a` are put in front of `b`, the last one first
            heads = []
            while self.kinds[a] == CAT:
                head, a = self.args[a]
                heads.append(head)
            b = self._cat(a, b)
            for head in reversed(heads):
                b = self._cat(head, b)
            return b
        if kind == LITERAL:
            return self._cat_literal(a, b)
        if a == self.anything and (b == a or (self.kinds[b] == CAT and self.args[b][0] == a)):
            return b
        if kind == REPEAT:
            b_head, b_tail = self.args[b] if self.kinds[b] == CAT else (b, 1)
            if self.kinds[b_head] == REPEAT:
                (body, lo, hi), (body2, lo2, hi2) = self.args[a], self.args[b_head]
                if body == body2:
                    return self._cat(self.repeat(body, lo + lo2, None if hi is None or hi2 is None else hi + hi2), b_tail)
                if hi2 is None and hi != lo and alternatives.within(self, body, body2):  # x{2,5}.* is x{2}.*
                    return self._cat(self.repeat(body, lo, lo), b)
                if hi is None and hi2 != lo2 and alternatives.within(self, body2, body):  # .*x{2,5} is .*x{2}
                    return self._cat(a, self._cat(self.repeat(body2, lo2, lo2), b_tail))
        return self._new((CAT, a, b), (a, b), self._nullable[a] and self._nullable[b], self._cat_known(a, b))

    def _cat_known(self, a: int, b: int) -> bool | None:
        if self.known[a] is False and self.known[b] is False:
            return False
        return True if self.known[a] or self.known[b] else None

    def _cat_literal(self, a: int, b: int) -> int:
        data, rest = self.args[a][0], 1
        if self.kinds[b] == LITERAL:
            return self._cut(data + self.args[b][0])
        if self.kinds[b] == CAT and self.kinds[self.args[b][0]] == LITERAL and len(self.args[self.args[b][0]][0]) < _CHUNK:
            head, rest = self.args[b]
            data += self.args[head][0]
            if len(data) > _CHUNK:
                piece = self._literal(data[-_CHUNK:])
                b = self._new((CAT, piece, rest), (piece, rest), False, self.known[rest])
                a = self._literal(data[:-_CHUNK])
            else:
                a, b = self._literal(data), rest
        return self._new((CAT, a, b), (a, b), False, self.known[b])

    def repeat(self, e: int, lo: int = 0, hi: int | None = None) -> int:
        """``e`` at least ``lo`` and at most ``hi`` times (``None``: without bound). Costs nothing until it is visited."""
        if lo < 0 or (hi is not None and hi < lo):
            raise ValueError(f"a repetition needs 0 <= lo <= hi, not {lo}, {hi}")
        if hi == 0 or e == 1:
            return 1
        if e == 0:
            return 0 if lo else 1
        if self._nullable[e]:
            e, lo = self.nonnull(e), 0
            if e == 0:
                return 1
        if lo == 1 and hi == 1:
            return e
        if self.kinds[e] == REPEAT:
            body, lo1, hi1 = self.args[e]
            # The counts k*lo1..k*hi1 for k = lo..hi join into one interval if neighbours touch from the smallest k on.
            if hi1 is None:
                joins = lo > 0 or lo1 == 1
            else:
                joins = lo == hi or (lo * hi1 + 1 >= (lo + 1) * lo1 and (lo > 0 or lo1 <= 1))
            if joins:
                return self.repeat(body, lo * lo1, None if hi is None or hi1 is None else hi * hi1)
        empty = False if lo == 0 else self.known[e]
        return self._new((REPEAT, e, lo, -1 if hi is None else hi), (e, lo, hi), lo == 0, empty)

    def star(self, e: int) -> int:
        return self.repeat(e, 0, None)

    def plus(self, e: int) -> int:
        return self.repeat(e, 1, None)

    def opt(self, e: int) -> int:
        return self.repeat(e, 0, 1)

    # ------------------------------------------------------------ boolean operations
    def alt(self, *members: int) -> int:
        """Union."""
        if len(members) == 2 and (members[0] == members[1] or members[1] == 0):
            return members[0]
        return self._alt(members)

    def _alt(self, members: Iterable[int]) -> int:
        kinds, args = self.kinds, self.args
        flat: set[int] = set()
        mask, epsilon = 0, False
        todo = list(members)
        while todo:
            m = todo.pop()
            if kinds[m] == REPEAT and args[m][2] == 1:  # x? is taken apart, so that there is one way to write it
                epsilon = True
                todo.append(args[m][0])
                continue
            for e in args[m] if kinds[m] == ALT else (m,):
                kind = kinds[e]
                if kind == BYTES:
                    mask |= args[e][0]
                elif kind == LITERAL and len(args[e][0]) == 1:
                    mask |= 1 << args[e][0][0]
                elif e == 1:
                    epsilon = True
                elif e:
                    flat.add(e)
        if self.anything in flat:
            return self.anything
        if mask:
            flat.add(self._bytes(mask))
        self.charge(len(flat))
        if len(flat) > 1:
            flat = alternatives.simplify(self, flat)
            if len(flat) >= _MANY:
                flat = self._fold_words(flat)
        node = self._alt_node(flat)
        if epsilon and not self._nullable[node]:
            return self.repeat(node, 0, 1) if node else 1
        return node

    def _alt_node(self, flat: set[int]) -> int:
        if len(flat) <= 1:
            return next(iter(flat)) if flat else 0
        ids = tuple(sorted(flat))
        known: bool | None = True
        for e in ids:
            if self.known[e] is False:
                known = False
                break
            if self.known[e] is None:
                known = None
        return self._new((ALT, *ids), ids, any(self._nullable[e] for e in ids), known)

    def _fold_words(self, flat: set[int]) -> set[int]:
        """Many literals become one sorted word list, which is cheap however many there are."""
        literals = {e for e in flat if self.kinds[e] == LITERAL}
        if len(literals) < _MANY:
            return flat
        return (flat - literals) | {self.word_list(self.args[e][0] for e in literals)}

    def word_list(self, words: Iterable[bytes]) -> int:
        """The union of many literals (writability is the caller's business: see :meth:`choice`)."""
        key = tuple(sorted(set(words)))
        number = self._word_sets.get(key)
        if number is None:
            number = self._word_sets[key] = len(self.words)
            self.words.append(key)
        return self.word_range(number, 0, len(key), 0)

    def choice(self, words: Iterable[bytes]) -> int:
        """One of ``words`` (those that can be written); any number of them is cheap."""
        return self.word_list(w for w in words if self._can_write(w))

    def word_range(self, number: int, lo: int, hi: int, depth: int) -> int:
        """Words ``lo:hi`` of a list, whose first ``depth`` bytes (the same in all) are read already."""
        if hi - lo <= 1:
            return self._cut(self.words[number][lo][depth:]) if lo < hi else 0
        return self._new((WORDS, number, lo, hi, depth), (number, lo, hi, depth), len(self.words[number][lo]) == depth, False)

    def both(self, *members: int) -> int:
        """Intersection."""
        kinds, args = self.kinds, self.args
        flat: set[int] = set()
        denied: set[int] = set()
        mask = -1
        for m in members:
            for e in args[m] if kinds[m] == BOTH else (m,):
                if e == 0:
                    return 0
                if kinds[e] == BYTES:
                    mask &= args[e][0]
                elif kinds[e] == NOT:
                    denied.add(args[e][0])
                else:
                    flat.add(e)
        if mask != -1:
            flat.add(self._bytes(mask))
        if not flat and mask == -1:
            return self.negate(self._alt(denied))
        if 0 in flat or flat & denied:
            return 0
        return self._both(flat, self._alt(denied) if denied else 0)

    def _both(self, flat: set[int], denied: int) -> int:
        self.charge(len(flat) + 1)
        if 1 in flat:
            return 0 if self._nullable[denied] or not all(self._nullable[e] for e in flat) else 1
        finite = min((e for e in flat if self.kinds[e] in (LITERAL, WORDS)), default=None, key=lambda e: (self.kinds[e], e))
        if finite is not None and (len(flat) > 1 or denied) and not self._undefined:
            return self._filter(finite, flat - {finite}, denied)
        if len(flat) > 1:
            flat = alternatives.intersect_repeats(self, flat)
            if 0 in flat:
                return 0
        if denied:
            flat = flat | {self.negate(denied)}
        if len(flat) == 1:
            return next(iter(flat))
        ids = tuple(sorted(flat))
        nullable = all(self._nullable[e] for e in ids)
        return self._new((BOTH, *ids), ids, nullable, False if nullable else None)

    def _filter(self, finite: int, others: set[int], denied: int) -> int:
        """The words of a literal or word list that are in all ``others`` and not in ``denied``."""
        if self.kinds[finite] == LITERAL:
            words: Sequence[bytes] = self.args[finite]
        else:
            number, lo, hi, depth = self.args[finite]
            words = [w[depth:] for w in self.words[number][lo:hi]]
        kept = [w for w in words if all(self.matches(e, w) for e in others) and not self.matches(denied, w)]
        return finite if len(kept) == len(words) else self.word_list(kept)

    def negate(self, e: int) -> int:
        """Byte strings that are not in ``e``. For text, intersect with :meth:`any_text`."""
        if self.kinds[e] == NOT:
            return int(self.args[e][0])
        nullable = not self._nullable[e]
        return self._new((NOT, e), (e,), nullable, False if nullable else None)

    def minus(self, a: int, b: int) -> int:
        """What is in ``a`` and not in ``b``."""
        return a if b == 0 else self.both(a, self.negate(b))

    # ------------------------------------------------------------ properties
    def nullable(self, e: int) -> bool:
        """Whether the empty string is in the language."""
        return self._nullable[e]

    def nonnull(self, e: int) -> int:
        """The language without the empty string."""
        if not self._nullable[e]:
            return e
        node = self._nonnull.get(e)
        if node is None:
            node = self._nonnull[e] = self._without_empty(e)
        return node

    def _without_empty(self, e: int) -> int:
        kind, args = self.kinds[e], self.args[e]
        if kind == ALT:
            return self._alt([self.nonnull(m) for m in args])
        if kind == BOTH:
            return self.both(*(self.nonnull(m) for m in args))
        if kind == NOT:
            return self.negate(self.alt(args[0], 1))
        if kind == REPEAT:
            return self.repeat(args[0], 1, args[2])
        if kind == CAT:
            members = []
            while self.kinds[e] == CAT:
                a, e = self.args[e]
                members.append(self._cat(self.nonnull(a), e))
            return self._alt([*members, self.nonnull(e)])
        return 0 if kind == EPSILON else self._alt([self._cat(self._bytes(m), t) for m, t in self.raw(e)])

    def is_empty(self, e: int) -> bool:
        """Whether the language is empty: exact; immediate for expressions without ``both`` and ``negate``.

        Raises:
            LimitError: the search needs more than the pool's fuel.
        """
        known = self.known[e]
        return search.is_empty(self, e) if known is None else known

    def shortest(self, e: int) -> bytes | None:
        """A shortest member, or ``None`` if there is none."""
        return search.shortest(self, e)

    def min_length(self, e: int) -> int:
        """Bytes of the shortest member. The language must not be empty."""
        return search.min_length(self, e)

    def saturate(self, e: int, k: int) -> int:
        """An expression that answers "accepts?" and "can still be completed?" like ``e`` after every continuation of at most ``k`` bytes.

        Counts and literals that reach further than ``k`` bytes are cut, so that many states share one answer.
        """
        return saturate.saturate(self, e, k)

    def prefix_free(self, e: int) -> bool:
        """Whether no member is known to be a proper prefix of another (a sufficient test)."""
        return alternatives.prefix_free(self, e)

    # ------------------------------------------------------------ derivatives
    def transitions(self, e: int) -> tuple[tuple[int, int], ...]:
        """All derivatives: pairs of a byte mask and the expression after any of these bytes.

        The masks are disjoint, the targets distinct, and their languages not empty.
        """
        found = self._transitions[e]
        if found is None:
            found = self._transitions[e] = self.metered(self.fuel, lambda: self._alive_parts(e))
        return found

    def _alive_parts(self, e: int) -> tuple[tuple[int, int], ...]:
        known = self.known
        return tuple(p for p in self.raw(e) if known[p[1]] is False or not self.is_empty(p[1]))

    def raw(self, e: int) -> Parts:
        """Like :meth:`transitions`, but targets with an empty language may be among them."""
        found = self._raw[e]
        if found is None:
            # a tuple of numbers costs the garbage collector nothing
            found = self._raw[e] = tuple(derivatives.MAKERS[self.kinds[e]](self, *self.args[e]))
        return found

    def derivative(self, e: int, byte: int) -> int:
        """What may follow ``byte`` (EMPTY if nothing may)."""
        for mask, target in self.transitions(e):
            if mask >> byte & 1:
                return target
        return 0

    def matches(self, e: int, data: bytes) -> bool:
        """Whether ``data`` is in the language."""
        for byte in data:
            for mask, target in self.raw(e):
                if mask >> byte & 1:
                    e = target
                    break
            else:
                return False
        return self._nullable[e]

    def show(self, e: int) -> str:
        """A readable form, for debugging."""
        return search.show(self, e)
