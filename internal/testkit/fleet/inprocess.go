package fleet

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
)

// system is a server in this process. Requests reach it without a socket. It runs the same code as a separate process
// and is several times as fast, but it cannot be killed.
type system struct {
	*app.Server
	end func()
}

func startSystem(env []string, log io.Writer) (*system, error) {
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) {
		for _, setting := range env {
			if value, ok := strings.CutPrefix(setting, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := app.NewServer(ctx, app.Options{Config: cfg, Out: io.Discard, Log: log})
	if err != nil {
		cancel()
		return nil, err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Serve(ctx)
		_ = s.Close()
	})
	return &system{s, func() { cancel(); wg.Wait() }}, nil
}

// RoundTrip implements http.RoundTripper.
func (s *system) RoundTrip(req *http.Request) (*http.Response, error) {
	req.RemoteAddr, req.RequestURI = "127.0.0.1:1", req.URL.RequestURI()
	if req.Body == nil {
		req.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req)
	return w.Result(), nil
}
