#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fake debug server: answers GET /debug/vars as a scenario says.

usage: server.py SCENARIO [PORT]

  run      the k-th sample is vars-1.json plus k times the difference between it and vars-2.json
  chunked  the same in chunks of 1 to 999 bytes, with extensions and a trailer, byte by byte
  until-end the same; the body ends with the connection
  restart  the same, but each sample is of another run
  once     the same; after one answer the server ends
  silent   no answer
  full     no connection: its queue of connections is full
  FILE     a file of this folder (hostile.json)
  and the scenarios in ODD, whose answers are wrong or do not end.

Prints "listening on 127.0.0.1:PORT", then each request line and its Host."""

import json
import os
import signal
import socket
import sys
import threading

FOLDER = os.path.dirname(os.path.abspath(__file__))
KEPT = []
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ODD = {
    "closing": b"",
    "garbage": b"\x00\xffSSH-2.0-OpenSSH\r\n\r\n",
    "head-cut": OK,
    "body-cut": OK + b"Content-Length: 100\r\n\r\n{}",
    "chunk-cut": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
    "bad-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
    "large-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "two-lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "both-forms": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad-length": OK + b"Content-Length: +2\r\n\r\n{}",
    "huge-length": OK + b"Content-Length: 4194305\r\n\r\n{}",
    "no-json": OK + b"Content-Length: 9\r\n\r\n{\"pid\": 1",
    "no-object": OK + b"Content-Length: 2\r\n\r\n[]",
    "latin1": OK + b"Content-Length: 4\r\n\r\n\"\xe9\" ",
    "not-found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nno\x1b[2Jpage\n",
    "long-line": OK + b"X: " + 100000 * b"x",
    "long-head": OK + 10000 * b"X: y\r\n",
    "endless": OK + b"\r\n" + (5 << 20) * b" ",
    "deep": OK + b"\r\n" + 1000000 * b"[",
}


def between(first, second, k):
    """Returns first plus k times the difference of the numbers in two JSON values."""
    if isinstance(first, dict):
        return {name: between(first[name], second[name], k) for name in first}
    if isinstance(first, list):
        return [between(a, b, k) for a, b in zip(first, second)]
    if isinstance(first, int) and not isinstance(first, bool):
        return first + k * (second - first)
    return first


def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return json.load(f)


def in_chunks(body):
    out, size = [], 1
    while body:
        out.append(b"%X ;x=y\r\n%s\r\n" % (len(body[:size]), body[:size]))
        body, size = body[size:], size % 999 + 37
    return b"".join(out) + b"0\r\nTrailer: yes\r\n\r\n"


def answer(scenario, k):
    """Returns the bytes of the k-th answer."""
    if scenario in ODD:
        return ODD[scenario]
    if scenario.endswith(".json"):
        with open(os.path.join(FOLDER, scenario), "rb") as f:
            body = f.read()
    else:
        sample = between(load("vars-1.json"), load("vars-2.json"), k)
        sample["run"] += k if scenario == "restart" else 0
        body = json.dumps(sample).encode()
    if scenario == "chunked":
        return OK + b"transfer-encoding:  chunked\r\n\r\n" + in_chunks(body)
    if scenario == "until-end":
        return OK + b"\r\n" + body
    return OK + b"Content-Length: %d\r\n\r\n" % len(body) + body


def serve(client, scenario, k):
    with client:
        request = b""
        while b"\r\n\r\n" not in request:
            some = client.recv(4096)
            if not some:
                return
            request += some
        head = request.decode("latin-1").split("\r\n")
        print(head[0], [line for line in head if line.startswith("Host:")][0], flush=True)
        try:
            if scenario == "silent":
                client.recv(1)
            elif scenario == "chunked":
                for byte in answer(scenario, k):
                    client.sendall(bytes((byte,)))
            else:
                client.sendall(answer(scenario, k))
            if scenario in ("run", "chunked"):
                client.recv(1)  # the client must know the end of the body by itself
        except OSError:
            pass


def main():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    full = sys.argv[1] == "full"
    listener.listen(0 if full else 100)
    while full:
        client = socket.socket()
        client.settimeout(0.3)
        try:
            client.connect(listener.getsockname())
            KEPT.append(client)
        except OSError:
            break
    print("listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    if full:
        signal.pause()
    k = 0
    while True:
        client = listener.accept()[0]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.argv[1] == "once":
            listener.close()
            serve(client, sys.argv[1], k)
            return
        threading.Thread(target=serve, args=(client, sys.argv[1], k), daemon=True).start()
        k += 1


if __name__ == "__main__":
    main()
