package dynamotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit/npm"
)

// Server is one dynalite process. Its address stays the same when it is killed and started again.
type Server struct {
	Endpoint string
	Pid      int

	dir  string // folder of the tables; empty: tables are in memory
	port string
	kill func()
}

// program runs dynalite on the given port, or on a free one if none is given. It ends when its standard input ends,
// and so with the process that started it.
const program = `
const [where, port, path] = process.argv.slice(1)
process.stdin.on('end', () => process.exit(0)).resume()
const server = require(where)({ path: path || undefined, createTableMs: 0, deleteTableMs: 0 })
server.on('error', (err) => { console.error(err); process.exit(1) })
server.listen(Number(port), '127.0.0.1', () => console.log('port', server.address().port))
`

func (s *Server) start(ctx context.Context) error {
	dir, err := npm.Ensure("dynalite", Version)
	if err != nil {
		return err
	}
	where := filepath.Join(dir, "node_modules", "dynalite")
	cmd := exec.Command("node", "-e", program, where, s.port, s.dir)
	var words bytes.Buffer
	cmd.Stderr = &words
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.kill = func() {
		_ = cmd.Process.Kill()
		_ = errors.Join(input.Close(), cmd.Wait())
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	if _, err := fmt.Fscanf(said, "port %s\n", &s.port); err != nil {
		s.kill()
		return fmt.Errorf("start dynalite: %w\n%s", err, strings.TrimSpace(words.String()))
	}
	s.Endpoint, s.Pid = "http://127.0.0.1:"+s.port, cmd.Process.Pid
	return nil
}

// Kill kills the server's process without warning.
func (s *Server) Kill() { s.kill() }

// Restart starts the server again after Kill, with the tables on its disk.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.start(ctx); err != nil {
		t.Fatalf("dynamotest: %v", err)
	}
}
