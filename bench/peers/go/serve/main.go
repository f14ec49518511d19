// SPDX-License-Identifier: MIT

// Serves the requests of bench/net with Go's servers.
//
//	goserve echo          as bench/net/echo_gmp.c
//	goserve http FOLDER   as examples/httpd: each answer is read from its file
//	goserve files FOLDER  net/http's FileServer
//	goserve kv            the commands GET, SET and COMPUTE of examples/kvserver
//
// The server takes any free port of 127.0.0.1 and prints it.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"runtime/trace"
	"strconv"
)

func die(err error) {
	fmt.Fprintln(os.Stderr, "goserve:", err)
	os.Exit(1)
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		die(err)
	}
	fmt.Println("listening on", l.Addr())
	return l
}

func serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err = c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func echo() {
	l := listen()
	for {
		c, err := l.Accept()
		if err != nil {
			die(err)
		}
		go serve(c)
	}
}

// file answers like examples/httpd, with the same headers; net/http adds Date.
func file(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open("." + path.Clean("/"+r.URL.Path))
	if err != nil {
		http.Error(w, "404 Not Found", http.StatusNotFound)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		http.Error(w, "404 Not Found", http.StatusNotFound)
		return
	}
	text := make([]byte, st.Size())
	if _, err = io.ReadFull(f, text); err != nil {
		http.Error(w, "500 Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Write(text)
}

// traceTo traces the whole run into a file, for bench/observe.
func traceTo(path string) {
	f, err := os.Create(path)
	if err == nil {
		err = trace.Start(f)
	}
	if err != nil {
		die(err)
	}
}

func main() {
	if path := os.Getenv("GOSERVE_TRACE"); path != "" {
		traceTo(path)
	}
	switch {
	case len(os.Args) == 2 && os.Args[1] == "echo":
		echo()
	case len(os.Args) == 2 && os.Args[1] == "kv":
		kv()
	case len(os.Args) == 3 && os.Args[1] == "http":
		if err := os.Chdir(os.Args[2]); err != nil {
			die(err)
		}
		die(http.Serve(listen(), http.HandlerFunc(file)))
	case len(os.Args) == 3 && os.Args[1] == "files":
		die(http.Serve(listen(), http.FileServer(http.Dir(os.Args[2]))))
	default:
		fmt.Fprintln(os.Stderr, "usage: goserve echo | http FOLDER | files FOLDER | kv")
		os.Exit(2)
	}
}
