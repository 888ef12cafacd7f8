"""A trace as one HTML page without scripts from elsewhere, fonts or pictures: it opens from a disk, and from a mail.

Of all continuations of a prefix the page follows the one that leads to the best text that was found (else to the largest part of the tree)
as the *main line*; the others are *variations* below the place where they leave it, folded, as a chess book has them. So the depth of
folds is that of decisions, not that of tokens, and a tree of thousands of nodes stays readable.

Texts come from a model: all are escaped, and characters that have no shape, or turn the direction of writing, are shown as escapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Trace, TraceNode

__all__ = ["page", "visible"]

_PREVIEW = 60  # characters of a folded line
_BLOCKED_ROWS = 200  # places of a line of which is told what was blocked
_LIKELY, _RARE = -0.3, -3.0  # log-probabilities of tokens that are shown as nearly certain, and as unlikely

_STYLE = """
:root { color-scheme: light dark; --text: #1d1d22; --faint: #75757f; --line: #d9d9e0; --back: #ffffff; --soft: #f4f4f7;
        --good: #17703a; --bad: #a3312a; --sure: #e1f0e6; --some: #fff3d6; --rare: #fbdfdc; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6ea; --faint: #93939f; --line: #3a3a44; --back: #17171b; --soft: #222229;
          --good: #6fce94; --bad: #f0918a; --sure: #1f3a2a; --some: #433613; --rare: #4d2320; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 1.5rem auto; padding: 0 1rem;
       max-width: 76rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
th { color: var(--faint); font-weight: normal; } td.number { font-variant-numeric: tabular-nums; text-align: right; }
code { font: 13px/1.6 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
details { border-left: 2px solid var(--line); padding-left: .7rem; margin: .1rem 0 .1rem .3rem; }
summary { cursor: pointer; } summary:hover { background: var(--soft); }
.token { border-radius: 3px; padding: 0 1px; margin-right: 1px; }
.sure { background: var(--sure); } .some { background: var(--some); } .rare { background: var(--rare); }
.numbers, .note { color: var(--faint); font-size: .85rem; } .mark { font-size: .8rem; padding: 0 .35rem; border-radius: 3px;
       background: var(--soft); } .finished > summary .mark { color: var(--good); } .pruned > summary .mark { color: var(--bad); }
.pruned > summary, .pruned > div { opacity: .55; } .open > summary { opacity: .75; }
.token.pruned { opacity: .55; text-decoration: line-through; }
.blocked { border-left-style: dotted; color: var(--faint); font-size: .85rem; } .blocked code { font-size: 12px; }
#no-pruned:checked ~ main .pruned, #no-open:checked ~ main .open { display: none; }
"""

_SCRIPT = """
for (const [id, open] of [["unfold", true], ["fold", false]])
  document.getElementById(id).onclick = () => document.querySelectorAll("main details.line").forEach((d) => { d.open = open; });
"""


def visible(text: str) -> str:
    """``text`` with every character seen: controls, line breaks and marks of direction as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def page(trace: Trace) -> str:
    """The page, as text."""
    tree = _Tree(trace)
    title = visible(f"Search tree: {trace.method}" if trace.method else "Search tree")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f"{_statistics(trace, tree)}\n{_found(trace, tree)}\n<h2>Tree</h2>\n{_LEGEND}\n<main>\n{tree.html()}\n</main>\n"
        f"<script>{_SCRIPT}</script>\n</body></html>\n"
    )


_LEGEND = """<p class="note">Each line goes on to the best text that was found; what was tried besides is folded below the place where it
leaves the line. Colours are the model's probability of a token: <span class="token sure">likely</span>, <span
class="token some">possible</span>, <span class="token rare">unlikely</span>. Point at a token for its numbers.</p>
<p><button id="unfold" type="button">unfold all</button> <button id="fold" type="button">fold all</button></p>
<input type="checkbox" id="no-pruned"><label for="no-pruned"> hide what was pruned</label>
<input type="checkbox" id="no-open"><label for="no-open"> hide what was never followed</label>"""


class _Tree:
    """The nodes of a trace as lines and variations."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.children: dict[int, list[TraceNode]] = {}
        self.roots: list[TraceNode] = []
        for node in trace.nodes.values():
            if node.parent is None or node.parent not in trace.nodes:
                self.roots.append(node)
            else:
                self.children.setdefault(node.parent, []).append(node)
        self.rank = {number: place for place, number in enumerate(trace.found, 1)}
        self.weight = self._weights()
        self.count = {status: sum(node.status == status for node in trace.nodes.values()) for status in _STATUSES}

    def _weights(self) -> dict[int, tuple[float, float, int]]:
        """What decides which child a line goes on with: the best rank of a text below, the best score of one, the number of nodes."""
        found: dict[int, tuple[float, float, int]] = {}
        for node in reversed(self._preorder()):
            below = [found[child.number] for child in self.children.get(node.number, ())]
            rank = max((b[0] for b in below), default=-math.inf)
            if node.number in self.rank:
                rank = max(rank, -float(self.rank[node.number]))
            score = max((b[1] for b in below), default=-math.inf)
            if node.status == "finished" and not math.isnan(node.score):
                score = max(score, node.score)
            found[node.number] = (rank, score, 1 + sum(b[2] for b in below))
        return found

    def _preorder(self) -> list[TraceNode]:
        order: list[TraceNode] = []
        stack = list(reversed(self.roots))
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(reversed(self.children.get(node.number, ())))
        return order

    def line(self, start: TraceNode) -> list[TraceNode]:
        """The main line from a node on."""
        found = [start]
        while below := self.children.get(found[-1].number):
            found.append(max(below, key=self._merit))
        return found

    def _merit(self, node: TraceNode) -> tuple[tuple[float, float, int], int]:
        """The greater, the rather a line goes on with the node."""
        return self.weight[node.number], -node.number

    def html(self) -> str:
        """All lines; an explicit stack, since trees may be deep."""
        out: list[str] = []
        stack: list[TraceNode | str] = list(reversed(self.roots))
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                out.append(item)
            else:
                stack.extend(reversed(self._line_parts(item)))
        return "\n".join(out)

    def _line_parts(self, start: TraceNode) -> list[TraceNode | str]:
        """A line as pieces of HTML, with the first nodes of its variations where they belong."""
        line = self.line(start)
        last = line[-1]
        best = self.weight[start.number][0] == -1.0 or start.parent is None
        parts: list[TraceNode | str] = [
            f'<details class="line {last.status}"{" open" if best else ""}><summary>{self._summary(line)}</summary>'
        ]
        run: list[TraceNode] = []
        for node, following in zip(line, [*line[1:], None]):
            run.append(node)
            others = [child for child in self.children.get(node.number, ()) if child is not following]
            if others:
                parts.append(self._run(run))
                others.sort(key=self._merit, reverse=True)
                parts.extend(others)
                run = []
        parts.append(self._run(run))
        parts.append(_blocked(line))
        parts.append("</details>")
        return parts

    def _summary(self, line: list[TraceNode]) -> str:
        last = line[-1]
        mark = {"finished": "finished", "pruned": "pruned", "open": "not followed", "expanded": "left"}[last.status]
        if last.number in self.rank:
            mark = f"found, {self.rank[last.number]}" if last.status == "finished" else f"cut, {self.rank[last.number]}"
        text = visible("".join(_text(node) for node in line if node.token is not None))
        shown = text if len(text) <= _PREVIEW else text[:_PREVIEW] + " …"
        note = f' <span class="note">{escape(visible(last.note))}</span>' if last.note else ""
        size = self.weight[line[0].number][2]
        numbers = f"score {_number(last.score)}, log p {_number(last.logprob)}, {size} node{'s' * (size > 1)}"
        return f'<span class="mark">{mark}</span> <code>{escape(shown)}</code> <span class="numbers">{numbers}</span>{note}'

    def _run(self, nodes: Iterable[TraceNode]) -> str:
        """Tokens side by side."""
        shown = [self._token(node) for node in nodes if node.token is not None]
        return f"<div><code>{''.join(shown)}</code></div>" if shown else ""

    def _token(self, node: TraceNode) -> str:
        before = self.trace.nodes.get(node.parent) if node.parent is not None else None
        step = node.logprob - (0.0 if before is None else before.logprob)
        colour = "sure" if step >= _LIKELY else "some" if step >= _RARE else "rare"
        title = [f"token {node.token}", f"log p {_number(step)}", f"of the prefix {_number(node.logprob)}", f"score {_number(node.score)}"]
        title.append(node.status if node.expanded is None else f"{node.status}, expansion {node.expanded}")
        if node.blocked is not None:
            title.append(f"{node.blocked} tokens blocked after it")
        if node.note:
            title.append(visible(node.note))
        pruned = " pruned" if node.status == "pruned" else ""
        return f'<span class="token {colour}{pruned}" title="{escape("; ".join(title))}">{escape(visible(_text(node)) or "(end)")}</span>'


_STATUSES = ("finished", "expanded", "pruned", "open")


def _statistics(trace: Trace, tree: _Tree) -> str:
    rows: list[tuple[str, object]] = [(name.replace("_", " "), value) for name, value in trace.statistics.items()]
    rows.append(("nodes", f"{len(trace.nodes)}" + f", and {trace.left_out} that were left out" * (trace.left_out > 0)))
    names = {"open": "never followed"}
    rows += [(names.get(status, status), tree.count[status]) for status in _STATUSES]
    cells = (f"<tr><th>{escape(visible(name))}</th><td>{escape(visible(_shown(value)))}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _found(trace: Trace, tree: _Tree) -> str:
    rows = []
    for place, number in enumerate(trace.found, 1):
        node = trace.nodes.get(number)
        if node is None:
            continue
        parts = [_text(node)]
        while node.parent is not None and node.parent in trace.nodes:
            node = trace.nodes[node.parent]
            parts.append(_text(node))
        leaf = trace.nodes[number]
        numbers = f'<td class="number">{_number(leaf.score)}</td><td class="number">{_number(leaf.logprob)}</td>'
        cut = "" if leaf.status == "finished" else ' <span class="note">(cut)</span>'
        rows.append(f"<tr><td>{place}</td>{numbers}<td><code>{escape(visible(''.join(reversed(parts))))}</code>{cut}</td></tr>")
    if not rows:
        return ""
    head = "<tr><th></th><th>score</th><th>log p</th><th>text</th></tr>"
    return f"<h2>Found</h2>\n<table>{head}{''.join(rows)}</table>"


def _text(node: TraceNode) -> str:
    if node.token is None:
        return ""
    return f"#{node.token} " if node.text is None else node.text


def _blocked(line: list[TraceNode]) -> str:
    """What the constraint forbade along a line."""
    rows, before = [], ""
    for node in line:
        before += _text(node)
        if node.blocked:
            examples = ", ".join(f"<code>{escape(visible(text))}</code>" for text in node.examples)
            place = visible(before[-24:])
            rows.append(f'<tr><td><code>{escape(place)}</code></td><td class="number">{node.blocked}</td><td>{examples}</td></tr>')
    if not rows:
        return ""
    more = f"<p>and {len(rows) - _BLOCKED_ROWS} more places</p>" if len(rows) > _BLOCKED_ROWS else ""
    head = "<tr><th>after</th><th>blocked tokens</th><th>the most probable ones</th></tr>"
    return (
        f'<details class="blocked"><summary>what the constraint blocked ({len(rows)} places)</summary>'
        f"<table>{head}{''.join(rows[:_BLOCKED_ROWS])}</table>{more}</details>"
    )


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "−∞" if value < 0 else "?"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
