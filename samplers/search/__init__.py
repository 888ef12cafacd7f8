"""Search for good texts: one interface (:mod:`.frontier`), a strategy a file.

Reading order: :mod:`.frontier` (nodes, spaces, budgets, results), then any strategy.

* Prefixes, token by token: :mod:`.beam` and its kin; :mod:`.exact` (the best text, with the proof), :mod:`.mcts`.
* Words that should appear: :mod:`.words` (which of them a prefix has), then :mod:`.grid_beam`, :mod:`.dynamic_beam_allocation`,
  :mod:`.neurologic`.
* Steps: :mod:`.steps` (where a text is cut) and :mod:`.rollout` (sampled continuations), then :mod:`.astar_steps`, :mod:`.rebase`,
  :mod:`.phi`, :mod:`.weak_to_strong`.
* Whole texts: :mod:`.pool` (texts drawn here, or by another sampler), then :mod:`.best_of_n`, :mod:`.mbr` with :mod:`.utilities`,
  :mod:`.self_consistency` and :mod:`.cot` with :mod:`.answers`.
"""
