"""The record of a search: what it says, and that its page is well-formed, closed in itself and safe."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grammars import Regex, Vocabulary
from samplers.models import TabularModel
from samplers.search.beam import beam_search
from samplers.search.trace import Trace
from samplers.search.trace_page import page, visible
from samplers.target import Target

EVIL = "</script><img src=x onerror=alert(1)>\"'&\u202e"
VOID = {"meta", "input", "br", "img"}


class _Page(HTMLParser):
    """Checks that elements nest, and collects what is of interest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.depth = 0
        self.starts: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.starts.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)
            self.depth = max(self.depth, len(self.stack))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.data.append(data)

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.starts if name in (attrs.get("class") or "").split()]


def _beam() -> Trace:
    vocabulary = Vocabulary([b"a", b"b", b"<", b"\n", b""], eos_token_ids=[4])
    target = Target(TabularModel(5, 4, lambda prefix: [0.2, 0.3, 0.1, 0.1, 0.3]), (), Regex(r"[ab<\n]{2,6}").compile(vocabulary), 8)
    trace = Trace()
    result = beam_search(target, beams=3, trace=trace)
    trace.conclude(result)
    assert result.trace is trace
    return trace


def test_a_beam_is_written_down() -> None:
    trace = _beam()
    nodes = trace.nodes
    assert all(node.parent in nodes for node in nodes.values() if node.number != 0)
    assert nodes[0].parent is None and nodes[0].expanded == 0
    assert nodes[0].blocked == 1 and len(nodes[0].examples) == 1  # the end, which may not come yet
    finished = [node.number for node in nodes.values() if node.status == "finished"]
    assert set(trace.found) <= set(finished) and len(trace.found) == 3
    pruned = [node for node in nodes.values() if node.status == "pruned"]
    assert pruned and all(node.note for node in pruned)
    assert trace.statistics["expansions"] == sum(node.expanded is not None for node in nodes.values())


def test_json_holds_everything(tmp_path: Path) -> None:
    trace = _beam()
    trace.add(1000, 0, 1, "x", float("-inf"), float("nan"), "created")
    trace.save(tmp_path / "t.json")
    read = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert read == trace.as_dict()
    assert [node["number"] for node in read["nodes"]] == list(trace.nodes)
    assert read["nodes"][-1]["logprob"] is None and read["nodes"][-1]["score"] is None
    assert read["method"] == "beam search" and read["found"] == trace.found


def test_page_shows_each_node_once(tmp_path: Path) -> None:
    trace = _beam()
    trace.save(tmp_path / "t.html")
    shown = _Page((tmp_path / "t.html").read_text(encoding="utf-8"))
    titles = [attrs["title"] or "" for attrs in shown.with_class("token") if "title" in attrs]
    assert len(titles) == len(trace.nodes) - 1  # the root has no token
    pruned = [attrs for attrs in shown.with_class("token") if "pruned" in (attrs["class"] or "")]
    assert len(pruned) == sum(node.status == "pruned" for node in trace.nodes.values())
    opened = [attrs for tag, attrs in shown.starts if tag == "details" and "open" in attrs]
    assert len(opened) == 1  # the best text is on the first line


def test_page_is_closed_in_itself_and_safe() -> None:
    trace = Trace()
    trace.method = EVIL
    trace.add(0, None, None, None, 0.0, 0.0, "expanded")
    trace.blocked(0, 3, [EVIL])
    trace.add(1, 0, 7, EVIL, -1.0, -1.0, "created")
    trace.add(1, 0, 7, EVIL, -1.0, -1.0, "pruned", EVIL)
    trace.found = [1]
    trace.statistics = {EVIL: EVIL}
    text = page(trace)
    shown = _Page(text)
    assert "\u202e" not in "".join(shown.data) and "\\u202e" in "".join(shown.data)
    assert not any(tag == "img" for tag, _ in shown.starts)
    assert sum(tag == "script" for tag, _ in shown.starts) == 1
    assert not any(name in attrs for _, attrs in shown.starts for name in ("src", "href", "onerror"))
    assert "http" not in text


def test_thousands_of_nodes_and_deep_chains_stay_flat() -> None:
    trace = Trace()
    trace.add(0, None, None, None, 0.0, 0.0, "expanded")
    for i in range(1, 3001):  # one text of 1000 tokens, three alternatives at every place
        trace.add(i, 3 * ((i - 1) // 3), i, f"t{i}", -0.1 * i, -0.1 * i, "expanded" if i % 3 == 0 else "pruned")
    trace.add(3001, 3000, 1, "", -400.0, -1.0, "finished")
    trace.found = [3001]
    shown = _Page(page(trace))
    assert shown.depth < 12
    assert len([a for a in shown.with_class("token") if "title" in a]) == 3001


def test_events_and_limits() -> None:
    with pytest.raises(ValueError, match="limit"):
        Trace(limit=0)
    trace = Trace(text=lambda token: f"<{token}>", limit=2)
    with pytest.raises(ValueError, match="event"):
        trace.add(0, None, None, None, 0.0, 0.0, "seen")  # type: ignore[arg-type]
    trace.add(0, None, None, None, 0.0, 0.0, "created")
    trace.add(1, 0, 5, None, -1.0, -1.0, "created", "first")
    trace.add(1, 0, 5, None, -1.0, -2.0, "finished", "second")
    trace.add(1, 0, 5, None, -1.0, -2.0, "pruned")
    assert trace.nodes[1].text == "<5>" and trace.nodes[1].note == "first; second" and trace.nodes[1].score == -2.0
    assert trace.nodes[1].status == "finished"
    trace.add(2, 0, 6, None, -1.0, -1.0, "created")
    trace.add(2, 0, 6, None, -1.0, -1.0, "pruned")
    trace.blocked(2, 4)
    assert trace.left_out == 1 and list(trace.nodes) == [0, 1]
    assert "1 that were left out" in page(trace)


def test_characters_without_shape_are_seen() -> None:
    assert visible("a b\n\x00\u200b\u00e9\ud800") == "a b\\n\\x00\\u200b\u00e9\\ud800"
