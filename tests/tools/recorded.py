#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests that a recorded trace says what the program has measured itself.

usage: recorded.py GMP_TRACE PLANTED"""

import sys

sys.dont_write_bytecode = True

import json
import os
import subprocess
import tempfile
import unittest

import check_chrome_trace

TOOL, PLANTED = "", ""


def record(procs):
    """Runs the program; returns (what it measured, summary, path of the trace)."""
    path = os.path.join(DIRECTORY.name, "%d.trace" % procs)
    env = dict(os.environ, GMP_TRACE=path, GMP_PROCS=str(procs))
    out = subprocess.run((PLANTED,), env=env, stdout=subprocess.PIPE, check=True, timeout=60)
    return json.loads(out.stdout), json.loads(tool("summary", "--json", path)), path


def tool(*arguments):
    done = subprocess.run((TOOL,) + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, check=True)
    if done.stderr:
        raise AssertionError(done.stderr.decode())
    return done.stdout


class Recorded:
    """What holds with any number of Ps."""

    procs = 0

    @classmethod
    def setUpClass(cls):
        cls.measured, cls.summary, cls.path = record(cls.procs)
        cls.entries = {e["entry"]: e for e in cls.summary["entries"]}

    def near(self, recorded, measured):
        self.assertGreater(measured, 0)
        self.assertLess(abs(recorded - measured), measured / 10, (recorded, measured))

    def wait(self, entry, reason):
        return next(w for w in self.entries[entry]["waits"] if w["reason"] == reason)

    def test_trace_is_complete(self):
        self.assertIs(self.summary["complete"], True)
        self.assertEqual(self.summary["lost"], 0)
        for name in ("app", "compute", "holder", "waiter", "blocker", "echo"):
            self.assertEqual(self.entries[name]["greens"], 1, name)

    def test_computation_has_its_running_time(self):
        self.near(self.entries["compute"]["running_ns"], self.measured["computed"])

    def test_mutex_wait_has_its_time_and_holder(self):
        self.near(self.wait("waiter", "mutex lock")["ns"], self.measured["waited"])
        lock = self.summary["locks"][0]
        self.assertEqual(lock["waits"], 1)
        self.assertEqual([h["entry"] for h in lock["holders"]], ["holder"])
        self.near(lock["ns"], self.measured["waited"])

    def test_sleep_of_the_holder_has_its_time(self):
        self.near(self.wait("holder", "sleep")["ns"], self.measured["held"])

    def test_blocking_code_has_its_time(self):
        self.near(self.entries["blocker"]["blocking_ns"], self.measured["blocked"])

    def test_channel_waits_are_counted(self):
        messages = self.wait("echo", "channel receive")["count"]
        messages += self.wait("app", "channel send")["count"]
        self.assertGreaterEqual(messages, 900)
        self.assertLessEqual(messages, 2001)

    def test_counts_agree_with_the_statistics(self):
        for name in ("handoffs", "preemptions"):
            self.assertEqual(self.summary["counts"][name], self.measured[name], name)
        self.assertGreaterEqual(self.summary["counts"]["steals"], self.measured["steals"])

    def test_running_time_is_that_of_the_statistics(self):
        self.near(sum(e["running_ns"] for e in self.entries.values()), self.measured["cpu_ns"])

    def test_region_and_message_are_there(self):
        region = next(r for r in self.summary["regions"] if r["name"] == "crunch")
        self.near(region["ns"], self.measured["computed"])
        self.assertIn(b"all have ended", tool("text", self.path))

    def test_chrome_trace_is_strict_and_pairs(self):
        self.assertEqual(check_chrome_trace.faults_of(tool("json", self.path)), [])

    def test_flame_graph_has_each_entry_function(self):
        svg = tool("flame", self.path).decode()
        for name in ("compute", "holder", "waiter", "mutex lock"):
            self.assertIn(name, svg)


class OneP(Recorded, unittest.TestCase):
    procs = 1

    def test_p_of_blocking_code_is_handed_off(self):
        self.assertGreaterEqual(self.summary["counts"]["handoffs"], 1)

    def test_computation_is_preempted(self):
        self.assertGreaterEqual(self.summary["counts"]["preemptions"], 1)


class TwoPs(Recorded, unittest.TestCase):
    procs = 2

    def test_green_threads_are_stolen(self):
        self.assertGreaterEqual(self.summary["counts"]["steals"], 1)


class Files(unittest.TestCase):
    def test_a_path_that_cannot_be_opened_refuses_the_run(self):
        env = dict(os.environ, GMP_TRACE="/nonexistent/trace")
        done = subprocess.run((PLANTED,), env=env, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'GMP_TRACE: "/nonexistent/trace"', done.stderr)

    def test_a_full_disk_ends_the_trace_and_not_the_program(self):
        env = dict(os.environ, GMP_TRACE="/dev/full")
        done = subprocess.run((PLANTED,), env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"the trace is incomplete", done.stderr)
        self.assertIn(b"computed", done.stdout)


if __name__ == "__main__":
    TOOL, PLANTED = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as directory:
        class DIRECTORY:
            name = directory
        unittest.main(argv=sys.argv[:1])
