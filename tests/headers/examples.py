#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile and run every example of the headers and of the pages of docs/api.

    examples.py [--seconds N] [--at-least N] [--include HEADER] [--link LIBRARY]...
        CC CXX INCLUDE_DIR LIBRARY FILE...

--include and --link name a header and libraries that examples use beside gmp.h and LIBRARY.

An example of a header is the indented text after a line "Example:" of a comment. An example of a
page is a block of ```c or ```cpp. Forms of examples: docs/api/README.md. If CXX is empty, examples
in C++ are skipped. Exits with 1 if an example does not compile, does not exit with 0, or exceeds
the time limit.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

FLAGS = ["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-D_GNU_SOURCE", "-pthread"]
PRELUDE = """#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <gmp.h>
"""
MAIN = "int main(void) { return gmp_run(app, NULL, NULL) != 0; }\n"


def of_header(text):
    """(line number, language, source) of each example in the comments."""
    start, lines = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        inside = line.startswith(" *   ") or line.rstrip() == " *"
        if start and inside:
            lines.append(line[5:])
            continue
        if start:
            yield start, "c", "\n".join(lines)
            start = 0
        if re.match(r" \* Example\b.*:$", line):
            start, lines = number, []


def of_page(text):
    start, language, lines = 0, "", []
    for number, line in enumerate(text.splitlines(), 1):
        if not start and re.fullmatch(r"```(c|cpp)", line):
            start, language, lines = number, line[3:], []
        elif start and line == "```":
            yield start, language, "\n".join(lines)
            start = 0
        elif start:
            lines.append(line)
    if start:
        yield start, language, "#error block without an end"


def program(args, source, file, number):
    line = f'#line {number + 1} "{file}"\n'
    whole = source.lstrip().startswith("#")
    main = "" if re.search(r"\bmain\(", source) else MAIN
    more = "".join(f"#include <{header}>\n" for header in args.include)
    return ("" if whole else PRELUDE + more) + line + source + "\n" + main


def check(args, example):
    file, number, language, source = example
    name = f"{file}:{number}"
    compiler = args.cxx if language == "cpp" else args.cc
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "example." + ("cc" if language == "cpp" else "c"))
        binary = os.path.join(folder, "example")
        with open(path, "w", encoding="utf-8") as out:
            out.write(program(args, source, file, number))
        standard = "-std=c++17" if language == "cpp" else "-std=gnu11"
        build = subprocess.run(
            [compiler, standard, *FLAGS, "-I" + args.folder, "-o", binary, path, *args.link,
             args.library,
             "-Wl,-rpath," + os.path.dirname(os.path.abspath(args.library))],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if build.returncode:
            return f"{name}: does not compile\n{build.stdout}"
        try:
            run = subprocess.run([binary], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, check=False,
                                 timeout=args.seconds)
        except subprocess.TimeoutExpired:
            return f"{name}: not over after {args.seconds} s"
        if run.returncode:
            return f"{name}: exit status {run.returncode}\n{run.stdout}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--at-least", type=int, default=1)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--link", action="append", default=[])
    for word in ("cc", "cxx", "folder", "library"):
        parser.add_argument(word)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()

    examples = []
    for file in args.files:
        with open(file, encoding="utf-8") as text:
            found = of_page(text.read()) if file.endswith(".md") else of_header(text.read())
            examples += [(file, *example) for example in found]
    if not args.cxx:
        examples = [e for e in examples if e[2] != "cpp"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        faults = [fault for fault in pool.map(lambda e: check(args, e), examples) if fault]
    for fault in faults:
        print(fault)
    print(f"{len(examples)} examples, {len(faults)} wrong")
    if len(examples) < args.at_least:
        print(f"expected at least {args.at_least}")
        return 1
    return 1 if faults else 0


sys.exit(main())
