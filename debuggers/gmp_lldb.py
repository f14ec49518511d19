# SPDX-License-Identifier: MIT
"""lldb commands that show the green threads of a program.

    (lldb) command script import PREFIX/share/gmprt/gmp_lldb.py
    (lldb) gmp info             all green threads: number, state, wait, name, entry
    (lldb) gmp bt ID            the backtrace of a green thread, in any state
    (lldb) gmp bt all           the backtraces of all green threads
    (lldb) gmp with ID COMMAND  COMMAND (thread backtrace -e true ...) on its stack
    (lldb) gmp with ID/N COMMAND
                                COMMAND (frame variable ...) in its frame N

Works on a process and on a core file. The commands neither write to the process nor call functions
in it. During a command, an operating-system plug-in (also in this file) presents the parked green
threads of the command to lldb as threads, with the registers that are saved on their stacks.
"""

import os
import struct

import lldb

class X86_64:
    """The frame that mcall leaves at the saved stack pointer: struct context_frame of
    src/machine/frame_x86_64.h. FRAME: its registers, from FRAME_FIRST on. REGISTERS: all registers
    of a thread, in the order of their DWARF numbers."""

    FRAME_SIZE, FRAME_FIRST = 64, 8
    FRAME = ("r15", "r14", "r13", "r12", "rbx", "rbp", "rip")
    REGISTERS = ("rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip").split()
    GENERIC = {"rip": "pc", "rsp": "sp", "rbp": "fp"}
    PC, SP = "rip", "rsp"

    @staticmethod
    def behind_stub(memory, target):
        """The target of a stub of the procedure linkage table: [endbr64] [bnd] jmp *slot(%rip)."""
        code = memory.read_code(target, 16)
        i = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
        i += code[i] == 0xf2
        if code[i:i + 2] != b"\xff\x25":
            return target
        return word(memory, target + i + 6 + struct.unpack_from("<i", code, i + 2)[0])

    @classmethod
    def call_target(cls, memory, pc):
        """The same algorithm as src/machine/calltarget_x86_64.c."""
        code = memory.read_code(pc - 7, 7)
        by = pc + struct.unpack_from("<i", code, 3)[0]
        if code[5] == 0xff and code[6] & 0xf8 == 0xd0:
            return None
        if code[1:3] == b"\xff\x15":
            return word(memory, by)
        return cls.behind_stub(memory, by) if code[2] == 0xe8 else None


class Aarch64:
    """The same for src/machine/frame_aarch64.h. v8 to v15, whose lower halves are saved, are not
    shown."""

    FRAME_SIZE, FRAME_FIRST = 176, 64
    FRAME = ["x%d" % i for i in range(19, 29)] + ["fpcr", "", "fp", "pc"]
    REGISTERS = ["x%d" % i for i in range(29)] + ["fp", "lr", "sp", "pc"]
    GENERIC = {"pc": "pc", "sp": "sp", "fp": "fp", "lr": "ra"}
    PC, SP = "pc", "sp"

    @staticmethod
    def behind_stub(memory, target):
        """[bti c]  adrp x16, page  ldr x17, [x16, offset]"""
        code = struct.unpack("<3I", memory.read_code(target, 12))
        i = int(code[0] == 0xd503245f)
        adrp, ldr = code[i:i + 2]
        if adrp & 0x9f00001f != 0x90000010 or ldr & 0xffc003ff != 0xf9400211:
            return target
        page = ((target + 4 * i) & ~0xfff) + \
            signed((adrp >> 5 & 0x7ffff) << 2 | adrp >> 29 & 3, 21) * 0x1000
        return word(memory, page + (ldr >> 10 & 0xfff) * 8)

    @classmethod
    def call_target(cls, memory, pc):
        """The same algorithm as src/machine/calltarget_aarch64.c."""
        insn, = struct.unpack("<I", memory.read_code(pc - 4, 4))
        if insn >> 26 != 0x25:  # bl
            return None
        return cls.behind_stub(memory, pc - 4 + 4 * signed(insn, 26))


