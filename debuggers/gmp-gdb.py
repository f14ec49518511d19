# SPDX-License-Identifier: MIT
"""gdb commands that show the green threads of a program.

    (gdb) source PREFIX/share/gmprt/gmp-gdb.py
    (gdb) info gmp              all green threads: number, state, wait, name, entry
    (gdb) gmp bt ID             the backtrace of a green thread, in any state
    (gdb) gmp bt all            the backtraces of all green threads
    (gdb) gmp with ID COMMAND   COMMAND (frame function f, info locals ...) on its stack
    (gdb) gmp core FILE         gcore, with the stacks of the green threads

Works on a process and on a core file. The commands neither write to the process nor call functions
in it. A parked green thread is shown by an unwinder, which pretends that the newest frame of the
selected thread was called by the code at which the green thread parked. That frame, #0, is not
shown.
"""

import os
import re
import struct

import gdb
import gdb.unwinder

class X86_64:
    """The frame that mcall leaves at the saved stack pointer: struct context_frame of
    src/machine/frame_x86_64.h. PC, SP: registers of gdb. FRAME: the offset of each register."""

    PC, SP, FRAME_SIZE = "rip", "rsp", 64
    FRAME = {"r15": 8, "r14": 16, "r13": 24, "r12": 32, "rbx": 40, "rbp": 48, "rip": 56}

    @staticmethod
    def behind_stub(target):
        """The target of a stub of the procedure linkage table: [endbr64] [bnd] jmp *slot(%rip)."""
        code = memory(target, 16)
        i = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
        i += code[i] == 0xf2
        if code[i:i + 2] != b"\xff\x25":
            return target
        return word(target + i + 6 + struct.unpack_from("<i", code, i + 2)[0])

    @classmethod
    def call_target(cls, pc):
        """The same algorithm as src/machine/calltarget_x86_64.c."""
        code = memory(pc - 7, 7)
        by = pc + struct.unpack_from("<i", code, 3)[0]
        if code[5] == 0xff and code[6] & 0xf8 == 0xd0:
            return None
        if code[1:3] == b"\xff\x15":
            return word(by)
        return cls.behind_stub(by) if code[2] == 0xe8 else None


class Aarch64:
    """The same for src/machine/frame_aarch64.h. The lower halves of v8 to v15 are saved."""

    PC, SP, FRAME_SIZE = "pc", "sp", 176
    FRAME = {"x%d" % (19 + i): 64 + 8 * i for i in range(10)}
    FRAME.update({"v%d" % (8 + i): 8 * i for i in range(8)}, x29=160, x30=168, pc=168)

    @staticmethod
    def behind_stub(target):
        """[bti c]  adrp x16, page  ldr x17, [x16, offset]"""
        code = struct.unpack("<3I", memory(target, 12))
        i = int(code[0] == 0xd503245f)
        adrp, ldr = code[i:i + 2]
        if adrp & 0x9f00001f != 0x90000010 or ldr & 0xffc003ff != 0xf9400211:
            return target
        pages = signed((adrp >> 5 & 0x7ffff) << 2 | adrp >> 29 & 3, 21)
        return word(((target + 4 * i) & ~0xfff) + pages * 0x1000 + (ldr >> 10 & 0xfff) * 8)

    @classmethod
    def call_target(cls, pc):
        """The same algorithm as src/machine/calltarget_aarch64.c."""
        insn, = struct.unpack("<I", memory(pc - 4, 4))
        if insn >> 26 != 0x25:  # bl
            return None
        return cls.behind_stub(pc - 4 + 4 * signed(insn, 26))


