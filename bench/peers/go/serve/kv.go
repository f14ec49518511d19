// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"errors"
	"hash/maphash"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// A shard of the table of examples/kvserver, which has a lock for each shard too.
type shard struct {
	sync.RWMutex
	values map[string][]byte
}

type table struct {
	seed   maphash.Seed
	shards [64]shard
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].values = map[string][]byte{}
	}
	return t
}

func (t *table) shardOf(key []byte) *shard {
	return &t.shards[maphash.Bytes(t.seed, key)%uint64(len(t.shards))]
}

var errProtocol = errors.New("protocol error")

// number reads a line of the prefix and a number.
func number(r *bufio.Reader, prefix byte) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != prefix || line[len(line)-2] != '\r' {
		return 0, errProtocol
	}
	n := 0
	for _, c := range line[1 : len(line)-2] {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0, errProtocol
		}
		n = 10*n + int(c-'0')
	}
	return n, nil
}

// request reads a request into args, whose memory it uses again.
func request(r *bufio.Reader, args [][]byte) ([][]byte, error) {
	n, err := number(r, '*')
	if err != nil {
		return nil, err
	}
	if n < 1 || n > 16 {
		return nil, errProtocol
	}
	for len(args) < n {
		args = append(args, nil)
	}
	args = args[:n]
	for i := range args {
		size, err := number(r, '$')
		if err != nil {
			return nil, err
		}
		if cap(args[i]) < size {
			args[i] = make([]byte, size)
		}
		args[i] = args[i][:size]
		if _, err = io.ReadFull(r, args[i]); err != nil {
			return nil, err
		}
		if _, err = r.Discard(2); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// compute does the rounds of COMPUTE in examples/kvcommand.c.
func compute(rounds int64) int64 {
	x := uint64(88172645463325252)
	for ; rounds > 0; rounds-- {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return int64(x >> 33)
}

func (t *table) answer(out []byte, args [][]byte) []byte {
	name := strings.ToLower(string(args[0]))
	switch {
	case name == "get" && len(args) == 2:
		s := t.shardOf(args[1])
		s.RLock()
		value, ok := s.values[string(args[1])]
		s.RUnlock()
		if !ok {
			return append(out, "$-1\r\n"...)
		}
		out = append(out, '$')
		out = strconv.AppendInt(out, int64(len(value)), 10)
		out = append(out, "\r\n"...)
		out = append(out, value...)
		return append(out, "\r\n"...)
	case name == "set" && len(args) == 3:
		value := append([]byte(nil), args[2]...)
		s := t.shardOf(args[1])
		s.Lock()
		s.values[string(args[1])] = value
		s.Unlock()
		return append(out, "+OK\r\n"...)
	case name == "compute" && len(args) == 2:
		rounds, err := strconv.ParseInt(string(args[1]), 10, 64)
		if err != nil {
			return append(out, "-ERR value is not an integer or out of range\r\n"...)
		}
		out = append(out, ':')
		out = strconv.AppendInt(out, compute(rounds), 10)
		return append(out, "\r\n"...)
	}
	return append(out, "-ERR unknown command\r\n"...)
}

// serve answers all received requests with one write, like examples/kvserver.
func (t *table) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 4096)
	var args [][]byte
	var out []byte
	for {
		var err error
		if args, err = request(r, args); err != nil {
			return
		}
		out = t.answer(out, args)
		if r.Buffered() > 0 {
			continue
		}
		if _, err = c.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

func kv() {
	t := newTable()
	l := listen()
	for {
		c, err := l.Accept()
		if err != nil {
			die(err)
		}
		go t.serve(c)
	}
}
