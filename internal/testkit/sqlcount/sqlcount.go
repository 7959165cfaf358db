// Package sqlcount counts the SQL statements that a program sends to PostgreSQL: [New] listens in front of a
// database, and [Proxy.Take] returns the statements since the last call.
package sqlcount

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards connections to a database and records the text of each executed statement.
type Proxy struct {
	URL string // URL of the database through the proxy

	mu   sync.Mutex
	seen []string
}

// New starts a proxy in front of the database with the given URL. The proxy stops listening when the test ends.
func New(t testing.TB, database string) *Proxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, to := new(Proxy), u.Host
	u.Host = l.Addr().String()
	p.URL = u.String()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
			go func() { p.pass(client, server); _ = server.Close() }()
		}
	}()
	return p
}

// Take returns the statements that were executed since the last call.
func (p *Proxy) Take() (statements []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	statements, p.seen = p.seen, nil
	return statements
}

func (p *Proxy) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, strings.Join(strings.Fields(text), " "))
}

// pass copies the client's messages to the server and records the statements in them. The first message of the
// protocol has no type byte.
func (p *Proxy) pass(client, server net.Conn) {
	in, prepared, portals := bufio.NewReader(client), map[string]string{}, map[string]string{}
	for first := true; ; first = false {
		var kind byte
		if !first {
			var err error
			if kind, err = in.ReadByte(); err != nil {
				return
			}
		}
		size := make([]byte, 4)
		if _, err := io.ReadFull(in, size); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size)-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		words := bytes.SplitN(body, []byte{0}, 3)
		switch kind {
		case 'P': // parse: name, text
			prepared[string(words[0])] = string(words[1])
		case 'B': // bind: portal, name
			portals[string(words[0])] = prepared[string(words[1])]
		case 'E': // execute: portal
			p.add(portals[string(words[0])])
		case 'Q': // text
			p.add(string(words[0]))
		}
		message := append(size, body...)
		if !first {
			message = append([]byte{kind}, message...)
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}