class Riscv64:
    """The same for src/machine/frame_riscv64.h."""

    PC, SP, FRAME_SIZE = "pc", "sp", 208
    FRAME = {"s%d" % i: 8 + 8 * i for i in range(12)}
    FRAME.update({"fs%d" % i: 104 + 8 * i for i in range(12)}, ra=0, pc=0)

    @staticmethod
    def slot(at, auipc, ld, register):
        """The address from which auipc x, hi; ld register, lo(x) at `at` loads, or None."""
        if auipc & 0x7f != 0x17 or ld & 0x707f != 0x3003 or ld >> 7 & 31 != register or \
                ld >> 15 & 31 != auipc >> 7 & 31:
            return None
        return at + (signed(auipc >> 12, 20) << 12) + signed(ld >> 20, 12)

    @classmethod
    def behind_stub(cls, target):
        """auipc x, hi  ld x, lo(x)  jalr x"""
        auipc, ld, jalr = struct.unpack("<3I", memory(target, 12))
        slot = cls.slot(target, auipc, ld, jalr >> 15 & 31) if jalr & 0x707f == 0x67 else None
        return target if slot is None else word(slot)

    @classmethod
    def call_target(cls, pc):
        """The same algorithm as src/machine/calltarget_riscv64.c."""
        code = memory(pc - 12, 12)
        insn, = struct.unpack_from("<I", code, 8)
        half, = struct.unpack_from("<H", code, 10)
        if insn & 0xfff == 0xef:  # jal ra
            by = (insn >> 31) << 20 | (insn >> 12 & 0xff) << 12 | (insn >> 20 & 1) << 11 | \
                (insn >> 21 & 0x3ff) << 1
            return cls.behind_stub(pc - 4 + signed(by, 21))
        if insn & 0x7fff == 0xe7:  # jalr ra
            size, register, by = 4, insn >> 15 & 31, signed(insn >> 20, 12)
        elif half & 0xf07f == 0x9002 and half >> 7 & 31:  # c.jalr
            size, register, by = 2, half >> 7 & 31, 0
        else:
            return None
        first, second = struct.unpack_from("<2I", code, 4 - size)
        slot = cls.slot(pc - size - 8, first, second, register) if by == 0 else None
        if slot is not None:
            return word(slot)
        if second & 0xfff != register << 7 | 0x17:
            return None
        return cls.behind_stub(pc - size - 4 + (signed(second >> 12, 20) << 12) + by)


MACHINES = {"i386:x86-64": X86_64, "aarch64": Aarch64, "riscv:rv64": Riscv64}


def machine():
    name = gdb.selected_inferior().architecture().name()
    if name not in MACHINES:
        raise gdb.GdbError("gmp: green threads of %s are not known" % name)
    return MACHINES[name]


def memory(at, n):
    return bytes(gdb.selected_inferior().read_memory(at, n))


def word(at):
    return struct.unpack("<Q", memory(at, 8))[0]


def signed(bits, n):
    """The n low bits as a signed number."""
    bits &= (1 << n) - 1
    return bits - (1 << n) if bits >> (n - 1) else bits


def is_struct_with(field):
    return lambda value: value.type.code == gdb.TYPE_CODE_STRUCT and \
        field in [f.name for f in value.type.fields()]


def is_texts_from(first):
    return lambda value: value.type.code == gdb.TYPE_CODE_ARRAY and \
        value.type.target().code == gdb.TYPE_CODE_PTR and value[0].string() == first


def is_wait_kinds(value):
    return value.type.code == gdb.TYPE_CODE_ARRAY and \
        value.type.target().strip_typedefs().code == gdb.TYPE_CODE_STRUCT and \
        value[0]["text"].string() == "nothing"


def variable(name, fits):
    """The variable of the runtime. The program may have others with the same name."""
    symbols = list(gdb.lookup_static_symbols(name)) + [gdb.lookup_global_symbol(name)]
    for symbol in symbols:
        if symbol is not None and symbol.is_variable and fits(symbol.value()):
            return symbol.value()
    raise gdb.GdbError("gmp: no runtime here: no variable %s; the program must use gmp, and "
                       "libgmprt must have debugging information (-g)" % name)


def g_table():
    return variable("gs", is_struct_with("arena"))


class Green:
    """A green thread that is alive."""

    def __init__(self, gp):
        self.gp = gp
        self.id = int(gp["id"])
        self.state = str(gp["status"].cast(gdb.lookup_type("enum gstatus")))
        self.lwp = None  # id of the OS thread that runs it
        self.preempted = False

    def name(self):
        if not int(self.gp["named"]):
            return ""
        gs = g_table()
        index = int(self.gp - gs["arena"])
        most = int(gdb.lookup_static_symbol("G_NAME_MAX").value())
        return (gs["names"] + index * most).string(errors="replace")

    def entry(self):
        return self.symbol(int(self.gp["fn"]))

    @staticmethod
    def symbol(pc):
        block = gdb.execute("info symbol %#x" % pc, to_string=True)
        return block.split()[0] if " in section " in block else "%#x" % pc

    def what(self):
        """The state and the reason of the wait."""
        text = variable("snapshot_states", is_texts_from("free"))[int(self.gp["status"])].string()
        if self.state == "G_WAITING":
            kinds = variable("wait_kinds", is_wait_kinds)
            return "%s (%s)" % (text, kinds[int(self.gp["reason"])]["text"].string())
        if self.state == "G_RUNNABLE" and not int(self.gp["stack"]):
            return text + " (new)"
        return text + " without a P" if self.preempted else text

    def title(self):
        on = ", on thread LWP %d" % self.lwp if self.lwp else ""
        return 'green thread %d "%s" (entry %s): %s%s' % (
            self.id, self.name(), self.entry(), self.what(), on)


