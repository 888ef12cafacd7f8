"""What a step costs, by the number of tokens the target evaluates, and what a draft costs by its depth: measured as decoding goes."""

from __future__ import annotations

__all__ = ["Costs", "Line"]

_MEMORY = 0.97  # weight of what is known when one more measurement comes: some thirty measurements count
_WILD = 4.0  # a measurement beyond so many times of what was expected counts as that: something else ran meanwhile


class Line:
    """Seconds as a straight line of a size, by least squares with forgetting.

    Sizes near to those that were seen are told from what was seen there; others from the line, whose slope is never negative.
    """

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._near: dict[int, tuple[float, float]] = {}  # of a size: weight and weighted sum

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return self._weight > 0

    def observe(self, size: int, seconds: float) -> None:
        """One measurement; one that is far too great counts as what is just too great.

        One that is far too small shows that those before it were wild (something was compiled, say): they are forgotten, since nothing
        takes less time than it needs.
        """
        if self.known and _WILD * seconds < self(size):
            self._forget()
        self.note(size, min(seconds, _WILD * self(size)) if self.known else seconds)

    def _forget(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._near.clear()

    def note(self, size: int, seconds: float) -> None:
        """One point of the line, as it is."""
        keep = _MEMORY
        self._weight = keep * self._weight + 1
        self._x, self._y = keep * self._x + size, keep * self._y + seconds
        self._xx, self._xy = keep * self._xx + size * size, keep * self._xy + size * seconds
        weight, total = self._near.get(_bucket(size), (0.0, 0.0))
        self._near[_bucket(size)] = (0.8 * weight + 1, 0.8 * total + seconds)

    def __call__(self, size: int) -> float:
        """Expected seconds; 0 where nothing was measured."""
        if not self.known:
            return 0.0
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x**2
        slope = max(0.0, (self._xy / self._weight - mean_x * mean_y) / spread) if spread > 1e-9 else 0.0
        line = max(mean_y + slope * (size - mean_x), 0.1 * mean_y)
        weight, total = self._near.get(_bucket(size), (0.0, 0.0))
        return (total + line) / (weight + 1)


def _bucket(size: int) -> int:
    """Sizes up to 8 one by one, larger ones by quarters of their octave."""
    if size <= 8:
        return size
    octave = size.bit_length() - 1
    return 4 * octave + (size >> (octave - 2) & 3) + 100


class Costs:
    """The two lines of a target and a drafter.

    Attributes:
        target: seconds of a forward with its verification, by the tokens evaluated.
        draft: seconds of drafting, by the depth of the trees.
        frozen: whether measurements change nothing any more. What is decided from frozen costs depends on no clock.
    """

    def __init__(self) -> None:
        self.target, self.draft = Line(), Line()
        self.frozen = False

    @classmethod
    def of(cls, forward: float = 1.0, token: float = 0.02, draft: float = 0.1) -> Costs:
        """Frozen costs, told by hand, in any unit of time.

        Args:
            forward: of the target for one token.
            token: of each further token in the same forward.
            draft: of drafting one token deeper.
        """
        costs = cls()
        for size in (1, 33):
            costs.target.note(size, forward + token * (size - 1))
        for depth in (0, 16):
            costs.draft.note(depth, draft * depth)
        return costs.freeze()

    def freeze(self) -> Costs:
        """Learns nothing more; returns the costs themselves."""
        self.frozen = True
        return self

    def observe(self, tokens: int, depth: int, target: float, draft: float) -> None:
        """A step: tokens evaluated, depth drafted, and the seconds of either."""
        if self.frozen:
            return
        self.target.observe(tokens, target)
        if depth:
            self.draft.observe(depth, draft)
