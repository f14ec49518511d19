# SPDX-License-Identifier: MIT
"""What do the green threads of a program do, as seen from lldb?

    (lldb) command script import PREFIX/share/gmprt/gmp_lldb.py
    (lldb) gmp info             all green threads: number, state, what for, name, entry
    (lldb) gmp bt ID            the calls of one, wherever it is
    (lldb) gmp bt all           of all
    (lldb) gmp with ID COMMAND  COMMAND (thread backtrace -e true ...) on its stack
    (lldb) gmp with ID/N COMMAND
                                COMMAND (frame variable ...) in its frame N

The process may live or be a core file.  Nothing in it is written to or called: for the time of a
command, lldb is told by an operating system plug-in (which is this file too) that the parked green
threads asked for are threads, with the registers that they left on their stacks.
"""

import os
import struct

import lldb

# What mcall leaves at the saved stack pointer, as struct context_frame has it (src/context.h).
FRAME_SIZE = 64
FRAME = ("r15", "r14", "r13", "r12", "rbx", "rbp", "rip")  # from FRAME_FIRST on
FRAME_FIRST = 8

# The registers of a thread, in the order of the numbers that tables for unwinding call them by.
REGISTERS = ("rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip").split()
GENERIC = {"rip": "pc", "rsp": "sp", "rbp": "fp"}

FIRST_TID = 1 << 40  # of the threads that stand for green ones: above all of the kernel's

# The green threads that the plug-in makes threads of: lldb loads this file anew for the plug-in.
shown = globals().get("shown", [])


class Refused(Exception):
    """What a command cannot do, and why."""


class OperatingSystemPlugIn:
    """As lldb asks for it by the setting target.process.python-os-plugin-path."""

    def __init__(self, process):
        self.process = process

    def create_thread(self, tid, context):
        return None

    def get_thread_info(self):
        return [{"tid": FIRST_TID + green.id, "name": green.name(), "state": "stopped",
                 "stop_reason": "none"} for green in shown]

    def get_register_info(self):
        return {"sets": ["general"], "registers": [
            dict({"name": name, "bitsize": 64, "offset": 8 * i, "encoding": "uint",
                  "format": "hex", "set": 0, "gcc": i, "dwarf": i},
                 **({"generic": GENERIC[name]} if name in GENERIC else {}))
            for i, name in enumerate(REGISTERS)]}

    def get_register_data(self, tid):
        for green in shown:
            if green.id == tid - FIRST_TID:
                values = green.registers()
                return struct.pack("<17Q", *(values.get(name, 0) for name in REGISTERS))
        return None


class Memory:
    """What is read of the process, which has stopped."""

    LONGEST = 64  # bytes of a text

    def __init__(self, process):
        if not process or not process.IsValid() or process.GetState() != lldb.eStateStopped:
            raise Refused("there is no process that has stopped, and no core file")
        self.process = process
        self.target = process.GetTarget()

    def variable(self, name, fits):
        """The runtime's; the program may have others of that name."""
        found = self.target.FindGlobalVariables(name, 100)
        for i in range(found.GetSize()):
            if fits(found.GetValueAtIndex(i)):
                return found.GetValueAtIndex(i)
        raise Refused("no runtime here, or no debugging information of it")

    def struct(self, name, field):
        return self.variable(name, lambda v: v.GetChildMemberWithName(field).IsValid())

    def texts(self, name, first):
        texts = self.variable(name, lambda v: v.GetNumChildren() > 0 and
                              self.text(v.GetChildAtIndex(0).GetValueAsUnsigned()) == first)
        return [self.text(texts.GetChildAtIndex(i).GetValueAsUnsigned())
                for i in range(texts.GetNumChildren())]

    def read(self, at, size):
        error = lldb.SBError()
        data = self.process.ReadMemory(at, size, error)
        if error.Fail():
            raise Refused("memory at %#x cannot be read: %s" % (at, error.GetCString()))
        return data

    def read_code(self, at, size):
        """Code and constants are not in a core file: they come from the program's."""
        error = lldb.SBError()
        data = self.process.ReadMemory(at, size, error)
        if error.Fail() or not data.strip(b"\0"):  # lldb takes what is not there for zeros
            where = self.target.ResolveLoadAddress(at)
            data = self.target.ReadMemory(where, size, error) if where.section else None
        if not data or len(data) < size:
            raise Refused("code at %#x cannot be read" % at)
        return data

    def text(self, at):
        """Constants are not in a core file: they come from the program's."""
        error = lldb.SBError()
        text = self.process.ReadCStringFromMemory(at, self.LONGEST, error)
        if error.Fail() or not text:
            where = self.target.ResolveLoadAddress(at)
            data = self.target.ReadMemory(where, self.LONGEST, error) if where.section else None
            text = (data or b"").partition(b"\0")[0].decode(errors="replace")
        return text

    def symbol(self, pc):
        symbol = self.target.ResolveLoadAddress(pc).GetSymbol()
        return symbol.GetName() if symbol.IsValid() else "%#x" % pc