def ms():
    m = variable("sched", is_struct_with("allm"))["allm"]
    while int(m):
        yield m
        m = m["alllink"]


def greens():
    """All green threads that are alive, by number."""
    gs = g_table()
    found = []
    on = {int(m["curg"]): m for m in ms() if int(m["curg"])}
    taken = int(gdb.lookup_static_symbol("P_TAKEN").value())
    for i in range(int(gs["made"])):
        gp = gs["arena"] + i
        green = Green(gp)
        if green.state in ("G_FREE", "G_DEAD") or not green.id:
            continue
        m = on.get(int(gp))
        if m:
            green.lwp = int(m["tid"])
            green.preempted = int(m["taken"]) == taken
        found.append(green)
    return sorted(found, key=lambda g: g.id)


def green_of(text):
    try:
        number = int(text, 0)
    except ValueError:
        raise gdb.GdbError("gmp: %s is not the number of a green thread; info gmp lists them"
                           % text)
    for green in greens():
        if green.id == number:
            return green
    raise gdb.GdbError("gmp: there is no green thread %d; info gmp lists them" % number)


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Parked(gdb.unwinder.Unwinder):
    """While `at` is set, the context at `at` is the caller of the frame with stack pointer
    `newest`."""

    def __init__(self):
        super().__init__("gmp")
        self.at = None
        self.newest = None
        self.of = None  # the machine

    def __call__(self, pending):
        if self.at is None or int(pending.read_register(self.of.SP)) != self.newest:
            return None
        u64 = gdb.lookup_type("unsigned long")
        # gdb expects the newest frame below all others of its stack
        frame = FrameId(gdb.Value(self.at).cast(u64), pending.read_register(self.of.PC))
        info = pending.create_unwind_info(frame)
        for register, offset in self.of.FRAME.items():
            raw = memory(self.at + offset, 8)
            kind = u64
            if register.startswith("v"):
                kind = pending.read_register(register).type
                raw += bytes(kind.sizeof - len(raw))
            info.add_saved_register(register, gdb.Value(raw, kind))
        info.add_saved_register(self.of.SP, gdb.Value(self.at + self.of.FRAME_SIZE).cast(u64))
        return info


unwinder = Parked()


def called_before(pc):
    """The name of the function that the call before pc called, or None."""
    try:
        target = machine().call_target(pc)
    except gdb.MemoryError:
        return None
    if target is None:
        return None
    text = gdb.execute("info symbol %#x" % target, to_string=True)
    found = re.match(r"(\w+) in section ", text)
    return found[1] if found and found[1] != "gmp__mcall" else None


class on_stack_of:
    """Context manager: gdb commands refer to that green thread. Its value is the number of frames
    before those of the green thread; None if it has no stack yet."""

    def __init__(self, green):
        self.green = green
        self.thread = gdb.selected_thread()
        self.frame = gdb.selected_frame()
        self.level = self.frame.level()

    def __enter__(self):
        if self.green.lwp:
            for thread in gdb.selected_inferior().threads():
                if self.green.lwp in thread.ptid[1:]:
                    thread.switch()
                    return 0
            raise gdb.GdbError("gmp: gdb does not know thread LWP %d; is the process running?"
                               % self.green.lwp)
        if not int(self.green.gp["stack"]):
            return None
        unwinder.of = machine()
        unwinder.newest = int(gdb.newest_frame().read_register(unwinder.of.SP))
        unwinder.at = int(self.green.gp["ctx"]["sp"])
        gdb.invalidate_cached_frames()
        hidden = 1
        frame = gdb.newest_frame()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
            hidden += 1
        frame.older().select()
        return hidden

    def __exit__(self, *error):
        if unwinder.at is not None:
            unwinder.at = None
            gdb.invalidate_cached_frames()
        self.thread.switch()
        gdb.execute("frame %d" % self.level, to_string=True)


def renumbered(text, hidden):
    """The output of bt without the first `hidden` frames."""
    out = []
    number = 0
    for line in text.splitlines():
        frame = re.match(r"#(\d+) +(.*)", line)
        if frame:
            number = int(frame[1])
            line = "#%-3d%s" % (number - hidden, frame[2])
        if number >= hidden:  # also the lines of bt full about a frame
            out.append(line)
    return "\n".join(out) + "\n"


def jumped_from(green):
    """A line with the name of the function that waits, if it has no frame: in optimized builds it
    ends in a jump."""
    if green.lwp or not int(green.gp["stack"]):
        return ""
    name = called_before(word(int(green.gp["ctx"]["sp"]) + machine().FRAME[machine().PC]))
    return "in %s, left by a jump\n" % name if name else ""


