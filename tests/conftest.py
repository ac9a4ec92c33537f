import ctypes
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tw  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture
def mark():
    """A word that no other process has in its command line. At the end of the test the
    processes that still have it are ended, by id; that some were left is the test's to
    find, before."""
    word = tw.new_mark()
    yield word
    for pid in tw.marked(word):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    tw.reap_adopted()