MACHINES = {"x86_64": X86_64, "aarch64": Aarch64}


def machine(target):
    name = target.GetTriple().split("-")[0]
    if name not in MACHINES:
        raise Refused("green threads of %s are not known" % name)
    return MACHINES[name]


def signed(bits, n):
    """The n low bits as a signed number."""
    bits &= (1 << n) - 1
    return bits - (1 << n) if bits >> (n - 1) else bits


FIRST_TID = 1 << 40  # of the threads that represent green threads: above the ids of all OS threads

P_TAKEN = 2  # enum taken of src/handoff_state.h

# The green threads that the plug-in presents as threads. lldb loads this file again for it.
shown = globals().get("shown", [])


class Refused(Exception):
    """A command failed; the text says why."""


class OperatingSystemPlugIn:
    """lldb makes it because of the setting target.process.python-os-plugin-path."""

    def __init__(self, process):
        self.process = process

    def create_thread(self, tid, context):
        return None

    def get_thread_info(self):
        return [{"tid": FIRST_TID + green.id, "name": green.name(), "state": "stopped",
                 "stop_reason": "none"} for green in shown]

    def get_register_info(self):
        of = machine(self.process.GetTarget())
        return {"sets": ["general"], "registers": [
            dict({"name": name, "bitsize": 64, "offset": 8 * i, "encoding": "uint",
                  "format": "hex", "set": 0, "gcc": i, "dwarf": i},
                 **({"generic": of.GENERIC[name]} if name in of.GENERIC else {}))
            for i, name in enumerate(of.REGISTERS)]}

    def get_register_data(self, tid):
        for green in shown:
            if green.id == tid - FIRST_TID:
                values = green.registers()
                names = machine(self.process.GetTarget()).REGISTERS
                return struct.pack("<%dQ" % len(names),
                                   *(values.get(name, 0) for name in names))
        return None


class Memory:
    """Reads memory and variables of the process, which has stopped."""

    LONGEST = 64  # bytes of a text

    def __init__(self, process):
        if not process or not process.IsValid() or process.GetState() != lldb.eStateStopped:
            raise Refused("there is no process that has stopped, and no core file; interrupt the "
                          "process first")
        self.process = process
        self.target = process.GetTarget()

    def variable(self, name, fits):
        """The variable of the runtime. The program may have others with the same name."""
        found = self.target.FindGlobalVariables(name, 100)
        for i in range(found.GetSize()):
            if fits(found.GetValueAtIndex(i)):
                return found.GetValueAtIndex(i)
        raise Refused("no runtime here: no variable %s; the program must use gmp, and libgmprt "
                      "must have debugging information (-g)" % name)

    def struct(self, name, field):
        return self.variable(name, lambda v: v.GetChildMemberWithName(field).IsValid())

    def texts(self, name, first, member=None):
        """The strings of an array, or of this member of its structs."""
        def text(array, i):
            at = array.GetChildAtIndex(i)
            at = at.GetChildMemberWithName(member) if member else at
            return self.text(at.GetValueAsUnsigned())

        texts = self.variable(name, lambda v: v.GetNumChildren() > 0 and text(v, 0) == first)
        return [text(texts, i) for i in range(texts.GetNumChildren())]

    def read(self, at, size):
        error = lldb.SBError()
        data = self.process.ReadMemory(at, size, error)
        if error.Fail():
            raise Refused("memory at %#x cannot be read: %s" % (at, error.GetCString()))
        return data

    def read_code(self, at, size):
        """Read code or constants; a core file lacks them, so they come from the program file."""
        error = lldb.SBError()
        data = self.process.ReadMemory(at, size, error)
        if error.Fail() or not data.strip(b"\0"):  # lldb reads zeros where the core has no data
            where = self.target.ResolveLoadAddress(at)
            data = self.target.ReadMemory(where, size, error) if where.section else None
        if not data or len(data) < size:
            raise Refused("code at %#x cannot be read" % at)
        return data

    def text(self, at):
        """Read a string; a core file lacks constants, so they come from the program file."""
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
    """Offsets of the fields of a structure. A path (ctx.sp) names a field of a nested structure."""

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
        raise Refused("no field %s: this script belongs to another version of libgmprt" % path[0])

    def of(self, data, base):
        return {path: struct.unpack_from("<" + form, data, base + at)[0]
                for path, (at, form) in self.fields.items()}


