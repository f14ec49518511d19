#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs each answer on figures that support its claim, that refute it, and on no figures."""

import sys
import unittest

sys.dont_write_bytecode = True
import answers
import catalogue


def results(*rows):
    """rows: (series, x, figure, value)."""
    r = catalogue.Results()
    for series, x, figure, value in rows:
        r.add(series, x, figure, "", value)
    return r


HOLDS, NOT = "holds at all points", "does not hold"
PARTLY = r"\*\*The claim that .* holds at \d+ of"


class Pingpong(unittest.TestCase):
    def at(self, thread, green):
        return answers.pingpong(results(("threads: pipes", "1 CPU", "message", thread),
                                        ("green threads: channel", "1 P", "message", green),
                                        ("green threads: channel", "2 Ps", "message", 2 * green)))

    def test_claim_follows_the_figures(self):
        self.assertIn(HOLDS, self.at(3000, 40))
        self.assertRegex(self.at(3000, 400), PARTLY)
        self.assertIn(NOT, self.at(300, 400))
        self.assertIn("more than with one", self.at(3000, 40))


class Work(unittest.TestCase):
    def at(self, sum1, sum8, docs8, bubble8):
        rows = [("sum", "1 worker, 1 P", "time", sum1), ("sum", "8 workers, 1 P", "time", sum1),
                ("sum", "8 workers, 2 Ps", "time", sum8), ("docs", "1 worker, 1 P", "time", 1000),
                ("docs", "8 workers, 1 P", "time", docs8),
                ("docs", "8 workers, 2 Ps", "time", docs8)]
        for figure in ("time", "cpu"):
            rows += [("bubble", "1 worker, 1 P", figure, 100),
                     ("bubble", "8 workers, 2 Ps", figure, bubble8)]
        return answers.work(results(*rows))

    def test_claims_follow_the_figures(self):
        self.assertEqual(self.at(10, 5, 125, 110).count(HOLDS), 3)
        text = self.at(10, 10, 1000, 20)
        self.assertEqual(text.count(HOLDS), 0)
        self.assertEqual(text.count(NOT), 2)
        self.assertRegex(text, PARTLY)


class Tasks(unittest.TestCase):
    def at(self, pool, green, pool_mib, green_mib):
        return answers.tasks(results(
            ("gmp: pool", "10 tasks", "time", pool), ("gmp: pool", "10 tasks", "peak", pool_mib),
            ("gmp: a green thread each", "10 tasks", "time", green),
            ("gmp: a green thread each", "10 tasks", "peak", green_mib),
            ("Go: ants", "10 tasks", "time", 50), ("Go: ants", "10 tasks", "peak", 7),
            ("Go: a goroutine each", "10 tasks", "time", 200),
            ("Go: a goroutine each", "10 tasks", "peak", 20)))

    def test_time_and_memory_follow_the_figures(self):
        text = self.at(10, 20, 50, 500)
        self.assertIn(HOLDS, text)
        self.assertIn("gmp: pool is faster than gmp: a green thread each", text)
        self.assertIn("The least memory is that of Go: ants", text)
        text = self.at(20, 10, 50, 50)
        self.assertRegex(text, PARTLY)
        self.assertIn("gmp: pool is slower than gmp: a green thread each", text)


class Sieve(unittest.TestCase):
    def at(self, figures):
        labels = {word: label for label, word in answers.SCHEDS}
        return answers.sieve(results(*[(labels[w], p, "message", v) for w, at in figures.items()
                                       for p, v in at.items()]))

    def test_gain_of_runnext_is_told_for_each_number_of_ps(self):
        text = self.at({"global": {1: 100, 2: 200}, "local": {1: 40, 2: 60},
                        "runnext": {1: 50, 2: 40}})
        self.assertRegex(text, "0.80 times as long with 1 P; 1.50 times as long with 2 Ps")
        self.assertRegex(text, r"\*\*The claim that runnext makes hand-overs cheaper holds at 1 of "
                               r"2")
        text = self.at({"global": {1: 100, 2: 90}, "local": {1: 40, 2: 95},
                        "runnext": {1: 50, 2: 95}})
        self.assertEqual(text.count(NOT), 3)


class Yields(unittest.TestCase):
    def at(self, cost, misses=lambda n: 0.1, faults=0.0):
        rows = []
        for n in (2, 4, 8, 100, 1000):
            rows += [("1 P", n, "cpu", cost(n)), ("1 P", n, "misses", misses(n)),
                     ("1 P", n, "later faults", faults), ("1 P", n, "away p50", n * cost(n))]
        return answers.yields(results(*rows))

    def test_growth_follows_the_figures(self):
        text = self.at(lambda n: 10)
        self.assertIn(NOT, text)
        self.assertIn("explain none of the growth", text)
        self.assertNotIn("go together", text)
        text = self.at(lambda n: 10 * n ** 2, lambda n: n, 5)
        self.assertIn(HOLDS, text)
        self.assertIn("go together", text)
        self.assertIn("part of the cost", text)


