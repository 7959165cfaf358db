package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// roleStreams is the first argument that makes this program, or its test program, run as the bare server of streams
// for comparisons.
const roleStreams = "bench-streams"

func init() {
	if len(os.Args) > 1 && os.Args[1] == roleStreams {
		os.Exit(holdStreams(os.Stdout))
	}
}

// holdStreams serves event streams on which nothing is ever sent.
func holdStreams(out io.Writer) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Fprintln(out, "http://"+l.Addr().String())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": here\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	return 0
}
