# SPDX-License-Identifier: MIT
"""Writes trace files of docs/trace-format.md, for tests of gmp-trace.

The numbers of events and the names of their arguments come from src/base/event.def. Times are in
ticks; Trace(ticks_per_us=N) says how many make a microsecond. Threads are written in blocks."""

import re
import struct

REASONS = {0: "nothing", 1: "sleep", 3: "mutex lock", 12: "channel receive"}
CAUSES = {0: "spawn", 1: "yield", 2: "timer", 3: "descriptor", 4: "blocking", 5: "wake"}
QUEUES = {0: "none", 1: "runnext", 2: "ring", 3: "global queue"}
STATES = {0: "free", 1: "runnable", 2: "running", 3: "waiting", 4: "in blocking code", 5: "dead"}
KINDS = {0: "M", 1: "sysmon", 2: "external thread"}
STATUS = {0: "running", 1: "idle", 2: "blocked", 3: "retired"}


def read_events(path):
    """Returns {NAME: (number, names of the arguments in the order of the file, has text)}."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"(?s)/\*.*?\*/", "", file.read())
    events = {}
    pattern = r'EVENT\((\w+), "[^"]*", "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)", (true|false),'
    for number, m in enumerate(re.finditer(pattern, text), 1):
        names = [m[3], m[4], m[5], m[2]]
        events[m[1]] = (number, [name for name in names if name], m[6] == "true")
    return events


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return value * 2 if value >= 0 else -value * 2 - 1


class Trace:
    def __init__(self, event_def, ticks_per_us=1000, start=10 ** 12, block=4096):
        self.events = read_events(event_def)
        self.rate, self.start, self.block = ticks_per_us, start, block
        self.threads = {}
        self.count = 0

    def emit(self, thread, us, name, *arguments, text=None):
        """Adds an event of a thread at a time in microseconds."""
        number, names, has_text = self.events[name]
        assert len(arguments) == len(names), (name, names, arguments)
        assert (text is not None) == has_text, name
        self.threads.setdefault(thread, []).append(
            (self.start + round(us * self.rate), number, arguments, text))
        self.count += 1

    def label_all(self):
        tables = (REASONS, CAUSES, QUEUES, STATES, KINDS, STATUS)
        for table, names in enumerate(tables):
            for code, text in names.items():
                self.emit(0, 0, "LABEL", code, table, text=text.encode())

    def clock(self, us):
        self.emit(0, us, "CLOCK", 5 * 10 ** 9 + round(us * 1000))

    def blocks(self, thread):
        """Yields the blocks of a thread."""
        events = self.threads[thread]
        while events:
            base = last = events[0][0]
            data = bytearray()
            while events and len(data) < self.block:
                tick, number, arguments, text = events.pop(0)
                data += bytes([number]) + varint(zigzag(tick - last))
                last = tick
                data += b"".join(varint(a) for a in arguments)
                if text is not None:
                    data += varint(len(text)) + text
            yield struct.pack("<IIQ", len(data), thread, base) + data

    def header(self):
        return b"gmptrace" + struct.pack("<IIQQQQ", 1, 48, self.start, 5 * 10 ** 9,
                                         1700000000 * 10 ** 9, 4242)

    def finish(self, us):
        """Returns the file; its last event is stop."""
        self.clock(us)
        last = self.threads.pop(0)
        self.threads[0] = [e for e in last]
        self.emit(0, us, "STOP", self.count, 0)
        return self.header() + b"".join(
            block for thread in sorted(self.threads) for block in self.blocks(thread))


SPAWN_WAKE = 5 << 4  # cause "wake" in bits 4 to 7


def scenario(event_def, **options):
    """Returns a trace with known answers; tests/tools/trace.py has them."""
    t = Trace(event_def, **options)
    t.label_all()
    t.clock(0)
    entries = {0x1000: b"compute", 0x2000: b"hold<T>", 0x3000: b"want&lock", 0x4000: b"sleeper"}
    for address, name in entries.items():
        t.emit(0, 0, "SYMBOL", address, text=name)
    # G 1 is runnable at the start of the trace, and runs on thread 1 with P 0
    t.emit(0, 0, "GREEN", 1, 0x1000, 0, 1, text=b"ma\xffin\"")
    t.emit(1, 0, "THREAD", 701, 1, 0)
    t.emit(2, 0, "THREAD", 702, 2, 0)
    t.emit(3, 0, "THREAD", 703, 0, 1)
    t.emit(1, 1, "P_START", 0)
    t.emit(1, 2, "RUN", 1, 0, 0)
    # the 300 ms of G 2 on P 0, preempted after 10 ms
    t.emit(1, 10, "SPAWN", 2, 1, 0x1000, 1)
    t.emit(1, 20, "PARK", 1, 0, 0, 1)
    t.emit(1, 30, "RUN", 2, 0, 1)
    t.emit(3, 10030, "PREEMPT", 0, 2)
    t.emit(2, 10040, "P_START", 0)
    # G 3 holds a mutex for 50 ms, while G 4 waits for it
    t.emit(2, 10050, "TIMER", 0, 1)
    t.emit(2, 10050, "READY", 1, 0, 2 << 4 | 2)
    t.emit(2, 10060, "RUN", 1, 0, 0)
    t.emit(2, 10070, "SPAWN", 3, 1, 0x2000, 2)
    t.emit(2, 10080, "SPAWN", 4, 1, 0x3000, 2)
    t.emit(2, 10090, "NAME", 4, text="wänter".encode())
    t.emit(2, 10100, "YIELD", 1)
    t.emit(2, 10110, "RUN", 3, 0, 1)
    t.emit(2, 10120, "PARK", 3, 0, 0, 1)
    t.emit(2, 10130, "RUN", 4, 0, 1)
    t.emit(2, 10140, "PARK", 4, 0xabcd, 3, 3)
    t.emit(2, 60100, "READY", 3, 0, 2 << 4 | 2)
    t.emit(2, 60110, "RUN", 3, 0, 0)
    t.emit(2, 60140, "READY", 4, 3, SPAWN_WAKE | 1)
    t.emit(2, 60150, "EXIT", 3)
    # a region of G 4 across a wait, with a message; and a handoff of P 0 while it is blocking
    t.emit(2, 60160, "RUN", 4, 0, 0)
    t.emit(2, 60170, "BEGIN", 4, text=b"request")
    t.emit(2, 60180, "LOG", 4, text=b"cat\0hello \x01\\")
    t.emit(2, 60200, "BLOCK", 4, 0)
    t.emit(3, 60300, "HANDOFF", 0, 4)
    t.emit(2, 60700, "UNBLOCK", 4, 0)
    t.emit(2, 60710, "LOSE_P", 4)
    t.emit(2, 60710, "M_SLEEP", 0)
    t.emit(4, 60310, "THREAD", 704, 3, 0)
    t.emit(4, 60320, "P_START", 0)
    t.emit(4, 60330, "STEAL", 0, 1, 2)
    t.emit(4, 60335, "OVERFLOW", 0, 128)
    t.emit(4, 60340, "POLL", 7)
    t.emit(0, 60400, "P_STATE", 0, 5, 6, 0)
    t.emit(0, 60400, "QUEUES", 8, 9, 1, 2)
    t.emit(4, 60810, "RUN", 4, 0, 0)
    t.emit(4, 61170, "END", 4)
    t.emit(4, 61180, "EXIT", 4)
    t.emit(4, 61190, "M_SLEEP", 1)
    # G 2 ends its computation on thread 1, without a P
    t.emit(1, 300030, "EXIT", 2)
    return t.finish(400000)


if __name__ == "__main__":
    import sys
    sys.stdout.buffer.write(scenario(sys.argv[1]))
