package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
)

// server is a whole Berth in this process, asked over TCP as by anybody else.
type server struct {
	system *app.System
	stop   context.CancelFunc
	ended  chan error
	caller
}

// openServer serves on a free port of the loopback with everything in dir. The helper is taken from the
// program, or from this one.
func openServer(ctx context.Context, dir, program string) (*server, error) {
	env := map[string]string{
		"BERTH_DATA_DIR": dir, "BERTH_LISTEN": "127.0.0.1:0", "BERTH_API_KEY": key, "BERTH_DEFAULT_DRIVER": "local",
	}
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	if err != nil {
		return nil, err
	}
	system, err := app.New(ctx, app.Options{Config: cfg, Exe: program, Out: io.Discard, Log: io.Discard})
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{system: system, stop: stop, ended: make(chan error, 1), caller: newCaller("http://"+system.Server.Addr(), callers)}
	go func() { s.ended <- system.Serve(serving) }()
	return s, nil
}

// create makes a running sandbox.
func (s *server) create(ctx context.Context) (id string, err error) {
	var made struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	if err := s.call(ctx, "POST", "", map[string]any{"driver": "local"}, &made); err != nil {
		return "", err
	}
	if made.State != "running" {
		return "", fmt.Errorf("a new sandbox is %s", made.State)
	}
	return made.ID, nil
}

// exec runs the command in the sandbox.
func (s *server) exec(ctx context.Context, id string) error {
	var exit struct {
		Code *int `json:"exit_code"`
	}
	if err := s.call(ctx, "POST", "/"+id+"/exec", map[string]any{"command": []string{command}}, &exit); err != nil {
		return err
	}
	if exit.Code == nil {
		return errors.New("exec answered without an exit code")
	}
	return wentWell("a sandbox", *exit.Code, nil)
}

// freezeThaw holds the sandbox and lets it go on.
func (s *server) freezeThaw(ctx context.Context, id string) error {
	if err := s.call(ctx, "POST", "/"+id+"/freeze", nil, nil); err != nil {
		return err
	}
	return s.call(ctx, "POST", "/"+id+"/thaw", nil, nil)
}

func (s *server) end(ctx context.Context, id string) error {
	return s.call(ctx, "DELETE", "/"+id, nil, nil)
}

// close removes every sandbox, then ends the server, which alone would leave them running.
func (s *server) close(ctx context.Context) error {
	ended := endAll(ctx, s.system.Engine.Drivers["local"])
	s.stop()
	return errors.Join(ended, <-s.ended, s.system.Close())
}