def run_with(green, command):
    with on_stack_of(green) as hidden:
        if hidden is None:
            return "has not run yet\n"
        if not re.match(r"(bt|backtrace|where)\b", command):
            return gdb.execute(command, to_string=True)
        command = re.sub(r" (\d+)$", lambda n: " %d" % (int(n[1]) + hidden), command)
        return renumbered(gdb.execute(command, to_string=True), hidden)


class InfoGmp(gdb.Command):
    """List the green threads that are alive: number, state and reason of the wait, OS thread, name,
entry function. A star marks the green thread of the selected OS thread."""

    def __init__(self):
        super().__init__("info gmp", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        here = gdb.selected_thread()
        rows = []
        for green in greens():
            mine = green.lwp is not None and here and green.lwp in here.ptid[1:]
            rows.append((
                "*" if mine else " ", str(green.id), green.what(),
                "LWP %d" % green.lwp if green.lwp else "-",
                '"%s"' % green.name(), green.entry()))
        if not rows:
            gdb.write("No green threads.\n")
            return
        rows.insert(0, (" ", "Id", "State", "Thread", "Name", "Entry"))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        for row in rows:
            gdb.write(" ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() + "\n")


class Gmp(gdb.Command):
    """Commands about green threads; `info gmp` lists them."""

    def __init__(self):
        super().__init__("gmp", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class GmpBt(gdb.Command):
    """gmp bt ID [OPTIONS] | gmp bt all [OPTIONS]: backtrace of a green thread, or of all.
The options are those of bt: full, a number of frames."""

    def __init__(self):
        super().__init__("gmp bt", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        which, _, options = arg.strip().partition(" ")
        if not which:
            raise gdb.GdbError("gmp bt: takes the number of a green thread, or all")
        for green in greens() if which == "all" else [green_of(which)]:
            gdb.write(green.title() + "\n" + jumped_from(green))
            gdb.write(run_with(green, ("bt " + options).strip()) + "\n")


class GmpWith(gdb.Command):
    """gmp with ID COMMAND: a gdb command on the stack of a green thread.
In a parked green thread the frame numbers are higher than in gmp bt: frame 0 belongs to the
selected thread."""

    def __init__(self):
        super().__init__("gmp with", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        which, _, command = arg.strip().partition(" ")
        if not command:
            raise gdb.GdbError("gmp with: takes the number of a green thread, and a command")
        gdb.write(run_with(green_of(which), command.strip()))


class GmpCore(gdb.Command):
    """gmp core FILE: write a core file of the process, which continues, as gcore does.
gcore skips the rest of a mapping after a page that it cannot read, and the guards of stacks are
such pages. This command adds the skipped pages."""

    PAGE = 4096
    CHUNK = 4096  # entries of pagemap read at once
    PRESENT = 1 << 63 | 1 << 62  # in memory, or swapped out

    def __init__(self):
        super().__init__("gmp core", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, arg, from_tty):
        if not arg:
            raise gdb.GdbError("gmp core: takes the name of a file")
        gdb.execute("gcore " + arg)
        with open(os.path.expanduser(arg), "r+b") as core:
            for kind, flags, offset, address, size in self.segments(core):
                if kind == 1 and flags & 2 and size:
                    self.fill(core, offset, address, size)

    @staticmethod
    def segments(core):
        header = core.read(64)
        at, = struct.unpack_from("<Q", header, 32)
        each, n = struct.unpack_from("<HH", header, 54)
        core.seek(at)
        table = core.read(each * n)
        for i in range(n):
            kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", table, i * each)
            yield kind, flags, offset, address, size

    def fill(self, core, offset, address, size):
        of = "/proc/%d/" % gdb.selected_inferior().pid
        with open(of + "pagemap", "rb", 0) as pagemap, open(of + "mem", "rb", 0) as memory:
            for first in range(0, size // self.PAGE, self.CHUNK):
                pagemap.seek((address // self.PAGE + first) * 8)
                raw = pagemap.read(8 * min(self.CHUNK, size // self.PAGE - first))
                if not raw.strip(b"\0"):
                    continue
                for i, (entry,) in enumerate(struct.iter_unpack("<Q", raw)):
                    if entry & self.PRESENT:
                        self.copy(core, memory, offset, address, (first + i) * self.PAGE)

    def copy(self, core, memory, offset, address, at):
        try:
            memory.seek(address + at)
            page = memory.read(self.PAGE)
        except OSError:
            return  # a guard
        core.seek(offset + at)
        core.write(page)


gdb.unwinder.register_unwinder(None, unwinder, replace=True)
InfoGmp()
Gmp()
GmpBt()
GmpWith()
GmpCore()