class Pipeline(unittest.TestCase):
    def at(self, least, most):
        ways = ("pool of 8", "fan-out to 8", "one locked thread")
        rows = [("a loop", 1, "item", 10), ("a loop", 1000, "item", 1000)]
        rows += [(w, 1, "item", v) for w, v in zip(ways, least)] + [(w, 1000, "item", v) for w,
                                                                    v in zip(ways, most)]
        return answers.pipeline(results(*rows))

    def test_gains_follow_the_figures(self):
        text = self.at((50, 60, 300), (500, 520, 1000))
        self.assertIn("None of them is faster", text)
        self.assertIn(HOLDS, text)
        self.assertIn("pool of 8 is as fast as", text)
        text = self.at((5, 60, 300), (500, 900, 400))
        self.assertIn("Faster than the loop there: pool of 8", text)
        self.assertIn(NOT, text)
        self.assertIn("pool of 8 is faster than the fan-out to 8", text)


class Kv(unittest.TestCase):
    def at(self, conn, reactor):
        return answers.kv(results(("redis", "get/1", "rate", 100), ("conn", "get/1", "rate", conn),
                                  ("reactor", "get/1", "rate", reactor),
                                  ("conn", "get/1", "cpu", 5),
                                  ("reactor", "get/1", "cpu", 6)))

    def test_claim_follows_the_figures(self):
        self.assertIn(HOLDS, self.at(100, 105))
        self.assertIn(NOT, self.at(50, 105))
        self.assertIn("conn 0.50, reactor 1.05", self.at(50, 105))
        self.assertIn("Least CPU time of the server a request: conn (get/1)", self.at(50, 105))


class Preempt(unittest.TestCase):
    def at(self, ours, go, speed=100, below=0.5):
        rows = []
        for turn in (1, 2, 3):  # rounds
            for side, wait in ((answers.GMP, ours), (answers.GO, go), (answers.OFF, 5000)):
                rows += [(side, answers.ticks(1, 1), "p99", turn * wait),
                         (side, answers.serves(1000, 1, 1), "p99", turn * wait)]
            rows += [(answers.GMP, answers.ALONE, "speed", speed),
                     (answers.GMP, answers.ALONE, "speed cpu", speed),
                     (answers.GMP, answers.tasks_at(1000, 2), "of cpu", 1.1),
                     (answers.GMP, answers.tasks_at(1000, 2), "below", below),
                     (answers.GMP, answers.tasks_at(1000, 2), "threads", 7)]
        return answers.preempt(results(*rows))

    def test_claims_follow_the_figures(self):
        text = self.at(5, 10)
        self.assertEqual(text.count(HOLDS), 4)
        self.assertNotIn("Longer", text)
        self.assertIn("and at most 7 at a time", text)
        text = self.at(20, 10, 90, 20)
        self.assertEqual(text.count(NOT), 4)
        self.assertIn("Longer than in Go: tick, 1 computes, 1 P (2.0 times as long)", text)
        self.assertIn("It has 90.0 %", text)

    def test_ratios_are_of_the_same_round(self):
        self.assertIn("| 10 ms | 0.5 (0.5–0.5) | 0.001 (0.001–0.001) |", self.at(5, 10))


class Starvation(unittest.TestCase):
    def at(self, few, many, longest, spin, native, used, gap):
        rows = [(answers.GO, answers.sleeper(64, 2), "p99", 20),
                (answers.GO, answers.sleeper(64, 2), "max", 100),
                (answers.GMP, answers.sleeper(64, 2), "p99", many),
                (answers.GMP, answers.sleeper(64, 2), "max", longest),
                (answers.GMP, answers.sleeper(16, 1), "p99", few),
                (answers.GMP, answers.sleeper(16, 1), "max", longest / 2),
                (answers.GMP, answers.spins(64, 4), "total", spin),
                (answers.NATIVE, answers.spins(64, 4), "total", native),
                (answers.GMP, answers.tasks_at(1000, 2), "of cpu", used),
                (answers.GMP, answers.tasks_at(1000, 2), "gap", gap)]
        return answers.preempt(results(*rows))

    def test_claims_follow_the_figures(self):
        # the bound of the barrier: 2 * 64 * 10 / 2 + 50 = 690 ms; of the gap: 7,500 ms
        text = self.at(15, 20, 100, 690, 100, 1.05, 7500)
        self.assertNotIn(NOT, text)
        self.assertNotRegex(text, PARTLY)
        self.assertNotIn("Longer:", text)
        text = self.at(16, 21, 102, 691, 100, 1.06, 7501)
        for longer in ("sleep of 1 ms, 16 compute, 1 P (16 of 15 ms)",
                       "sleep of 1 ms, 64 compute, 2 Ps (21 of 20 ms)",
                       "sleep of 1 ms, 64 compute, 2 Ps (102 of 100 ms)",
                       "barrier, 64 spin, 4 Ps (691 of 690 ms)",
                       "1,000 tasks, 2 Ps (1.06 of 1.05)",
                       "1,000 tasks, 2 Ps (7,501 of 7,500 ms)"):
            self.assertIn(longer, text)

    def test_barrier_may_take_three_times_as_long_as_os_threads(self):
        longer = "barrier, 64 spin, 4 Ps ("
        self.assertIn(longer + "901 of 900 ms)", self.at(15, 20, 100, 901, 300, 1, 1))
        self.assertNotIn(longer, self.at(15, 20, 100, 900, 300, 1, 1))


class All(unittest.TestCase):
    def test_points_that_are_missing_give_no_verdict(self):
        for e in catalogue.ALL:
            r = results(("a series", "8 workers, 2 Ps" if e.name == "work" else 1, "no such figure",
                         1))
            text = e.answer(r)
            self.assertNotIn("holds at", text, e.name)
            self.assertNotIn(NOT, text, e.name)


if __name__ == "__main__":
    unittest.main()