class Green:
    """A green thread that is alive."""

    def __init__(self, world, index, fields):
        self.world = world
        self.index = index
        self.fields = fields
        self.id = fields["id"]
        self.status = world.statuses[fields["status"]]
        self.lwp = None  # id of the OS thread that runs it
        self.preempted = False

    def name(self):
        world = self.world
        if not self.fields["named"]:
            return ""
        return world.memory.text(world.names + self.index * world.name_most)

    def entry(self):
        return self.world.memory.symbol(self.fields["fn"])

    def what(self):
        """The state and the reason of the wait."""
        if self.status == "waiting":
            return "%s (%s)" % (self.status, self.world.reasons[self.fields["reason"]])
        if self.status == "runnable" and not self.fields["stack"]:
            return self.status + " (new)"
        return self.status + " without a P" if self.preempted else self.status

    def title(self):
        on = ", on thread LWP %d" % self.lwp if self.lwp else ""
        return 'green thread %d "%s" (entry %s): %s%s' % (
            self.id, self.name(), self.entry(), self.what(), on)

    def registers(self):
        """The saved registers of a parked green thread."""
        at = self.fields["ctx.sp"]
        of = machine(self.world.memory.target)
        frame = self.world.memory.read(at + of.FRAME_FIRST, 8 * len(of.FRAME))
        values = dict(zip(of.FRAME, struct.unpack("<%dQ" % len(of.FRAME), frame)))
        values[of.SP] = at + of.FRAME_SIZE
        return values


class World:
    """The runtime of a process."""

    AT_ONCE = 4096  # g structs that are read at once

    def __init__(self, process):
        self.memory = Memory(process)
        gs = self.memory.struct("gs", "arena")
        arena = gs.GetChildMemberWithName("arena")
        self.arena = arena.GetValueAsUnsigned()
        self.made = gs.GetChildMemberWithName("made").GetValueAsUnsigned()
        names = gs.GetChildMemberWithName("names")
        self.names = names.GetValueAsUnsigned()
        self.statuses = self.memory.texts("snapshot_states", "free")
        self.reasons = self.memory.texts("wait_kinds", "nothing", "text")
        self.name_most = 64  # G_NAME_MAX
        self.layout = Layout(arena.GetType().GetPointeeType(), "ctx.sp", "stack", "status",
                             "reason", "named", "fn", "id")

    def threads(self):
        """By the address of the g struct: the id of the OS thread, and whether its P was taken,
        for each M that runs a green thread."""
        m = self.memory.struct("sched", "allm").GetChildMemberWithName("allm")
        layout = Layout(m.GetType().GetPointeeType(), "curg", "tid", "taken", "alllink")
        at, on = m.GetValueAsUnsigned(), {}
        while at:
            fields = layout.of(self.memory.read(at, layout.size), 0)
            if fields["curg"]:
                on[fields["curg"]] = fields["tid"], fields["taken"] == P_TAKEN
            at = fields["alllink"]
        return on

    def greens(self):
        """All green threads that are alive, by number."""
        on, size, found = self.threads(), self.layout.size, []
        for first in range(0, self.made, self.AT_ONCE):
            n = min(self.AT_ONCE, self.made - first)
            data = self.memory.read(self.arena + first * size, n * size)
            for i in range(n):
                green = Green(self, first + i, self.layout.of(data, i * size))
                if green.status not in ("free", "dead") and green.id:
                    green.lwp, green.preempted = on.get(self.arena + (first + i) * size,
                                                        (None, False))
                    found.append(green)
        return sorted(found, key=lambda green: green.id)

    def green_of(self, text):
        try:
            number = int(text, 0)
        except ValueError:
            raise Refused("%s is not the number of a green thread; gmp info lists them" % text)
        for green in self.greens():
            if green.id == number:
                return green
        raise Refused("there is no green thread %d; gmp info lists them" % number)


