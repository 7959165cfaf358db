package s3test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Server is one versitygw process.
type Server struct {
	Endpoint string
	Pid      int

	dir   string
	close func() error
}

// Close ends the server and removes its files.
func (s *Server) Close() error { return s.close() }

// guardScript starts the server and reads a pipe from this process. When this process ends, also by kill -9, the
// kernel closes the pipe; the script then kills the server and removes its files.
const guardScript = `
dir=$1
keep=$2
shift 2
"$@" >"$dir/log" 2>&1 </dev/null &
echo $!
exec >/dev/null
cat >/dev/null
kill -9 $!
wait
rm -rf "$dir/data" "$dir/log"
[ -n "$keep" ] || rm -rf "$dir"
`

func start(ctx context.Context, o Options) (*Server, error) {
	versitygw, err := program()
	if err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "berth-s3-"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		return nil, err
	}
	// Another process may take the port between its selection and the server's bind.
	for range 5 {
		var s *Server
		if s, err = launch(ctx, versitygw, dir, o); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func launch(ctx context.Context, versitygw, dir string, o Options) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"-c", guardScript, "guard", dir, o.Dir, versitygw,
		"--port", address, "--access", AccessKey, "--secret", SecretKey, "--region", Region,
		"--keep-alive", "--quiet", "--health", "/health"}
	args = append(append(args, o.Args...), "posix", filepath.Join(dir, "data"))
	cmd := exec.Command("/bin/sh", args...)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "http://" + address, dir: dir}
	s.close = sync.OnceValue(func() error { return errors.Join(pipe.Close(), cmd.Wait()) })
	if _, err := fmt.Fscan(said, &s.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("start versitygw: %w", err), s.close())
	}
	if err := s.await(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, log), s.close(), os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	}
	return s, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// await polls until the server reports that it is healthy.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		err := s.healthy(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for versitygw: %w", err)
		case <-poll.C:
		}
	}
}

func (s *Server) healthy(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", nil)
	if err != nil {
		return err
	}
	answer, err := health.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New("it answers " + answer.Status)
	}
	return nil
}
