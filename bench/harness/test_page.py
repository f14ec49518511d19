# SPDX-License-Identifier: MIT
"""Tests of which runs a page is made of.  bench/run --smoke runs them."""

import io
import os
import subprocess
import sys
import unittest
from unittest import mock

from . import ground, measure, peers, rows

ROW = rows.Row("row", 1, "quick", 9, None, None, None, None, False)


class Side(peers.Side):
    """Measures nothing."""

    def __init__(self):
        super().__init__("gmp")
        self.rows = {rows.job(ROW)}

    def measure(self, job, count):
        return {job: ("ns", 1.0, count[1])}


def run(shares, seconds, page, most=None):
    """The result of rounds in which others take these shares; the last one lasts."""
    others = mock.Mock()
    others.return_value.share.side_effect = shares + shares[-1:] * 9
    with mock.patch.object(ground, "Others", others), mock.patch("builtins.print"):
        return measure.run([Side()], [ROW], {rows.job(ROW): (1, 1)}, seconds, most, page)


class Rounds(unittest.TestCase):
    def test_page_has_five_rounds_though_the_time_is_over(self):
        self.assertEqual(run([0.0], 0, True).rounds, 5)
        self.assertEqual(run([0.0], 0, False).rounds, 1)

    def test_page_has_more_rounds_if_there_is_time(self):
        self.assertEqual(run([0.0], 1000, True).rounds, 9)
        self.assertEqual(run([0.0], 1000, True, 7).rounds, 7)

    def test_a_round_beside_others_ends_the_run(self):
        noisy = run([0.0, 0.021], 0, True)
        self.assertEqual(noisy.others, [0.0, 0.021])
        self.assertIn("2.1 % of the CPU time in round 2", ground.unfit(noisy.rounds, noisy.others))
        self.assertEqual(run([0.0, 0.021], 1000, False).rounds, 9)

    def test_a_fit_run_is_no_reason(self):
        self.assertIsNone(ground.unfit(5, [0.02, 0, 0, 0, 0]))
        self.assertIn("4 rounds", ground.unfit(4, [0, 0, 0, 0]))


class Others(unittest.TestCase):
    def share(self, idle, own):
        """Of 1,000 ticks so many are idle, and so many seconds are our own."""
        read = iter([(5000, 9000), (5000 + idle, 10000)])
        spent = iter([7.0, 7.0 + own])
        return ground.Others(lambda: next(read), lambda: next(spent)).share()

    def test_what_is_neither_idle_nor_our_own_is_of_others(self):
        second = os.sysconf("SC_CLK_TCK")
        self.assertAlmostEqual(self.share(1000 - 5 * second, 5.0), 0)
        self.assertAlmostEqual(self.share(1000 - 5 * second, 4.0), second / 1000)
        self.assertEqual(self.share(1000, 1.0), 0)  # the two clocks differ by a tick

    def test_the_time_of_children_is_our_own(self):
        before = ground.own_seconds()
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        subprocess.run([sys.executable, "-c", burn], check=True)
        self.assertGreaterEqual(ground.own_seconds() - before, 0.2)


class Arguments(unittest.TestCase):
    def test_docs_with_fewer_rounds_is_a_wrong_call(self):
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        for options in (["--rounds", "4"], ["--quick"], ["--smoke"]):
            done = subprocess.run([os.path.join(here, "run"), "nowhere", "--docs"] + options,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("at least 5 rounds", done.stderr)


def faults():
    text = io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    if unittest.TextTestRunner(text).run(suite).wasSuccessful():
        return []
    return ["bench/harness/test_page.py:\n" + text.getvalue()]