class thread_of:
    """Context manager: presents that green thread to lldb as a thread, which is its value."""

    SETTING = "target.process.python-os-plugin-path"

    def __init__(self, green):
        self.green = green
        self.process = green.world.memory.process
        self.selected = self.process.GetSelectedThread().GetThreadID()
        self.debugger = self.process.GetTarget().GetDebugger()

    def run(self, command):
        result = lldb.SBCommandReturnObject()
        self.debugger.GetCommandInterpreter().HandleCommand(command, result)
        if not result.Succeeded():
            raise Refused("lldb does not take the plug-in: %s" % result.GetError())

    def __enter__(self):
        if self.green.lwp:
            tid = self.green.lwp
        else:
            shown.append(self.green)
            self.run('settings set %s "%s"' % (self.SETTING, os.path.abspath(__file__)))
            tid = FIRST_TID + self.green.id
        thread = self.process.GetThreadByID(tid)
        if not thread.IsValid():
            raise Refused("lldb does not know thread LWP %d" % tid)
        return thread

    def __exit__(self, *error):
        if shown:
            shown.clear()
            self.run("settings clear " + self.SETTING)
        self.process.SetSelectedThreadByID(self.selected)


def word(memory, at):
    return struct.unpack("<Q", memory.read_code(at, 8))[0]


def called_before(memory, pc):
    """The name of the function that the call before pc called, or None."""
    try:
        target = machine(memory.target).call_target(memory, pc)
    except Refused:
        return None
    if target is None:
        return None
    address = memory.target.ResolveLoadAddress(target)
    symbol = address.GetSymbol()
    if not symbol.IsValid() or symbol.GetStartAddress().GetLoadAddress(memory.target) != target:
        return None
    return symbol.GetName() if symbol.GetName() != "gmp__mcall" else None


def jumped_from(green):
    """A line with the name of the function that waits, if it has no frame: in optimized builds it
    ends in a jump."""
    if green.lwp or not green.fields["stack"]:
        return ""
    memory = green.world.memory
    name = called_before(memory, green.registers()[machine(memory.target).PC])
    return "in %s, left by a jump\n" % name if name else ""


def run_with(green, command, number=0):
    """The output of the command in frame `number`."""
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
        raise Refused("gmp bt: takes the number of a green thread, or all")
    text = ""
    for green in world.greens() if which == "all" else [world.green_of(which)]:
        said = run_with(green, ("bt " + options).strip())
        # without lldb's title of the thread
        lines = [line for line in said.splitlines(True)
                 if not line.lstrip("* ").startswith("thread #")]
        text += green.title() + "\n" + jumped_from(green) + "".join(lines) + "\n"
    return text


def with_green(world, arguments):
    which, _, command = arguments.partition(" ")
    which, _, number = which.partition("/")
    if not command or not (number or "0").isdigit():
        raise Refused("gmp with: takes the number of a green thread, and a command")
    return run_with(world.green_of(which), command.strip(), int(number or "0"))


COMMANDS = {"info": info, "bt": bt, "with": with_green}


def gmp(debugger, command, context, result, _):
    """gmp info | gmp bt ID|all [FRAMES] | gmp with ID[/FRAME] COMMAND: lists the green threads,
shows their backtraces, or runs a command on the stack of a green thread."""
    what, _, arguments = command.strip().partition(" ")
    try:
        if what not in COMMANDS:
            raise Refused("info, bt ID, bt all, or with ID[/FRAME] COMMAND")
        text = COMMANDS[what](World(context.GetProcess()), arguments.strip())
        result.AppendMessage(text.rstrip())
    except Refused as why:
        result.SetError("gmp: %s" % why)


def __lldb_init_module(debugger, _):
    result = lldb.SBCommandReturnObject()  # takes the error if the command exists already
    debugger.GetCommandInterpreter().HandleCommand(
        "command script add -f %s.gmp gmp" % __name__, result)
