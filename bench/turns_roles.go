package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This program is also what it measures with: an agent, and a server to compare with. Under go test it is
// the test's.
const (
	roleTeller  = "bench-teller"
	roleStreams = "bench-streams"
)

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case roleTeller:
		runtime.GOMAXPROCS(1) // what it speaks with is not what is measured
		keepSession(os.Args)
		os.Exit(tell(os.Stdin, os.Stdout))
	case roleStreams:
		os.Exit(holdStreams(os.Stdout))
	}
}

// story is what the agent is prompted with.
type story struct {
	Every time.Duration `json:"every"` // between lines
	Until int64         `json:"until"` // in ns since 1970
	Lines int           `json:"lines"` // and no more than these; zero: any number
}

func (s story) String() string {
	text, _ := json.Marshal(s)
	return string(text)
}

// tell is an agent that speaks as Claude Code does. Each line says when it was written.
func tell(in io.Reader, out io.Writer) int {
	var s story
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, `{"type":"system","subtype":"init","session_id":"bench","model":"bench"}`)
	_ = w.Flush()
	next := time.Now()
	for n := 0; (s.Lines == 0 || n < s.Lines) && time.Now().UnixNano() < s.Until; n++ {
		if s.Every > 0 {
			next = next.Add(s.Every)
			time.Sleep(time.Until(next))
		}
		fmt.Fprintf(w, `{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"%d and a few words"}}}`+"\n", time.Now().UnixNano())
		if s.Every > 0 && w.Flush() != nil {
			return 1
		}
	}
	fmt.Fprintln(w, `{"type":"result","subtype":"success","is_error":false,"result":"over","modelUsage":{"bench":{"inputTokens":1,"outputTokens":1}}}`)
	if w.Flush() != nil {
		return 1
	}
	return 0
}

// keepSession leaves what tells that there is a session to resume, as Claude Code does.
func keepSession(args []string) {
	dir := os.Getenv("CLAUDE_CONFIG_DIR") + "/projects/-workspace"
	if i := slices.Index(args, "--session-id"); i > 0 && i+1 < len(args) && os.MkdirAll(dir, 0o755) == nil {
		_ = os.WriteFile(dir+"/"+args[i+1]+".jsonl", []byte("{}\n"), 0o600)
	}
}

// told finds in a line when it was written.
func told(line []byte) (time.Time, bool) {
	_, rest, ok := strings.Cut(string(line), `"text":"`)
	if !ok {
		return time.Time{}, false
	}
	stamp, _, _ := strings.Cut(rest, " ")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	return time.Unix(0, ns), err == nil
}

// holdStreams is a server of streams that say nothing, and does nothing else.
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