class Layout:
    """Where the fields of a structure lie; those within another one by a path: ctx.sp."""

    FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}

    def __init__(self, kind, *paths):
        self.size = kind.GetByteSize()
        self.fields = {path: self.find(kind, path.split(".")) for path in paths}

    def find(self, kind, path):
        for i in range(kind.GetNumberOfFields()):
            field = kind.GetFieldAtIndex(i)
            if field.GetName() == path[0]:
                if len(path) == 1:
                    return field.GetOffsetInBytes(), self.FORMATS[field.GetType().GetByteSize()]
                at, form = self.find(field.GetType(), path[1:])
                return at + field.GetOffsetInBytes(), form
        raise Refused("this is not the runtime that this script knows: no %s" % path[0])

    def of(self, data, base):
        return {path: struct.unpack_from("<" + form, data, base + at)[0]
                for path, (at, form) in self.fields.items()}


class Green:
    """A green thread that lives."""

    def __init__(self, world, index, fields):
        self.world = world
        self.index = index
        self.fields = fields
        self.id = fields["id"]
        self.status = world.statuses[fields["status"]]
        self.lwp = None  # the kernel's number of the thread that it is on

    def name(self):
        world = self.world
        if not self.fields["named"]:
            return ""
        return world.memory.text(world.names + self.index * world.name_most)

    def entry(self):
        return self.world.memory.symbol(self.fields["fn"])

    def what(self):
        """The state, and what it waits for."""
        if self.status == "waiting":
            return "%s (%s)" % (self.status, self.world.reasons[self.fields["reason"]])
        if self.status == "runnable" and not self.fields["stack"]:
            return self.status + " (new)"
        return self.status

    def title(self):
        on = ", on thread LWP %d" % self.lwp if self.lwp else ""
        return 'green thread %d "%s" (entry %s): %s%s' % (
            self.id, self.name(), self.entry(), self.what(), on)

    def registers(self):
        """Those that it goes on with."""
        at = self.fields["ctx.sp"]
        frame = self.world.memory.read(at + FRAME_FIRST, 8 * len(FRAME))
        values = dict(zip(FRAME, struct.unpack("<%dQ" % len(FRAME), frame)))
        values["rsp"] = at + FRAME_SIZE
        return values


class World:
    """The runtime of a process."""

    AT_ONCE = 4096  # descriptors read in one go

    def __init__(self, process):
        self.memory = Memory(process)
        gs = self.memory.struct("gs", "arena")
        arena = gs.GetChildMemberWithName("arena")
        self.arena = arena.GetValueAsUnsigned()
        self.made = gs.GetChildMemberWithName("made").GetValueAsUnsigned()
        names = gs.GetChildMemberWithName("names")
        self.names = names.GetValueAsUnsigned()
        self.statuses = self.memory.texts("states", "free")
        self.reasons = self.memory.texts("reasons", "nothing")
        self.name_most = 64  # G_NAME_MAX
        self.layout = Layout(arena.GetType().GetPointeeType(), "ctx.sp", "stack", "status",
                             "reason", "named", "fn", "id")

    def threads(self):
        """Of each M that runs a green thread: where that one's descriptor lies, and the kernel's number."""
        m = self.memory.struct("sched", "allm").GetChildMemberWithName("allm")
        layout = Layout(m.GetType().GetPointeeType(), "curg", "tid", "alllink")
        at, on = m.GetValueAsUnsigned(), {}
        while at:
            fields = layout.of(self.memory.read(at, layout.size), 0)
            if fields["curg"]:
                on[fields["curg"]] = fields["tid"]
            at = fields["alllink"]
        return on

    def greens(self):
        """All that live, by number."""
        on, size, found = self.threads(), self.layout.size, []
        for first in range(0, self.made, self.AT_ONCE):
            n = min(self.AT_ONCE, self.made - first)
            data = self.memory.read(self.arena + first * size, n * size)
            for i in range(n):
                green = Green(self, first + i, self.layout.of(data, i * size))
                if green.status not in ("free", "dead") and green.id:
                    green.lwp = on.get(self.arena + (first + i) * size)
                    found.append(green)
        return sorted(found, key=lambda green: green.id)

    def green_of(self, text):
        try:
            number = int(text, 0)
        except ValueError:
            raise Refused("%s is not the number of a green thread" % text)
        for green in self.greens():
            if green.id == number:
                return green
        raise Refused("there is no green thread %d" % number)


class thread_of:
    """Within it, that green thread is a thread for lldb: what `with` gives."""

    SETTING = "target.process.python-os-plugin-path"

    def __init__(self, green):
        self.green = green
        self.process = green.world.memory.process
        self.selected = self.process.GetSelectedThread().GetThreadID()
        self.debugger = self.process.GetTarget().GetDebugger()

    def tell(self, command):
        result = lldb.SBCommandReturnObject()
        self.debugger.GetCommandInterpreter().HandleCommand(command, result)
        if not result.Succeeded():
            raise Refused("lldb does not take the plug-in: %s" % result.GetError())

    def __enter__(self):
        if self.green.lwp:
            tid = self.green.lwp
        else:
            shown.append(self.green)
            self.tell('settings set %s "%s"' % (self.SETTING, os.path.abspath(__file__)))
            tid = FIRST_TID + self.green.id
        thread = self.process.GetThreadByID(tid)
        if not thread.IsValid():
            raise Refused("lldb does not know thread LWP %d" % tid)
        return thread

    def __exit__(self, *error):
        if shown:
            shown.clear()
            self.tell("settings clear " + self.SETTING)
        self.process.SetSelectedThreadByID(self.selected)


