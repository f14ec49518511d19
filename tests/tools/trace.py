#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests gmp-trace with traces whose answers are known, and with damaged ones.

usage: trace.py GMP_TRACE EVENT_DEF"""

import sys

sys.dont_write_bytecode = True

import json
import os
import random
import re
import struct
import subprocess
import tempfile
import unittest
import xml.dom.minidom

import check_chrome_trace
import tracefile

PROGRAM, EVENT_DEF = "", ""
DAMAGED = 3  # exit status
MS = 10 ** 6  # ns


def run(*arguments, data=None):
    """Runs gmp-trace; returns (status, output, messages)."""
    done = subprocess.run((PROGRAM,) + arguments, input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def summary(data):
    status, out, _ = run("summary", "--json", "-", data=data)
    assert status in (0, DAMAGED)
    return check_chrome_trace.load(out)


def one(items, **wanted):
    """Returns the only item with these values."""
    found = [item for item in items if all(item.get(k) == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, items)
    return found[0]


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = tracefile.scenario(EVENT_DEF)
        cls.summary = summary(cls.data)
        cls.json = run("json", "-", data=cls.data)[1]
        cls.events = json.loads(cls.json)["traceEvents"]

    def slices(self, track, name=None):
        """Returns the slices [(ts, dur, name)] of the track with this name."""
        named = one([e for e in self.events if e["name"] == "thread_name"], args={"name": track})
        return [(e["ts"], e["dur"], e["name"]) for e in self.events
                if e["ph"] == "X" and (e["pid"], e["tid"]) == (named["pid"], named["tid"])
                and name in (None, e["name"])]


class Summary(Base):
    def test_scenario_gives_no_warnings(self):
        self.assertEqual(run("summary", "-", data=self.data)[2], "")

    def test_head_has_length_and_events(self):
        self.assertEqual(self.summary["length_ns"], 400 * MS)
        self.assertEqual(self.summary["lost"], 0)
        self.assertIs(self.summary["complete"], True)
        self.assertEqual(self.summary["pid"], 4242)
        lines = run("text", "-", data=self.data)[1].count(b"\n")
        self.assertEqual(self.summary["events"], lines)

    def test_computation_is_the_longest_run(self):
        longest = self.summary["longest_runs"][0]
        self.assertEqual((longest["g"], longest["entry"], longest["ns"], longest["begin_ns"]),
                         (2, "compute", 300 * MS, 30000))
        self.assertEqual(len(self.summary["longest_runs"]), 9)

    def test_entry_function_has_times_of_its_greens(self):
        compute = one(self.summary["entries"], entry="compute")
        self.assertEqual(compute["greens"], 2)
        self.assertEqual(compute["running_ns"], 300 * MS + 18000 + 40000)
        self.assertEqual(compute["waits"], [{"reason": "sleep", "count": 1, "ns": 10030000}])
        want = one(self.summary["entries"], entry="want&lock")
        self.assertEqual((want["running_ns"], want["runnable_ns"], want["waiting_ns"],
                          want["blocking_ns"]), (430000, 170000, 50 * MS, 500000))

    def test_mutex_wait_names_its_holder(self):
        self.assertEqual(self.summary["locks"], [
            {"object": 0xabcd, "reason": "mutex lock", "waits": 1, "ns": 50 * MS,
             "longest_ns": 50 * MS,
             "holders": [{"entry": "hold<T>", "waits": 1, "ns": 50 * MS}]}])

    def test_counts_agree_with_the_events(self):
        self.assertEqual(self.summary["counts"], {
            "steals": 1, "stolen": 2, "handoffs": 1, "preemptions": 1, "overflows": 1,
            "overflowed": 128, "polls": 1, "poll_events": 7, "timer_batches": 1, "timers": 1})

    def test_wakeups_name_functions_and_causes(self):
        wakeups = self.summary["wakeups"]
        self.assertEqual(one(wakeups, by="hold<T>", woken="want&lock")["count"], 1)
        self.assertEqual(one(wakeups, by_cause="timer", woken="hold<T>")["count"], 1)
        self.assertEqual(one(wakeups, by="compute", woken="compute")["count"], 1)

    def test_latency_is_by_cause_and_queue(self):
        latency = self.summary["latency"]
        self.assertEqual(one(latency, cause="wake", queue="runnext")["max_ns"], 20000)
        self.assertEqual(one(latency, cause="timer", queue="ring")["samples"], 2)
        spawn = one(latency, cause="spawn", queue="ring")
        self.assertEqual((spawn["samples"], spawn["max_ns"]), (2, 50000))
        self.assertTrue(40000 <= spawn["p50_ns"] <= 40000 * 1.008, spawn)

    def test_p_is_busy_until_its_g_is_preempted(self):
        # 18 us G 1; 10 ms G 2; 40 + 10 + 10 + 40 + 40 + 370 us of the others
        p = one(self.summary["ps"], id=0)
        self.assertEqual(p["running_ns"], 18000 + 10 * MS + 510000)
        self.assertEqual(p["blocking_ns"], 100000)
        self.assertEqual(p["held_ns"], 10029000 + 50260000 + 339680000)

    def test_region_has_its_time_across_waits(self):
        self.assertEqual(self.summary["regions"],
                         [{"name": "request", "count": 1, "ns": MS, "longest_ns": MS}])

    def test_text_has_each_section(self):
        text = run("summary", "-", data=self.data)[1].decode()
        for head in ("process", "Entry functions:", "Wakeups:", "Locks:", "Scheduling latency:",
                     "Counts", "Ps:", "Regions:", "Longest runs without a switch:"):
            self.assertIn(f"\n{head}", "\n" + text)
        self.assertRegex(text, r"\n +1 +50\.000 ms +50\.000 ms 0xabcd mutex lock\n")
        self.assertIn("ma\\xffin", text)

    def test_unscaled_ticks_give_the_same_summary(self):
        for rate in (3000, 700):
            other = summary(tracefile.scenario(EVENT_DEF, ticks_per_us=rate))
            self.assertEqual(other, self.summary)

    def test_many_small_blocks_give_the_same_summary(self):
        self.assertEqual(summary(tracefile.scenario(EVENT_DEF, block=1)), self.summary)

    def test_quantiles_are_at_most_a_hundredth_too_large(self):
        t = tracefile.Trace(EVENT_DEF)
        t.label_all()
        t.clock(0)
        for i in range(1, 1001):
            t.emit(1, 10000 * i, "SPAWN", i, 0, 0x1000, 2)
            t.emit(1, 10000 * i + i, "RUN", i, 0, 1)
            t.emit(1, 10000 * i + i, "EXIT", i)
        found = one(summary(t.finish(11000000))["latency"], cause="spawn", queue="ring")
        self.assertEqual((found["samples"], found["max_ns"]), (1000, MS))
        for percent in (50, 90, 99):
            ns = found[f"p{percent}_ns"]
            self.assertTrue(percent * 10000 <= ns <= percent * 10100, (percent, ns))


class Json(Base):
    def test_checker_finds_no_faults(self):
        self.assertEqual(check_chrome_trace.faults_of(self.json), [])

    def test_computation_is_a_slice_of_its_green_thread(self):
        self.assertEqual(self.slices("compute (G 2)"),
                         [(10, 20, "runnable"), (30, 300000, "running")])
        self.assertIn((30, 10000, "compute"), self.slices("P 0"))
        self.assertIn((30, 300000, "compute"), self.slices("M 1 (tid 701)"))

    def test_wait_for_a_mutex_is_a_slice_with_its_holder(self):
        self.assertEqual(self.slices("wänter (G 4)", "waiting on mutex lock"),
                         [(10140, 50000, "waiting on mutex lock")])
        wait = one(self.events, name="waiting on mutex lock")
        self.assertEqual(wait["args"], {"reason": "mutex lock", "object": "0xabcd", "holder G": 3,
                                        "holder": "hold<T>"})

    def test_blocking_code_keeps_its_p_until_the_handoff(self):
        self.assertEqual(self.slices("wänter (G 4)", "blocking"), [(60200, 500, "blocking")])
        self.assertEqual(self.slices("P 0", "wänter (blocking)"),
                         [(60200, 100, "wänter (blocking)")])

    def test_region_is_one_pair_around_the_states(self):
        begin, end = one(self.events, ph="B"), one(self.events, ph="E")
        self.assertEqual((begin["name"], begin["ts"], end["ts"]), ("request", 60170, 61170))

    def test_message_is_an_instant_of_its_green_thread(self):
        log = one(self.events, cat="log")
        self.assertEqual((log["name"], log["args"], log["ts"]),
                         ("hello \x01\\", {"category": "cat"}, 60180))

    def test_wakeup_is_an_arrow_from_the_waker(self):
        starts = {e["id"]: e for e in self.events if e["ph"] == "s"}
        run_of_4 = one(self.events, ph="f", ts=60160)
        self.assertEqual(starts[run_of_4["id"]]["ts"], 60140)
        names = {e["tid"]: e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        self.assertEqual(names[starts[run_of_4["id"]]["tid"]], "hold<T> (G 3)")
        self.assertEqual(len(starts), 6)  # 3 spawns, 3 wakeups

    def test_scheduler_events_are_instants(self):
        for name, thread in (("steal", 4), ("handoff", 3), ("preempt", 3), ("poll", 4),
                             ("overflow", 4), ("timer", 2)):
            self.assertEqual(one(self.events, ph="i", name=name)["tid"], 100000 + thread)

    def test_sleeps_are_slices_of_threads(self):
        self.assertEqual(self.slices("M 2 (tid 702)", "sleep"), [(60710, 339290, "sleep")])
        self.assertEqual(len(self.slices("M 3 (tid 704)", "sleep in poller")), 1)

    def test_queue_lengths_are_counters(self):
        self.assertEqual(one(self.events, ph="C", name="queue of P 0")["args"],
                         {"ring": 5, "yielded": 6})
        self.assertEqual(one(self.events, ph="C", name="global queue")["args"],
                         {"events": 8, "yielded": 9})
        self.assertEqual(one(self.events, ph="C", name="Ms")["args"],
                         {"spinning": 2, "sleeping": 1})

    def test_damaged_utf8_becomes_a_replacement(self):
        self.assertIn('ma\\ufffdin\\"', self.json.decode())


class Text(Base):
    def line(self, event):
        """Returns the only line of this kind of event, from its arguments on."""
        lines = run("text", "-", data=self.data)[1].decode().splitlines()
        found = [line.split(f": {event} ", 1)[1] for line in lines if f": {event} " in line]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_line_has_the_name_or_the_entry_function(self):
        self.assertEqual(self.line("block"), "G=4 P=0 [wänter]")
        self.assertEqual(self.line("handoff"), "P=0 G=4 [wänter]")
        self.assertEqual(self.line("name"), 'G=4 "wänter"')
        text = run("text", "-", data=self.data)[1].decode()
        self.assertIn(": run G=3 P=0 first=1 [hold<T>]\n", text)
        self.assertIn(": run G=1 P=0 first=0 [ma\\xffin\"]\n", text)
        self.assertIn(": exit G=2 [compute]\n", text)

    def test_message_has_its_category_apart(self):
        self.assertEqual(self.line("log"), r'G=4 [wänter] "cat" "hello \x01\"')


class Flame(Base):
    def test_svg_is_xml_with_titles(self):
        for option in ((), ("--per-green",)):
            status, out, _ = run("flame", *option, "-", data=self.data)
            self.assertEqual(status, 0)
            page = xml.dom.minidom.parseString(out)
            titles = [t.firstChild.data for t in page.getElementsByTagName("title")]
            self.assertTrue(any(t.startswith("want&lock: ") for t in titles), titles)
            self.assertTrue(any(t.startswith("mutex lock: 50.000 ms") for t in titles), titles)
            self.assertTrue(any(t.startswith("hold<T>: 50.000 ms") for t in titles), titles)
            self.assertEqual(any(t.startswith("wänter: ") for t in titles), bool(option))
            self.assertEqual(page.getElementsByTagName("script"), [])


class Skew(unittest.TestCase):
    """Counters of different CPUs differ: events of two threads are out of order."""

    def trace(self, *events):
        t = tracefile.Trace(EVENT_DEF)
        t.label_all()
        t.clock(0)
        for event in events:
            *event, text = event if isinstance(event[-1], bytes) else (*event, None)
            t.emit(*event, text=text)
        return t.finish(1000)

    def test_ready_before_park_is_a_wait_of_no_time(self):
        data = self.trace((1, 1, "SPAWN", 1, 0, 0x1000, 2), (1, 2, "RUN", 1, 0, 1),
                          (2, 10, "READY", 1, 0, 5 << 4 | 2), (1, 10.2, "PARK", 1, 9, 0, 12),
                          (1, 12, "RUN", 1, 0, 0), (1, 13, "EXIT", 1))
        self.assertEqual(run("summary", "-", data=data)[2], "")
        self.assertEqual(one(summary(data)["entries"], greens=1)["waits"],
                         [{"reason": "channel receive", "count": 1, "ns": 0}])

    def test_run_before_spawn_gets_its_entry_function(self):
        data = self.trace((1, 5, "RUN", 1, 0, 1), (2, 5.1, "SPAWN", 1, 0, 0x1234, 2),
                          (1, 105, "EXIT", 1))
        self.assertEqual(one(summary(data)["entries"], entry="0x1234")["running_ns"], 100000)
        self.assertEqual(check_chrome_trace.faults_of(run("json", "-", data=data)[1]), [])

    def test_new_p_after_blocking_runs_the_green_thread(self):
        data = self.trace((1, 0, "P_START", 0), (1, 0, "SPAWN", 1, 0, 0x1000, 2),
                          (1, 10, "RUN", 1, 0, 1), (1, 20, "BLOCK", 1, 0),
                          (2, 30, "HANDOFF", 0, 1), (2, 31, "P_START", 0), (2, 40, "P_STOP", 0),
                          (1, 50, "P_START", 0), (1, 51, "UNBLOCK", 1, 1), (1, 71, "EXIT", 1),
                          (1, 80, "P_STOP", 0))
        self.assertEqual(one(summary(data)["ps"], id=0),
                         {"id": 0, "running_ns": 30000, "blocking_ns": 10000, "held_ns": 69000})
        self.assertEqual(check_chrome_trace.faults_of(run("json", "-", data=data)[1]), [])

    def test_missing_start_is_read_with_a_warning(self):
        data = self.trace((1, 10, "PARK", 7, 0x99, 0, 3), (2, 20, "READY", 7, 8, 5 << 4 | 1),
                          (2, 30, "END", 8), (1, 40, "RUN", 7, 0, 0), (1, 50, "EXIT", 7))
        status, _, messages = run("summary", "-", data=data)
        self.assertEqual(status, 0)
        self.assertIn("2 green threads whose start is not in the trace", messages)
        self.assertIn("1 ends of regions", messages)
        self.assertEqual(one(summary(data)["locks"], object=0x99)["ns"], 10000)
        self.assertEqual(check_chrome_trace.faults_of(run("json", "-", data=data)[1]), [])

    def test_holder_of_a_lock_that_was_handed_over_is_its_last_waiter(self):
        # Gs 1, 2, 3 have a mutex in turn; each G parks again before the next holder has run
        wake, mutex = 5 << 4 | 1, 3
        events = [(1, 1, "SPAWN", g, 0, 0x1000 * g, 2) for g in (1, 2, 3)]
        for us, g in ((2, 2), (4, 3)):
            events += [(1, us, "RUN", g, 0, 1), (1, us + 1, "PARK", g, 0x99, 1, mutex)]
        events.append((1, 6, "RUN", 1, 0, 1))
        for us, g, after in ((100, 1, 2), (200, 2, 3), (300, 3, 1), (400, 1, 2)):
            events += [(1, us, "READY", after, g, wake), (1, us + 12, "PARK", g, 0x99, 0, mutex),
                       (1, us + 14, "RUN", after, 0, 0)]
        # a wait that ends by a timeout hands nothing over; G 2 itself parks without a holder
        events += [(2, 500, "READY", 3, 0, 2 << 4 | 2), (2, 501, "RUN", 3, 0, 0),
                   (2, 510, "PARK", 3, 0x99, 0, mutex), (1, 520, "PARK", 2, 0x99, 0, mutex)]
        lock = one(summary(self.trace(*events))["locks"], object=0x99)
        self.assertEqual(lock["waits"], 8)
        self.assertEqual({h["entry"]: h["waits"] for h in lock["holders"]},
                         {"0x1000": 3, "0x2000": 3, "0x3000": 1, None: 1})

    def test_wait_of_the_start_is_no_lock_of_its_own(self):
        data = self.trace((0, 0, "GREEN", 7, 0x7000, 3, 3, b"seven"),
                          (1, 20, "READY", 7, 8, 5 << 4 | 1), (1, 30, "RUN", 7, 0, 0),
                          (1, 40, "PARK", 7, 0x99, 8, 3),
                          (0, 50, "GREEN", 8, 0x8000, 0, 2, b""))
        found = summary(data)
        self.assertEqual(found["locks_unnamed"], {"waits": 1, "ns": 20000, "longest_ns": 20000})
        lock = one(found["locks"])
        self.assertEqual((lock["object"], lock["waits"]), (0x99, 1))
        # the waker and the holder are named although their event comes later
        self.assertEqual(lock["holders"][0]["entry"], "0x8000")
        self.assertEqual(found["wakeups"], [{"by": "0x8000", "woken": "0x7000", "count": 1}])
        status, out, messages = run("summary", "-", data=data)
        self.assertEqual((status, messages), (0, ""))
        self.assertRegex(out.decode(), r"\n +1 +0\.020 ms +0\.020 ms waits without an address: ")

    def test_holder_that_an_event_names_ends_a_hand_over(self):
        events = [(1, 1, "SPAWN", g, 0, 0x1000 * g, 2) for g in (1, 2, 3, 4)]
        events += [(1, 2, "RUN", 2, 0, 1), (1, 3, "PARK", 2, 0x99, 1, 3),
                   (1, 4, "READY", 2, 1, 5 << 4 | 1), (1, 5, "RUN", 2, 0, 0), (1, 6, "YIELD", 2),
                   (1, 7, "RUN", 3, 0, 1), (1, 8, "PARK", 3, 0x99, 4, 3),
                   (1, 9, "RUN", 1, 0, 1), (1, 10, "PARK", 1, 0x99, 0, 3)]
        lock = one(summary(self.trace(*events))["locks"], object=0x99)
        self.assertEqual({h["entry"]: h["waits"] for h in lock["holders"]},
                         {"0x1000": 1, "0x4000": 1, None: 1})

    def test_lost_events_are_counted(self):
        data = self.trace((1, 1, "RUN", 1, 0, 0), (1, 2, "LOST", 77), (1, 3, "RUN", 2, 0, 0))
        self.assertEqual(summary(data)["lost"], 77)
        self.assertIn("77 events were lost", run("summary", "-", data=data)[2])

    def test_time_that_goes_backward_is_clamped(self):
        data = self.trace((1, 50, "SPAWN", 1, 0, 0x1000, 2), (1, 40, "RUN", 1, 0, 1),
                          (1, 60, "EXIT", 1))
        self.assertIn("1 events with a time before", run("summary", "-", data=data)[2])
        self.assertEqual(one(summary(data)["entries"], greens=1)["running_ns"], 10000)


class Damage(Base):
    def check_outputs(self, data):
        """Each output must be well-formed, with status 0 or DAMAGED, or end with status 1."""
        first, out, _ = run("summary", "--json", "-", data=data)
        self.assertIn(first, (0, 1, DAMAGED))
        if first == 1:
            return
        found = check_chrome_trace.load(out)
        self.assertIs(found["damaged"], first == DAMAGED)
        self.assertFalse(found["damaged"] and found["complete"])
        status, out, _ = run("json", "-", data=data)
        self.assertEqual((status, check_chrome_trace.faults_of(out)), (first, []))
        status, out, _ = run("flame", "--per-green", "-", data=data)
        self.assertEqual(status, first)
        xml.dom.minidom.parseString(out)
        self.assertEqual(run("summary", "-", data=data)[0], first)
        self.assertEqual(run("text", "-", data=data)[0], first if first == DAMAGED else 0)

    def check_refused(self, data, message):
        status, out, messages = run("summary", "-", data=data)
        self.assertEqual((status, out), (1, b""))
        self.assertIn(message, messages)

    def block(self, events, thread=1):
        return struct.pack("<IIQ", len(events), thread, 10 ** 12) + events

    def test_unreadable_file_is_refused(self):
        self.check_refused(b"", "empty")
        self.check_refused(b"GIF89a" + bytes(100), "no trace file")
        self.check_refused(self.data[:47], "no trace file")
        self.check_refused(self.data[:48], "no events")
        self.check_refused(self.data[:60], "no events")
        self.check_refused(self.data[:8] + b"\2" + self.data[9:], "version")
        self.check_refused(self.data[:12] + b"\0" + self.data[13:], "length of the header")
        status, _, messages = run("summary", "/nonexistent/trace")
        self.assertEqual(status, 1)
        self.assertIn("/nonexistent/trace: cannot be read: No such file or directory", messages)
        done = subprocess.run(("sh", "-c", '"$0" summary - <&-', PROGRAM), stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"gmp-trace: -: cannot be read: Bad file descriptor\n"))
        status, _, messages = run("summary", "/")
        self.assertEqual(status, 1)
        self.assertIn("/: cannot be read: Is a directory", messages)

    def test_longer_header_is_skipped(self):
        data = self.data[:12] + struct.pack("<I", 56) + self.data[16:48] + bytes(8) + self.data[48:]
        self.assertEqual(summary(data), self.summary)

    def test_truncated_file_is_read_to_its_end(self):
        for end in range(61, len(self.data), 37):
            self.check_outputs(self.data[:end])
            status, _, messages = run("summary", "-", data=self.data[:end])
            self.assertIn(status, (0, 1))  # 1: without any event
            self.assertNotIn("damaged", messages)
        messages = run("summary", "-", data=self.data[:-3])[2]
        self.assertIn("truncated", messages)

    def check_damaged(self, data, message):
        status, out, messages = run("summary", "-", data=data)
        self.assertEqual(status, DAMAGED)
        self.assertIn(b"\ncomplete no: the file is damaged\n", out)
        self.assertIn(message, messages)
        found = summary(data)
        self.assertIs(found["complete"], False)
        self.assertIs(found["damaged"], True)
        return found

    def test_file_of_two_writers_is_damaged(self):
        # a second process truncates the file; the first continues at its own place
        self.check_damaged(self.data[:48] + bytes(320) + self.data[48:], "20 damaged blocks")
        # both have ended: the second trace is longer, or shorter
        self.check_damaged(self.data + self.data[48:], "stop events after the first one")
        self.check_damaged(self.data + self.block(b"\x07\0\1\0\0"), "counts other events")

    def test_times_outside_of_the_trace_are_damage(self):
        for us in (-5000, 10 ** 9):
            t = tracefile.Trace(EVENT_DEF)
            t.label_all()
            t.clock(0)
            t.emit(1, 10, "SPAWN", 1, 0, 0x1000, 2)
            t.emit(2, us, "P_START", 0)
            found = self.check_damaged(t.finish(1000), "a time outside of the trace")
            self.assertEqual(found["length_ns"], MS)

    def test_time_that_jumps_back_is_damage(self):
        t = tracefile.Trace(EVENT_DEF)
        t.label_all()
        t.clock(0)
        t.emit(1, 5000, "P_START", 0)
        t.emit(1, 3000, "P_STOP", 0)
        self.check_damaged(t.finish(6000), "more than 1 ms before")

    def test_unknown_type_skips_the_block(self):
        for bad in (b"\0\0", b"\xfe\0"):
            data = self.data + self.block(b"\x07\0\1\0\0" + bad + bytes(9))
            self.assertIn("1 blocks with an event of an unknown type",
                          run("summary", "-", data=data)[2])
            self.assertEqual(summary(data)["events"], self.summary["events"] + 1)

    def test_overlong_varint_skips_the_block(self):
        for bad in (b"\x06\0" + b"\xff" * 20, b"\x06\0" + b"\x80" * 9 + b"\2", b"\x06" + b"\x80",
                    b"\x02\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", b"\x02\0\1\x05abc"):
            messages = run("summary", "-", data=self.data + self.block(bad))[2]
            self.assertIn("1 damaged blocks", messages)

    def test_changed_bytes_never_crash(self):
        draw = random.Random(1)
        for _ in range(40):
            data = bytearray(self.data)
            for _ in range(draw.randrange(1, 6)):
                data[draw.randrange(48, len(data))] = draw.randrange(256)
            self.check_outputs(bytes(data))

    def test_random_events_never_break_an_output(self):
        draw = random.Random(2)
        for _ in range(15):
            t = tracefile.Trace(EVENT_DEF)
            t.label_all()
            names = [n for n in t.events if n not in ("LABEL", "SYMBOL", "CLOCK", "STOP")]
            for us in range(400):
                name = draw.choice(names)
                _, arguments, has_text = t.events[name]
                t.emit(draw.randrange(1, 4), us + draw.randrange(3), name,
                       *(draw.randrange(5) for _ in arguments), text=b"t" if has_text else None)
            self.check_outputs(t.finish(500))


class Usage(unittest.TestCase):
    def test_wrong_arguments_exit_with_2(self):
        for arguments in ((), ("what",), ("json",), ("json", "--json", "x"), ("text", "a", "b"),
                          ("summary", "--per-green", "x"), ("events", "x")):
            status, out, messages = run(*arguments)
            self.assertEqual((status, out), (2, b""), arguments)
            self.assertIn("see gmp-trace --help", messages)

    def test_help_and_version_exit_with_0(self):
        self.assertTrue(run("--help")[1].startswith(b"usage: gmp-trace"))
        self.assertRegex(run("--version")[1].decode(), r"^gmp-trace \d+\.\d+\.\d+\n$")

    def test_table_has_each_event(self):
        lines = run("events")[1].decode().splitlines()[1:]
        numbers = [int(re.match(r" *(\d+)", line)[1]) for line in lines]
        self.assertEqual(numbers, [n for n, _, _ in tracefile.read_events(EVENT_DEF).values()])

    def test_full_disk_exits_with_1(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with tempfile.NamedTemporaryFile() as file, open("/dev/full", "wb") as full:
            file.write(tracefile.scenario(EVENT_DEF))
            file.flush()
            done = subprocess.run((PROGRAM, "json", file.name), stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write", done.stderr)


class Checker(unittest.TestCase):
    """The checker of Chrome traces finds planted faults."""

    def faults(self, *events):
        names = [{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "t"}}]
        return check_chrome_trace.faults_of(json.dumps({"traceEvents": names + list(events)})
                                            .encode())

    def test_planted_faults_are_found(self):
        track = {"pid": 1, "tid": 1, "name": "n"}
        x = {"ph": "X", "ts": 0, "dur": 10, **track}
        arrow = {"cat": "c", "id": 1, **track}
        s, f = {"ph": "s", "ts": 3, **arrow}, {"ph": "f", "ts": 5, "bp": "e", **arrow}
        self.assertEqual(self.faults(x, s, f), [])
        for planted in ((x, {**x, "ts": 5}), (x, s), (x, {**s, "ts": 7}, f), (s, f), (x, s, s, f),
                        ({"ph": "B", "ts": 1, **track},), ({"ph": "E", "ts": 1, **track},),
                        ({**x, "dur": -1},), ({**x, "tid": 2},)):
            self.assertNotEqual(self.faults(*planted), [], planted)
        self.assertNotEqual(check_chrome_trace.faults_of(b'{"traceEvents":[NaN]}'), [])


if __name__ == "__main__":
    PROGRAM, EVENT_DEF = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
