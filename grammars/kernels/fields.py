"""The tables that the kernels work on: their fields, the places of their counts, statuses.

All are :class:`~.memory.Tables`: :data:`PARSER` one set a grammar, :data:`LEXER` one set a vocabulary. What they mean is told in
:mod:`grammars.parser` and :mod:`grammars.lexer`. A kernel function either finishes, or returns a negative status and has changed
nothing that matters.
"""

from __future__ import annotations

import numpy as np

from .memory import Field

I32, I64, F64, U64 = np.int32, np.int64, np.float64, np.uint64

#: Statuses. ASK: rule states (``asked``) or expressions (``asked_exprs``) must be worked out by Python first. GROW: a table is too
#: small. TOO_MANY: an item set beyond its limit. TEXT: what follows depends on the lexeme's bytes. SEGMENT: that of the lexer state
#: ``count[WANTED]`` must be made first, or what follows segment ``-count[WANTED]``.
ASK, GROW, TOO_MANY, TEXT, SEGMENT = -1, -2, -3, -4, -5
#: Bits of a rule state and of a kernel.
EXPANDED, FINAL, LAST, CAPTURE = 1, 2, 4, 8
CLOSED, COMPLETE = 1, 2

PARSER: list[Field] = [
    ("states", 6, I32, 256, 0),  # rule state: bits, skip or -1, first shift, shifts, first call, calls
    ("edges", 2, I32, 512, 0),  # symbol (terminal or rule), rule state reached
    ("rules", 2, I32, 128, 0),  # first rule state, nullable
    ("terminals", 2, I32, 128, 0),  # expression, group
    ("priorities", 0, F64, 128, 0),  # of terminals
    ("skips", 3, I32, 32, 0),  # once, first terminal, terminals
    ("skip_terminals", 0, I32, 32, 0),
    ("returns", 3, I32, 256, -1),  # kernel, rule, first waiting item or -1; 0 is the root
    ("waiting", 3, I32, 256, 0),  # rule state, return, next or -1
    ("return_hash", 0, I32, 512, -1),
    ("kernels", 6, I32, 256, 0),  # first item, items, first slot, slots, bits, list of parser states or -1
    ("items", 2, I32, 512, 0),  # rule state, return
    ("kernel_hash", 0, I32, 512, -1),
    ("slots", 2, I32, 512, 0),  # terminal or -1 - skip slot, first slot item or -1
    ("slot_items", 3, I32, 512, 0),  # rule state, return, next or -1
    ("skip_slots", 4, I32, 64, 0),  # skip, terminal, first follow, follows or -1 for all
    ("follows", 0, I32, 64, 0),  # terminals
    ("parsers", 7, I32, 512, 0),  # parser state: kernel, first position, positions, complete, group, lexer state where it begins, captures
    ("positions", 0, I32, 1024, 0),  # of slots, within the kernel
    ("parser_hash", 0, I32, 1024, -1),
    ("lists", 0, I32, 1024, 0),  # a count, then parser states
    ("goto_keys", 0, I64, 1024, -1),
    ("goto_values", 0, I32, 1024, 0),
    ("restrict_keys", 0, I64, 1024, -1),
    ("restrict_values", 0, I32, 1024, 0),
    ("self", 0, I64, 0, 0),  # the context itself: its address and length
]
# Places in the parser's count.
N_RETURNS, N_WAITING, N_KERNELS, N_ITEMS, N_SLOTS, N_SLOT_ITEMS, N_SKIP_SLOTS, N_FOLLOWS = 0, 1, 2, 3, 4, 5, 6, 7
N_PARSERS, N_POSITIONS, N_LISTS, N_GOTOS, N_RESTRICTS, N_ASKED, LIMIT, REMEMBERS = 8, 9, 10, 11, 12, 13, 14, 15

