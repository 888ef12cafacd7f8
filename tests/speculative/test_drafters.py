"""Drafters: what each proposes, and where it gets it from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from grammars import Choice, Regex, Vocabulary
from samplers.budget import Budget
from samplers.masked import Request
from samplers.models import Context, TabularModel
from samplers.sampling import Settings
from speculative import drafters as d
from speculative import shapes as s
from speculative.decode import decode
from speculative.drafters.base import draft_below, graft
from speculative.drafters.copying import NgramIndex
from speculative.protocol import Outcome, StepInfo
from speculative.rules import FREE, Place, Rules
from speculative.shaping import Shaper
from speculative.stops import FixedStop
from speculative.tree import DraftTree
from speculative.verifiers import Greedy, Matching

WIDTH = 12
END = 11
FREELY = Rules([END])


def place(tokens: Sequence[int], start: int | None = None, rules: Rules = FREELY, left: int = 50) -> Place:
    state = FREE if rules.automaton is None else rules.automaton.start
    return Place(Context(tuple(tokens)), state, left, len(tokens) if start is None else start)


def step(rows: Sequence[int] = (0,), limit: int = 32, depth: int = 32, rules: Rules = FREELY, how: Any = "fixed") -> StepInfo:
    n = len(rows)
    shaper = Shaper(WIDTH, Settings(), words=rules.words)
    return StepInfo(list(rows), [rules] * n, [limit] * n, [depth] * n, how, shaper, FixedStop())


def draft(drafter: Any, where: Place, shape: Any, info: StepInfo | None = None, seed: int = 0) -> DraftTree:
    (tree,) = drafter.draft([where], [shape], info or step(), [torch.Generator().manual_seed(seed)])
    return tree


def begun(drafter: Any, tokens: Sequence[int], rules: Rules = FREELY) -> Place:
    where = place(tokens, rules=rules)
    drafter.begin([0], [where], [rules])
    return where


def wrote(drafter: Any, where: Place, tokens: Sequence[int], rules: Rules = FREELY) -> Place:
    """Tells a drafter that the target wrote tokens of its own."""
    for token in tokens:
        tree = DraftTree(where, rules)
        after = rules.child(where, token)
        assert after is not None
        drafter.observe([Outcome(0, tree, [], [token], after, [], torch.zeros(0, WIDTH))])
        where = after
    return where


def chain(tree: DraftTree) -> list[int]:
    """The first child, and its first child, and so on."""
    found, node = [], 0
    while tree.children(node):
        node = tree.children(node)[0]
        found.append(tree.tokens[node])
    return found


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[n] for n in tree.path(node)) for node in range(1, len(tree))}


# ---------------------------------------------------------------- copying
def test_prompt_lookup_copies_what_followed() -> None:
    drafter = d.PromptLookup(1, 3)
    where = begun(drafter, [1, 2, 3, 4, 5, 9, 2, 3])
    assert chain(draft(drafter, where, s.Chain(4))) == [4, 5, 9, 2]


def test_prompt_lookup_prefers_the_longer_and_then_the_later_match() -> None:
    drafter = d.PromptLookup(1, 2)
    where = begun(drafter, [1, 2, 7, 0, 2, 8, 0, 2, 9, 1, 2])
    tree = draft(drafter, where, s.Branches(3, 1))
    assert [tree.tokens[n] for n in tree.children(0)] == [7, 9, 8]


def test_prompt_lookup_reads_the_output() -> None:
    drafter = d.PromptLookup(2, 3)
    where = begun(drafter, [1, 2])
    assert draft(drafter, where, s.Chain(4)).size == 0
    where = wrote(drafter, where, [5, 6, 7, 1, 2])
    assert chain(draft(drafter, where, s.Chain(3))) == [5, 6, 7]


def test_a_text_that_repeats_itself_is_drafted_at_any_length() -> None:
    for drafter in (d.PromptLookup(), d.SamDrafter(threshold=1)):
        where = begun(drafter, [4, 5, 4, 5])
        assert chain(draft(drafter, where, s.Chain(9))) == [4, 5, 4, 5, 4, 5, 4, 5, 4]


def test_a_draft_may_begin_behind_the_known_text() -> None:
    for drafter in (d.PromptLookup(), d.SamDrafter(threshold=1)):
        where = begun(drafter, [1, 2, 3, 4, 5, 9, 0])
        below = Place(where.context.extend([2, 3]), FREE, 40, where.start)
        assert chain(draft(drafter, below, s.Chain(2))) == [4, 5]
        assert chain(draft(drafter, below, s.Chain(2))) == [4, 5]  # and nothing of it was kept


def test_a_row_whose_text_was_replaced_is_read_anew() -> None:
    drafter = d.PromptLookup(2, 2)
    begun(drafter, [1, 2, 3, 1, 2])
    other = place([7, 8, 9, 7, 8])
    assert chain(draft(drafter, other, s.Chain(1))) == [9]


def test_an_index_finds_every_occurrence_followed_by_a_token() -> None:
    source = random.Random(3)
    tokens = [source.randrange(3) for _ in range(300)]
    index = NgramIndex(1, 4)
    for token in tokens:
        index.append(token)
    expected = [at for n in (4, 3, 2, 1) for at in range(299, n - 1, -1) if tokens[at - n : at] == tokens[300 - n :]]
    assert index.find(tokens, 1000) == list(dict.fromkeys(expected))


def test_references_are_copied_up_to_their_end() -> None:
    drafter = d.ReferenceCopy([(1, 2, 3, 4), (5, 6)], match=2, prompt=False)
    assert chain(draft(drafter, begun(drafter, [0, 1, 2]), s.Chain(5))) == [3, 4]
    assert draft(drafter, begun(drafter, [3, 4]), s.Chain(5)).size == 0  # what stands behind it is another document


def test_the_prompt_is_a_reference_and_the_output_is_none() -> None:
    drafter = d.ReferenceCopy(match=1)
    where = begun(drafter, [3, 4, 5, 0])
    where = wrote(drafter, where, [7, 8, 3])
    assert chain(draft(drafter, where, s.Chain(5))) == [4, 5, 0]
    assert draft(drafter, wrote(drafter, where, [7]), s.Chain(5)).size == 0


# ---------------------------------------------------------------- suffix automata
def longest_earlier(tokens: Sequence[int], document: Sequence[int], *, inside: bool) -> tuple[int, int]:
    """Length of the longest suffix of ``tokens`` that is in the document, and the position behind its first occurrence."""
    for size in range(len(tokens), 0, -1):
        tail = list(tokens[len(tokens) - size :])
        for end in range(size, len(document) + (0 if inside else 1)):
            if list(document[end - size : end]) == tail:
                return size, end
    return 0, 0


@pytest.mark.parametrize("letters", [2, 3, 6])
def test_suffix_automaton_against_brute_force(letters: int) -> None:
    source = random.Random(letters)
    corpus = [source.randrange(letters) for _ in range(50)]
    static, own = d.SuffixAutomaton([corpus]), d.SuffixAutomaton()
    there = here = (0, 0)
    text: list[int] = []
    for _ in range(90):
        token = source.randrange(letters)
        there = static.step(*there, token)
        here = own.step(*here, token)
        own.append(token)
        text.append(token)
        assert (there[1], static.behind(*there) if there[1] else 0) == longest_earlier(text, corpus, inside=False)
        assert (here[1], own.behind(*here) if here[1] else 0) == longest_earlier(text, text, inside=True)
    assert len(own) <= 2 * len(text)


def test_sam_takes_the_longer_match_and_falls_back_from_a_short_one() -> None:
    recycled = d.TokenRecycling(WIDTH, 2, prompts=False)
    recycled.matrix[4] = [9, 8]
    drafter = d.SamDrafter([[1, 2, 3, 4, 10, 10]], fallback=recycled, threshold=3, bias=1)
    where = begun(drafter, [3, 4, 6, 0, 1, 2, 3, 4])
    assert chain(draft(drafter, where, s.Chain(1))) == [10]  # four tokens of the corpus against two of the text
    where = begun(drafter, [0, 4])
    assert chain(draft(drafter, where, s.Chain(1))) == [9]  # one token of the corpus: the fallback
    drafter = d.SamDrafter([[1, 2, 3, 4, 10, 10]], threshold=1, bias=5)
    assert chain(draft(drafter, begun(drafter, [3, 4, 6, 0, 1, 2, 3, 4]), s.Chain(1))) == [6]


# ---------------------------------------------------------------- tables
def test_recycled_tokens_are_those_of_the_last_verified_position() -> None:
    drafter = d.TokenRecycling(WIDTH, 3, prompts=False)
    where = begun(drafter, [1, 2])
    tree = DraftTree(where, FREELY)
    child = tree.add(0, 5)
    scores = torch.zeros(2, WIDTH)
    scores[0, [5, 6, 7]] = torch.tensor([3.0, 2.0, 1.0])
    scores[1, [2, 9, 5]] = torch.tensor([3.0, 2.0, 1.0])
    drafter.observe([Outcome(0, tree, [child], [5], tree.places[1], [0, 1], scores)])  # type: ignore[list-item]
    assert drafter.matrix[2].tolist() == [5, 6, 7] and drafter.matrix[5].tolist() == [2, 9, 5]
    assert paths(draft(drafter, where, s.Branches(3, 2))) == {(5,), (6,), (7,), (5, 2), (5, 9)}


def test_recycling_knows_the_prompts_bigrams() -> None:
    drafter = d.TokenRecycling(WIDTH, 2)
    where = begun(drafter, [1, 2, 1, 3, 1])
    assert paths(draft(drafter, where, s.Branches(2))) == {(3,), (2,)}


def test_the_recycling_tree_is_imbalanced() -> None:
    tree = d.TokenRecycling.tree(40, 5)
    assert tree.size == 40 and tree.depth == 5
    counts = [sum(path[:1] == (rank,) for path in tree.paths) for rank in range(4)]
    assert counts == sorted(counts, reverse=True) and counts[0] > 2 * counts[1]


def test_ngrams_are_counted_with_backing_off() -> None:
    table = d.NgramTable(3)
    table.learn([1, 2, 3, 1, 2, 3, 1, 2, 4, 0, 2, 5])
    shares = dict(table.following([1, 2]))
    assert list(shares) == [3, 4, 5]
    assert shares[3] == pytest.approx(3 / 4 * 2 / 3) and shares[4] == pytest.approx(3 / 4 / 3)
    assert list(dict(table.following([9, 2]))) == [3, 4, 5] and sum(shares.values()) < 1
    assert table.following([9]) == []


def test_ngrams_forget_what_was_not_met_for_longest() -> None:
    table = d.NgramTable(2, contexts=2, successors=1)
    table.learn([1, 2])
    table.learn([3, 4])
    table.learn([5, 6])
    assert table.following([1]) == [] and table.following([5]) and table.following([3])
    table.learn([5, 7, 5, 7])
    assert [token for token, _ in table.following([5])] == [7]


def test_ngrams_learn_from_the_target() -> None:
    drafter = d.NgramDrafter()
    where = begun(drafter, [1, 2])
    where = wrote(drafter, where, [3, 1, 2])
    tree = draft(drafter, where, s.Puct(4, 4))
    assert chain(tree)[:2] == [3, 1]
    assert all(chance is not None and 0 < chance < 1 for chance in tree.chances[1:])


# ---------------------------------------------------------------- guesses
def cyclic(period: Sequence[int]) -> TabularModel:
    """Writes one sequence over and over, the next token depending on the last one only."""
    following = dict(zip(period, [*period[1:], period[0]]))

    def row(prefix: tuple[int, ...]) -> list[float]:
        token = following.get(prefix[-1], period[0])
        return [0.9 if t == token else 0.1 / (WIDTH - 1) for t in range(WIDTH)]

    return TabularModel(WIDTH, END, row, memory=1)


def run(model: Any, drafter: Any, *, tokens: int = 24, automaton: Any = None) -> tuple[list[int], int]:
    """The greedy text, and the steps it took."""
    found, steps = [], 0
    settings = Settings(temperature=0)
    for one in decode(model, [Request((1,), automaton, tokens)], drafter, verifier=Greedy(), shape=s.Chain(6), settings=settings):
        found += [each.token for each in one]
        steps += 1
    return found, steps


GREEDY: dict[str, Any] = {
    "jacobi": lambda: d.JacobiDrafter(6),
    "gauss-seidel": lambda: d.JacobiDrafter(6, sliding=False),
    "lookahead": lambda: d.LookaheadDrafter(5, 3, 4),
    "recycled": lambda: d.TokenRecycling(WIDTH, 3),
    "trigrams": lambda: d.NgramDrafter(),
    "suffix automaton": lambda: d.SamDrafter(threshold=1),
    "prompt lookup": lambda: d.PromptLookup(),
    "all together": lambda: d.FirstOf(d.SamDrafter(threshold=3), d.Merged(d.NgramDrafter(), d.LookaheadDrafter(3, 3, 3))),
}


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_text_is_the_same_in_fewer_steps(name: str) -> None:
    period = [1, 4, 2, 8, 5, 7]
    text, steps = run(cyclic(period), GREEDY[name]())
    assert text == [period[(1 + i) % 6] for i in range(24)]
    # a wrong guess makes all behind it wrong where each token hangs on the last one: Jacobi's worst case is one token a step
    assert steps <= (24 if name in ("jacobi", "gauss-seidel") else 16), f"{steps} steps for 24 tokens"


def test_jacobi_converges_where_tokens_do_not_hang_on_each_other() -> None:
    """What stands at a position is known from the position alone: one iteration makes a whole block right."""
    order = [int(t) for t in torch.randint(10, (60,), generator=torch.Generator().manual_seed(1))]

    def row(prefix: tuple[int, ...]) -> list[float]:
        return [0.9 if t == order[len(prefix)] else 0.1 / (WIDTH - 1) for t in range(WIDTH)]

    text, steps = run(TabularModel(WIDTH, END, row), d.JacobiDrafter(6), tokens=42)
    assert text == order[1:43] and steps <= 14


def test_lookahead_fills_its_pool() -> None:
    drafter = d.LookaheadDrafter(4, 3, 2, prompts=False)
    run(cyclic([1, 4, 2, 8, 5, 7]), drafter)
    assert not drafter._rows  # what was kept of the row is forgotten
    where = begun(drafter, [1, 4, 2, 8])
    model = cyclic([1, 4, 2, 8, 5, 7])
    for _ in range(6):
        tree = draft(drafter, where, s.Chain(3))
        scores = model.next_logprobs([p.context for p in tree.places])
        after = FREELY.child(where, int(scores[0].argmax()))
        assert after is not None
        drafter.observe([Outcome(0, tree, [], [after.context.tail[0]], after, list(range(len(tree))), scores)])
        where = after
    pool = drafter._rows[0].pool
    assert (2, 8) in pool[4] and all(len(grams) <= 2 for grams in pool.values())


# ---------------------------------------------------------------- models
def models(seed: int = 0) -> TabularModel:
    return TabularModel.random(WIDTH, 30, seed, eos=END)


def test_children_drawn_without_replacement_are_distinct_and_of_one_law() -> None:
    drafter = d.ModelDrafter(models())
    tree = draft(drafter, place([1]), s.DySpec(12, 4), step(how="without"))
    assert tree.size == 12
    for draws in tree.draws:
        assert len({draw.node for draw in draws}) == len(draws)
        assert len({id(draw.law) for draw in draws}) <= 1


def test_a_model_drafts_rows_together() -> None:
    calls: list[int] = []
    model = models()

    class Noted(TabularModel):
        def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
            calls.append(len(contexts))
            return model.next_logprobs(contexts)

    drafter = d.ModelDrafter(Noted(WIDTH, END, {}))
    places = [place([1]), place([2, 3])]
    trees = drafter.draft(places, [s.Branches(2, 1)] * 2, step((0, 1)), [torch.Generator().manual_seed(i) for i in range(2)])
    assert [len(tree.children(0)) for tree in trees] == [2, 2] and all(tree.size > 2 for tree in trees)
    assert len(calls) == 2 and calls[0] == 2


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    drafter = d.ModelDrafter(models())
    info = step(how="with")
    first = paths(draft(drafter, place([1]), s.Branches(3, 3), info, seed=5))
    assert first == paths(draft(drafter, place([1]), s.Branches(3, 3), info, seed=5))
    assert any(first != paths(draft(drafter, place([1]), s.Branches(3, 3), info, seed=i)) for i in range(6, 9))


def test_a_staged_draft_is_that_of_its_model_in_fewer_forwards() -> None:
    model = cyclic([1, 4, 2, 8, 5, 7])
    calls: list[int] = []

    class Noted(TabularModel):
        def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
            calls.append(len(contexts))
            return model.next_logprobs(contexts)

    inner = d.NgramDrafter()
    drafter = d.StagedDrafter(Noted(WIDTH, END, {}), inner, shape=s.Chain(3))
    where = begun(drafter, [1, 4, 2, 8, 5, 7, 1, 4])
    info = step(how="with")
    staged = draft(drafter, where, s.Chain(8), info)
    assert paths(staged) == paths(draft(d.ModelDrafter(model), where, s.Chain(8), info))
    assert len(calls) < 8


# ---------------------------------------------------------------- combinations
def test_graft_keeps_draws_and_laws() -> None:
    info = step(how="with")
    branch = draft(d.ModelDrafter(models()), place([1, 2]), s.Branches(3, 2), info)
    tree = DraftTree(place([1]), FREELY)
    node = tree.add(0, 2)
    assert node is not None
    names = graft(tree, node, branch)
    assert tree.size == branch.size + 1
    for old, new in enumerate(names):
        assert [draw.law for draw in tree.draws[new]] == [draw.law for draw in branch.draws[old]]
        assert [tree.tokens[draw.node] for draw in tree.draws[new]] == [branch.tokens[draw.node] for draw in branch.draws[old]]
        assert tree.places[new].context == branch.places[old].context


def test_draft_below_keeps_to_the_limits() -> None:
    tree = DraftTree(place([1, 2, 1]), FREELY)
    tip = tree.extend(0, [2, 1])
    drafter = d.PromptLookup()
    drafter.begin([0], [tree.places[0]], [FREELY])
    generators = [torch.Generator()]
    assert draft_below(drafter, [tree], [tip], [s.Chain(9)], step(limit=5, depth=9), generators) == [True]
    assert tree.size == 5
    assert draft_below(drafter, [tree], [tip], [s.Chain(9)], step(limit=5, depth=9), generators) == [False]
    assert max(tree.depths) == 5


def test_first_of_and_merged_and_relay() -> None:
    lookup, recycled = d.PromptLookup(2, 3), d.TokenRecycling(WIDTH, 2, prompts=False)
    recycled.matrix[2] = [8, 9]
    recycled.matrix[3] = [6, 7]
    unknown, known = [5, 3, 0, 2], [1, 2, 3, 0, 1, 2]
    first = d.FirstOf(lookup, recycled)
    assert paths(draft(first, begun(first, known), s.Chain(1))) == {(3,)}
    assert paths(draft(first, begun(first, unknown), s.Chain(1))) == {(8,)}
    merged = d.Merged(lookup, recycled)
    assert paths(draft(merged, begun(merged, known), s.Chain(1))) == {(3,), (8,)}
    relay = d.Relay(d.Shaped(lookup, s.Chain(1)), d.Shaped(recycled, s.Chain(1)))
    assert paths(draft(relay, begun(relay, known), s.Chain(9))) == {(3,), (3, 6)}
    assert "prompt lookup" in merged.name and "recycled" in merged.name
    with pytest.raises(ValueError):
        d.Merged()
    with pytest.raises(ValueError):
        d.Merged(lookup, shares=[0.5, 0.5])


# ---------------------------------------------------------------- constraints
def letters(extra: Sequence[bytes] = ()) -> Vocabulary:
    tokens = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"x", b"{", b"}", *extra]
    tokens += [b"."] * (END - len(tokens))
    return Vocabulary([*tokens, b""], eos_token_ids=[END])


def constrained(pattern: str) -> Rules:
    return Rules([END], Regex(pattern).compile(letters()))


def test_forced_tokens_before_and_behind_another_draft() -> None:
    rules = constrained(r"\{x(a|b)\}x\}")
    recycled = d.TokenRecycling(WIDTH, 2, prompts=False)
    recycled.matrix[6] = [1, 0]
    drafter = d.Forced(recycled)
    tree = draft(drafter, begun(drafter, [3], rules), s.Chain(1), step(rules=rules))
    assert chain(tree) == [7, 6, 1, 8, 6, 8, END]
    assert [tree.chances[n] for n in range(1, len(tree))] == [1.0, 1.0, None, 1.0, 1.0, 1.0, 1.0]
    alone = draft(d.Forced(), begun(drafter, [3], rules), s.Chain(1), step(rules=rules))
    assert chain(alone) == [7, 6]


def test_forced_text_is_drafted_in_its_canonical_tokens() -> None:
    rules = Rules([END], Choice(["xabc}", "xabc{"]).compile(letters()))
    tree = draft(d.Forced(), begun(d.Forced(), [3], rules), s.Chain(1), step(rules=rules))
    assert chain(tree)[:2] == [6, 5]
    assert tree.chances[1] == 1.0 and tree.chances[2] is not None and tree.chances[2] < 1  # "a" and "ab" may come as well


def test_forced_learns_how_often_the_canonical_tokens_come() -> None:
    rules = Rules([END], Choice(["abcx"]).compile(letters()))
    drafter = d.Forced()
    where = begun(drafter, [3], rules)
    before = draft(drafter, where, s.Chain(1), step(rules=rules)).chances[1]
    for _ in range(10):
        tree = draft(drafter, where, s.Chain(1), step(rules=rules))
        drafter.observe([Outcome(0, tree, [], [3], tree.places[0], [], torch.zeros(0, WIDTH))])
    after = draft(drafter, where, s.Chain(1), step(rules=rules)).chances[1]
    assert before is not None and after is not None and after < before / 1.5


def test_forced_tokens_cost_no_steps() -> None:
    rules = constrained(r"\{xxx\}\{x\}x\}")
    text, steps = run(models(), d.Forced(), automaton=rules.automaton, tokens=30)
    assert len(text) == 11 and text[-1] == END and steps == 1


CONSTRAINED: dict[str, Any] = {
    **GREEDY,
    "model": lambda: d.ModelDrafter(models(3)),
    "staged": lambda: d.StagedDrafter(models(3), d.PromptLookup()),
    "references": lambda: d.ReferenceCopy([(1, 2, 3, 4), (0, 1, 0, 1)], match=1),
    "forced": lambda: d.Forced(d.LookaheadDrafter(3, 3, 3)),
    "strings": lambda: d.StringDrafter(models(3), letters(), letters()),
    "shared": lambda: d.IntersectionDrafter(models(3), letters(), letters()),
}
SHAPES = [s.Chain(4), s.Branches(3, 2), s.DySpec(8, 4), s.OptTree(8, 4), s.Puct(8, 4), s.Sequoia(8, 4)]


@pytest.mark.parametrize("name", CONSTRAINED)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)
def test_no_draft_leaves_the_language_and_texts_close_in_time(name: str, shape: Any) -> None:
    automaton = Regex("(ab|bc|[{]x*[}])+c").compile(letters())
    requests = [Request((3, 4), automaton, 9, seed, Budget(automaton)) for seed in range(6)]
    found: list[list[int]] = [[] for _ in requests]
    for one in decode(models(1), requests, CONSTRAINED[name](), verifier=Matching(), shape=shape):
        for each in one:
            found[each.row].append(each.token)
    for text in found:
        assert text[-1] == END
        assert automaton.accepts(automaton.advance_bytes(automaton.start, automaton.vocabulary.decode(text)))


# ---------------------------------------------------------------- other vocabularies
OTHER = Vocabulary([b"", b"abc", b"c", b"x{", b"<s>", b"b", b"a", b"}", b"}x"], eos_token_ids=[0], special_token_ids=[4])


def test_texts_are_respelled_as_they_grow() -> None:
    from speculative.drafters.vocabularies import Respelled

    text = Respelled(letters(), OTHER, prefix=[4])
    for token, expected in [(0, [6]), (4, [1]), (8, [1, 7]), (6, [1, 8]), (2, [1, 8, 2])]:
        text.append(token)
        assert text.ids() == [4, *expected]
    assert text.ids([0, 4]) == [4, 1, 8, 2, 1] and text.ids() == [4, 1, 8, 2]


def test_shared_tokens() -> None:
    from grammars.errors import VocabularyError
    from speculative.drafters.vocabularies import Shared

    shared = Shared(letters(), OTHER)
    assert shared.to_draft == {0: 6, 1: 5, 2: 2, 5: 1, 8: 7}
    with pytest.raises(VocabularyError):
        Shared(letters(), Vocabulary([b"", b"zz"], eos_token_ids=[0]))


def test_the_intersection_is_the_draft_law_over_shared_tokens() -> None:
    weights = [0.2, 0.1, 0.05, 0.2, 0.05, 0.1, 0.1, 0.1, 0.1]
    model = TabularModel(9, 0, lambda prefix: weights, memory=0)
    drafter = d.IntersectionDrafter(model, OTHER, letters())
    tree = draft(drafter, begun(drafter, [0]), s.Chain(1), step(how="with"))
    law = tree.draws[0][0].law
    assert law is not None
    expected = torch.zeros(WIDTH, dtype=torch.float64)
    for token, p in {0: 0.1, 1: 0.1, 2: 0.05, 5: 0.1, 8: 0.1, END: 0.2}.items():
        expected[token] = p / 0.65
    assert torch.allclose(law.exp(), expected)


def test_strings_go_through_the_text() -> None:
    following = {6: 5, 5: 2, 2: 3, 3: 7, 7: 0}  # a b c x{ } and the end

    def row(prefix: tuple[int, ...]) -> list[float]:
        return [0.9 if t == following.get(prefix[-1], 1) else 0.1 / 8 for t in range(9)]

    drafter = d.StringDrafter(TabularModel(9, 0, row, memory=1), OTHER, letters(), length=6)
    where = begun(drafter, [0])
    assert chain(draft(drafter, where, s.Chain(9))) == [4, 6, 7, 8, END]
    rules = Rules([END], Regex("a?[abc]+x?").compile(letters()))
    inside = Place(Context((0,)), rules.automaton.advance(rules.automaton.start, 0), 20, 0)  # type: ignore[union-attr]
    assert chain(draft(drafter, inside, s.Chain(3), step(rules=rules)))[:1] == [4]
