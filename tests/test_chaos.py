"""Rounds of chance: see chaos.py. Some hundreds here; make chaos has thousands."""

import os
import random
import subprocess
import sys

import chaos
import pytest

ROUNDS = 50
PARTS = 6  # which may run side by side
SEED = os.environ.get("SEED", str(random.SystemRandom().getrandbits(32)))


@pytest.mark.parametrize("part", range(PARTS))
def test_chaos(part):
    """In a process of its own, which has no other children."""
    result = subprocess.run(
        [sys.executable, chaos.__file__, "--rounds", str(ROUNDS), "--seed", SEED + str(part)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=600)
    assert result.returncode == 0, result.stdout


def test_a_seed_makes_the_same_choices():
    first, again, other = (repr(chaos.Plan(seed, 7)) for seed in ("a", "a", "b"))
    assert first == again != other