def word(memory, at):
    return struct.unpack("<Q", memory.read_code(at, 8))[0]


def behind_stub(memory, target):
    """Of a stub of the procedure linkage table: [endbr64] [bnd] jmp *slot(%rip)."""
    code = memory.read_code(target, 16)
    i = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
    i += code[i] == 0xf2
    if code[i:i + 2] != b"\xff\x25":
        return target
    return word(memory, target + i + 6 + struct.unpack_from("<i", code, i + 2)[0])


def called_before(memory, pc):
    """The function that the call before pc called, as src/machine/calltarget_x86_64.c finds it, or None."""
    try:
        code = memory.read_code(pc - 7, 7)
        by = pc + struct.unpack_from("<i", code, 3)[0]
        if code[5] == 0xff and code[6] & 0xf8 == 0xd0:
            return None
        if code[1:3] == b"\xff\x15":
            target = word(memory, by)
        elif code[2] == 0xe8:
            target = behind_stub(memory, by)
        else:
            return None
    except Refused:
        return None
    address = memory.target.ResolveLoadAddress(target)
    symbol = address.GetSymbol()
    if not symbol.IsValid() or symbol.GetStartAddress().GetLoadAddress(memory.target) != target:
        return None
    return symbol.GetName() if symbol.GetName() != "gmp__mcall" else None


def jumped_from(green):
    """In optimised builds the function that waits ends in a jump and has no frame: its name."""
    if green.lwp or not green.fields["stack"]:
        return ""
    name = called_before(green.world.memory, green.registers()["rip"])
    return "in %s, left by a jump\n" % name if name else ""


def run_with(green, command, number=0):
    """What the command says of the frame of that number."""
    if not green.lwp and not green.fields["stack"]:
        return "has not run yet\n"
    with thread_of(green) as thread:
        frame = thread.GetFrameAtIndex(number)
        if not frame.IsValid():
            raise Refused("green thread %d has no frame %d" % (green.id, number))
        result = lldb.SBCommandReturnObject()
        commands = green.world.memory.target.GetDebugger().GetCommandInterpreter()
        commands.HandleCommand(command, lldb.SBExecutionContext(frame), result)
        return (result.GetOutput() or "") + (result.GetError() or "")


def info(world, arguments):
    here = world.memory.process.GetSelectedThread().GetThreadID()
    rows = [(" ", "Id", "State", "Thread", "Name", "Entry")]
    for green in world.greens():
        rows.append(("*" if green.lwp == here else " ", str(green.id), green.what(),
                     "LWP %d" % green.lwp if green.lwp else "-", '"%s"' % green.name(),
                     green.entry()))
    if len(rows) == 1:
        return "No green threads.\n"
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return "".join(" ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() + "\n"
                   for row in rows)


def bt(world, arguments):
    which, _, options = arguments.partition(" ")
    if not which:
        raise Refused("gmp bt: the number of a green thread, or all")
    text = ""
    for green in world.greens() if which == "all" else [world.green_of(which)]:
        said = run_with(green, ("bt " + options).strip())
        # lldb's title of a thread: it has ours
        lines = [line for line in said.splitlines(True) if not line.lstrip("* ").startswith("thread #")]
        text += green.title() + "\n" + jumped_from(green) + "".join(lines) + "\n"
    return text


def with_green(world, arguments):
    which, _, command = arguments.partition(" ")
    which, _, number = which.partition("/")
    if not command or not (number or "0").isdigit():
        raise Refused("gmp with: the number of a green thread, and a command")
    return run_with(world.green_of(which), command.strip(), int(number or "0"))


COMMANDS = {"info": info, "bt": bt, "with": with_green}


def gmp(debugger, command, context, result, _):
    """gmp info | gmp bt ID|all [FRAMES] | gmp with ID[/FRAME] COMMAND: the green threads, their calls,
and any command on the stack of one."""
    what, _, arguments = command.strip().partition(" ")
    try:
        if what not in COMMANDS:
            raise Refused("info, bt ID, bt all, or with ID[/FRAME] COMMAND")
        result.AppendMessage(COMMANDS[what](World(context.GetProcess()), arguments.strip()).rstrip())
    except Refused as why:
        result.SetError("gmp: %s" % why)


def __lldb_init_module(debugger, _):
    result = lldb.SBCommandReturnObject()  # for its error, where there is the command already
    debugger.GetCommandInterpreter().HandleCommand(
        "command script add -f %s.gmp gmp" % __name__, result)
