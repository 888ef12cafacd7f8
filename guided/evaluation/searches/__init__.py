"""What searches find and what they cost, on a real model with real prompts: ``guided bench search``.

Reading order: :mod:`.records` (what is kept of each run; runs that go on where they stopped), :mod:`.prompts` (the data), then the four
parts: :mod:`.beams` (beside the beams of transformers), :mod:`.concepts` (words that must appear), :mod:`.rewards` (a lexicon of pleasant
words), :mod:`.objects` (a reward of finished objects under a schema); :mod:`.run` runs them, :mod:`.report` makes tables and the plot.
"""
