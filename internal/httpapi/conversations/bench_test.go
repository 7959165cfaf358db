package conversations

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/readahead"
)

// BenchmarkStream is a turn's events on their way from the log to a client's socket: one at each wake, as an
// agent writes them, and as many as there are at once, as a reader that catches up gets them.
func BenchmarkStream(b *testing.B) {
	raw, _ := json.Marshal(map[string]string{"type": "stream_event", "line": strings.Repeat("a word ", 40)})
	data, err := json.Marshal(api.TurnEvent{Type: api.EventText, Text: "a few words, as models write them", Raw: raw})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("one", func(b *testing.B) {
		seen := make(chan struct{})
		in := benchReader(b, func(yield func(chat.Event, error) bool) {
			for seq := int64(1); yield(chat.Event{Seq: seq, Data: data}, nil); seq++ {
				if _, more := <-seen; !more {
					return
				}
			}
		})
		benchRead(b, in)
		for b.Loop() {
			seen <- struct{}{}
			benchRead(b, in)
		}
		close(seen)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("many", func(b *testing.B) {
		in := benchReader(b, func(yield func(chat.Event, error) bool) {
			for seq := int64(1); yield(chat.Event{Seq: seq, Data: data}, nil); seq++ {
			}
		})
		for b.Loop() {
			benchRead(b, in)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

// benchReader opens a stream of the sequence.
func benchReader(b *testing.B, seq iter.Seq2[chat.Event, error]) *bufio.Reader {
	b.Helper()
	server := httptest.NewServer(middleware.Begin(nil, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		benchServe(w, r, seq)
	})))
	b.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	return bufio.NewReader(conn)
}

func benchServe(w http.ResponseWriter, r *http.Request, seq iter.Seq2[chat.Event, error]) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := stream.NewWriter(w)
	defer out.Done()
	stream.Relay(ctx, context.Background(), out, readahead.Read(ctx, seq, eventSize), func(p readahead.Piece[chat.Event]) (last bool, err error) {
		return addTurnEvent(ctx, out, "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10", p, false)
	})
}

func eventSize(e chat.Event) int { return len(e.Data) }

var benchData = []byte("data: ")

// benchRead reads the stream to the end of the next event.
func benchRead(b *testing.B, in *bufio.Reader) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if bytes.HasPrefix(line, benchData) {
			return
		}
	}
}
