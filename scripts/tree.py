# SPDX-License-Identifier: MIT
"""The files of the project, for the checks in scripts/: tracked by git, or found below its root."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = {".git", ".cache", "build", "__pycache__"}

# The folders of posix/.  A file includes headers of its own room and of earlier ones.
ROOMS = ("call", "sync", "thread", "signal", "io", "program")

# An invariant in the head of a file: " *   CHAN-1  An element ...".
LABEL = re.compile(r"^ ?\*[ \t]+([A-Z][A-Z0-9]*-\d+)(?:  +(?=\S)| (?=[A-Z]))", re.M)

POLICY = "src/base/policy.def"
STRING = r'"(?:[^"\\]|\\.)*"'


def is_checkout():
    """True in a git checkout, also in a worktree whose .git is a file."""
    return os.path.exists(os.path.join(ROOT, ".git"))


def git(*arguments):
    """Returns the lines that git prints; raises CalledProcessError if it fails."""
    return subprocess.run(("git", "-C", ROOT) + arguments, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.splitlines()


def has_commit(revision):
    try:
        git("cat-file", "-e", revision + "^{commit}")
    except subprocess.CalledProcessError:
        return False
    return True


def files():
    """Returns the paths of all text files relative to the root, sorted."""
    if is_checkout():
        listed = set(git("ls-files", "--cached", "--others", "--exclude-standard"))
        return sorted(f for f in listed if os.path.isfile(os.path.join(ROOT, f)))
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in SKIPPED]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(found)


def read(path):
    """Returns the text of a file; bytes that are not UTF-8 are replaced."""
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def policy():
    """Yields (subject, name, value, unit, trade-off, row) for each entry of POLICY, with None in
    place of what has another form."""
    subject = ""
    for part in re.split(r"^(?=POLICY\(|/\*)", read(POLICY), flags=re.M):
        if part.startswith("/*"):
            subject = re.sub(r"\s+", " ", re.match(r"/\*(.*?)\*/", part, re.S)[1]).strip(" .")
        elif part:
            m = re.match(rf"POLICY\((\w+), ([^\"]*),((?:[^\"]*{STRING})+)\)\s*$", part)
            texts = re.findall(rf"(?:{STRING}\s*)+", m[3]) if m else []
            texts = ["".join(s[1:-1] for s in re.findall(STRING, text)) for text in texts]
            yield (subject, *((m[1], m[2], *texts) if len(texts) == 3 else (None,) * 5))