LEXER: list[Field] = [
    ("table", 256, I32, 256, 0),  # by row: the lexer state after each byte; row 0 is that of nothing
    ("kept", 256, I32, 256, 0),  # by row: the kept id of each byte
    ("accept", 0, I32, 256, 0),
    # lexer state: first expression, expressions, whether at a lexeme's start, live bytes or -1 (no row yet), base state or -1 (not looked
    # for), kept id on the way to it, segment or 0
    ("tuples", 7, I32, 256, 0),
    ("rows", 0, I32, 256, 0),  # of states: the row, or 0 where it is not made yet
    ("loops", 0, I64, 256, 0),  # of states: the byte classes that lead back to it (see :mod:`.rows`)
    ("exprs", 0, I32, 512, 0),
    ("tuple_hash", 0, I32, 1024, -1),
    ("accepts", 2, I32, 64, 0),  # accept id: first position, positions
    ("accept_hash", 0, I32, 128, -1),
    ("keeps", 2, I32, 64, 0),  # kept id: first position, positions
    ("keep_hash", 0, I32, 128, -1),
    ("indices", 0, I32, 256, 0),
    ("atoms", 6, I32, 1024, -1),  # expression of the pool: first move or -1, moves, nullable, without the empty string, least bytes, star
    # expression of the kernels: kind, two or three numbers, rest, first move or -1, moves, nullable, least bytes (of a PAIR: 1 if it has
    # a member, 0 if not) or -1
    ("nodes", 9, I32, 1024, 0),
    ("node_hash", 0, I32, 2048, -1),
    ("targets", 0, I32, 1024, 0),  # of moves
    ("masks", 4, U64, 1024, 0),  # of moves: their bytes
    ("texts", 2, I32, 256, 0),  # first code, codes
    ("codes", 0, I32, 1024, 0),  # code point, and how it may be spelt (see :mod:`.texts`)
    ("sets", 2, I32, 64, 0),  # first text, texts
    ("set_texts", 0, I32, 256, 0),
    ("walks", 6, I32, 512, 0),  # set or -1 - text, from, to, codes read, stage, value; 0 is the end
    ("walk_hash", 0, I32, 1024, -1),
    ("writable", 4, U64, 1, 0),  # bytes that can be written
    # segment: addresses of row, exits and ends; exits; 2 with exits below exits, 1 with tokens that stay inside below exits; addresses of
    # the bytes, depths, ends, firsts and tokens of the trie of what follows the exits; its nodes (0: not made yet); its tokens
    ("segments", 12, I64, 64, 0),
    ("set_a", 3, I32, 256, 0),  # scratch: rule state, return, whether a base item
    ("set_b", 3, I32, 256, 0),
    ("calls", 3, I32, 256, 0),  # scratch: return, rule state, its return
    ("seen", 2, I64, 1024, -1),  # scratch: item, stamp
    ("marks", 2, I32, 64, -1),  # scratch: of terminals
    ("picked", 0, I32, 256, 0),  # scratch: positions or expressions
    ("steps", 8, I32, 256, 0),  # scratch, by byte: used, whole, from, to, codes, stage, value, other byte
    ("parts", 4, I32, 256, 0),  # scratch of a row: first link, links, first byte, last byte
    ("part_masks", 4, U64, 256, 0),
    ("links", 3, I32, 2048, 0),  # scratch: position, target, next or -1
    ("asked", 0, I32, 4096, 0),  # rule states to be expanded
    ("asked_exprs", 0, I32, 1024, 0),  # expressions whose moves Python must find
    ("chase", 2, I32, 256, 0),  # gotos to be made: parser state, accept id
    ("trie_byte", 0, np.uint8, 0, 0),  # the vocabulary's trie
    ("trie_depth", 0, I32, 0, 0),
    ("trie_end", 0, I32, 0, 0),
    ("trie_first", 0, I32, 0, 0),
    ("trie_tokens", 0, I32, 0, 0),
    ("trie_below", 0, I64, 0, 0),  # the byte classes of all nodes below
    # of a segment that is being made, by token: repetitions used, whether it is past the last of them, least bytes to complete the lexeme
    # (0 past them), whether it is inside of a repetition
    ("units", 4, I32, 0, 0),
    ("exit_units", 0, I32, 0, 0),  # by exit
    ("suffix_byte", 0, np.uint8, 0, 0),  # such a trie (addresses are set by the kernels)
    ("suffix_depth", 0, I32, 0, 0),
    ("suffix_end", 0, I32, 0, 0),
    ("suffix_first", 0, I32, 0, 0),
    ("suffix_tokens", 0, I32, 0, 0),
    ("threads", 3, I32, 64, 0),  # of a mask: parser state, lexer state, since
    ("stepped", 3, I32, 64, 0),  # scratch: threads after a byte
    ("text", 0, np.uint8, 256, 0),  # bytes to go on with
    ("roots", 6, I32, 256, 0),  # of a walk: first node, end node, parser state, lexer state before the first node's byte, trie, since
    ("reached", 0, I32, 256, 0),  # of a mask: parser states that tokens come to, some more than once
    ("stack", 3, I32, 64, 0),  # scratch, one more than the depth of the trie
    ("miss", 5, I32, 1024, 0),  # of a walk, what depends on text: first node, end node, parser state, accept id, since
    ("own", 0, I32, 0, 0),  # scratch: two rows of a mask
    ("exits", 0, I32, 1, 0),  # of a segment that is being made
    ("self", 0, I64, 0, 0),  # the context itself: its address and length
    ("entries", 0, I64, 0, 0),  # addresses of entry functions (see :mod:`.entries`): of rows and of gotos
    ("more_entries", 0, I64, 0, 0),  # of restrictions
    ("base_exits", 0, I32, 1, 0),  # of the base of a walk: nodes where its lexeme may end, ascending (their address is set by the kernel)
    ("drops", 0, I32, 1, 0),  # nonzero for those that are none of the root's
]
# Places in the lexer's count.
N_TUPLES, N_EXPRS, STAMP, MARK, N_INDICES, ALIKE, N_ACCEPTS, N_KEEPS, N_NODES, N_MOVES = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
N_WALKS, N_ASKED_EXPRS, N_CHASE, N_ROOTS, N_MISS, WANTED, COMPLETES, REACH, N_EXITS = 10, 11, 12, 13, 14, 15, 16, 17, 18
N_ROWS, N_REACHED = 20, 21
TRACK = 19  # of the segment that is being made: the lexer state of what is counted beside it, or 0

