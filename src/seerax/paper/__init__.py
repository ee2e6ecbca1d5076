"""The paper, reproduced: what it shows, run, judged and written down.

Internal: use `seerax reproduce`.
"""
