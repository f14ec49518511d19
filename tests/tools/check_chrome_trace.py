#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a file of Chrome trace events, as `gmp-trace json` writes it.

usage: check_chrome_trace.py FILE...     (- is standard input)

  - The file is strict JSON: UTF-8, no NaN, no key twice in an object.
  - Each event has the fields of its phase; times and durations are not negative.
  - Each B has its E in the same track, in the order of a stack.
  - Slices (X, and B to E) of one track nest or are disjoint.
  - Each arrow id has one s and one f, s.ts <= f.ts, and both lie in a slice of their track.
  - Each track with events has a name."""

import bisect
import collections
import decimal
import json
import sys

FIELDS = {"X": ("ts", "dur", "name"), "B": ("ts", "name"), "E": ("ts",), "i": ("ts", "name", "s"),
          "C": ("ts", "name", "args"), "s": ("ts", "id", "name", "cat"),
          "f": ("ts", "id", "name", "cat", "bp"), "M": ("name", "args")}


def unique(pairs):
    """Returns an object; fails if a key is in it twice."""
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key is twice in {keys}")
    return dict(pairs)


def constant(text):
    raise ValueError(f"{text} is not JSON")


def load(data):
    """Parses strict JSON with exact numbers."""
    return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=constant,
                      parse_float=decimal.Decimal, parse_int=int)


def check_fields(events):
    for event in events:
        wanted = FIELDS.get(event.get("ph"))
        if wanted is None:
            yield f"unknown phase: {event}"
            continue
        missing = [key for key in ("pid", "tid") + wanted if key not in event]
        if missing:
            yield f"without {', '.join(missing)}: {event}"
        elif event.get("ts", 0) < 0 or event.get("dur", 0) < 0:
            yield f"negative time: {event}"


def slices_of(events):
    """Returns ({track: [(begin, end, name)]}, faults)."""
    slices, open_ones, faults = collections.defaultdict(list), collections.defaultdict(list), []
    for event in events:
        track = (event["pid"], event["tid"])
        if event["ph"] == "X":
            slices[track].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif event["ph"] == "B":
            open_ones[track].append(event)
        elif event["ph"] == "E":
            if not open_ones[track]:
                faults.append(f"E without B: {event}")
                continue
            begin = open_ones[track].pop()
            if event.get("name", begin["name"]) != begin["name"] or event["ts"] < begin["ts"]:
                faults.append(f"E does not fit its B: {begin}, {event}")
            slices[track].append((begin["ts"], event["ts"], begin["name"]))
    faults += [f"B without E: {event}" for stack in open_ones.values() for event in stack]
    return slices, faults


def check_nesting(slices):
    for track, found in slices.items():
        stack = []
        for begin, end, name in sorted(found, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1][1] <= begin:
                stack.pop()
            if stack and end > stack[-1][1]:
                yield f"slices of track {track} overlap: {stack[-1]}, {(begin, end, name)}"
            stack.append((begin, end, name))


def merged(found):
    """Returns the begins and ends of the union of slices."""
    begins, ends = [], []
    for begin, end, _ in sorted(found):
        if begins and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return begins, ends


def check_arrows(events, slices):
    covered = {track: merged(found) for track, found in slices.items()}
    arrows = collections.defaultdict(lambda: {"s": [], "f": []})
    for event in events:
        if event["ph"] in "sf":
            arrows[event["id"]][event["ph"]].append(event)
            begins, ends = covered.get((event["pid"], event["tid"]), ([], []))
            k = bisect.bisect_right(begins, event["ts"]) - 1
            if k < 0 or ends[k] < event["ts"]:
                yield f"arrow outside of slices: {event}"
    for number, ends in arrows.items():
        if len(ends["s"]) != 1 or len(ends["f"]) != 1:
            yield f"arrow {number}: {len(ends['s'])} s, {len(ends['f'])} f"
        elif ends["s"][0]["ts"] > ends["f"][0]["ts"]:
            yield f"arrow {number} ends before it begins"


def check_names(events):
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] in "XBEisf"}
    for track in sorted(used - named):
        yield f"track {track} has no name"


def faults_of(data):
    """Returns the list of faults of a file."""
    try:
        events = load(data)["traceEvents"]
    except (ValueError, KeyError, TypeError) as error:
        return [f"no JSON object with traceEvents: {error}"]
    faults = list(check_fields(events))
    if faults:
        return faults
    slices, faults = slices_of(events)
    return (faults + list(check_nesting(slices)) + list(check_arrows(events, slices)) +
            list(check_names(events)))


def main():
    failed = False
    for path in sys.argv[1:]:
        data = sys.stdin.buffer.read() if path == "-" else open(path, "rb").read()
        for fault in faults_of(data)[:20]:
            print(f"{path}: {fault}")
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