# Indices of the fields above.
(
    P_STATES, P_EDGES, P_RULES, P_TERMINALS, P_PRIORITIES, P_SKIPS, P_SKIP_TERMINALS, P_RETURNS, P_WAITING, P_RETURN_HASH, P_KERNELS,
    P_ITEMS, P_KERNEL_HASH, P_SLOTS, P_SLOT_ITEMS, P_SKIP_SLOTS, P_FOLLOWS, P_PARSERS, P_POSITIONS, P_PARSER_HASH, P_LISTS, P_GOTO_KEYS,
    P_GOTO_VALUES, P_RESTRICT_KEYS, P_RESTRICT_VALUES, P_SELF, P_COUNT,
) = range(len(PARSER) + 1)  # fmt: skip
(
    L_TABLE, L_KEPT, L_ACCEPT, L_TUPLES, L_ROWS, L_LOOPS, L_EXPRS, L_TUPLE_HASH, L_ACCEPTS, L_ACCEPT_HASH, L_KEEPS, L_KEEP_HASH, L_INDICES,
    L_ATOMS, L_NODES, L_NODE_HASH, L_TARGETS, L_MASKS, L_TEXTS, L_CODES, L_SETS, L_SET_TEXTS, L_WALKS, L_WALK_HASH, L_WRITABLE,
    L_SEGMENTS, L_SET_A, L_SET_B, L_CALLS, L_SEEN, L_MARKS, L_PICKED, L_STEPS, L_PARTS, L_PART_MASKS, L_LINKS, L_ASKED, L_ASKED_EXPRS,
    L_CHASE, L_TRIE_BYTE, L_TRIE_DEPTH, L_TRIE_END, L_TRIE_FIRST, L_TRIE_TOKENS, L_TRIE_BELOW, L_UNITS, L_EXIT_UNITS, L_SUFFIX_BYTE,
    L_SUFFIX_DEPTH, L_SUFFIX_END, L_SUFFIX_FIRST, L_SUFFIX_TOKENS, L_THREADS, L_STEPPED, L_TEXT, L_ROOTS, L_REACHED, L_STACK, L_MISS, L_OWN,
    L_EXITS, L_SELF, L_ENTRIES, L_MORE_ENTRIES, L_BASE_EXITS, L_DROPS, L_COUNT,
) = range(len(LEXER) + 1)  # fmt: skip
