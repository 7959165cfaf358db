package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
)

// server is a complete Berth server in this process. Requests to it go over TCP.
type server struct {
	system *app.Server
	stop   context.CancelFunc
	ended  chan error
	caller
}

// watchedTemplate is the name of a template whose disk limit is watched and not enforced by a file system.
const (
	watchedTemplate = "watched"
	watched         = "[templates." + watchedTemplate + "]\nextends = \"default\"\ndisk = \"soft\"\n"
)

// openServer starts a server on a free loopback port with the data directory dir. The helper comes from the given
// program, or from this one if it is empty.
func openServer(ctx context.Context, dir, program string) (*server, error) {
	env := map[string]string{
		"BERTH_DATA_DIR": dir, "BERTH_LISTEN": "127.0.0.1:0", "BERTH_API_KEY": key, "BERTH_DEFAULT_DRIVER": "local",
	}
	file := dir + ".toml"
	if err := os.WriteFile(file, []byte(watched), 0o600); err != nil {
		return nil, err
	}
	cfg, err := config.Load(config.Sources{File: file, Env: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	if err != nil {
		return nil, err
	}
	system, err := app.NewServer(ctx, app.Options{Config: cfg, Exe: program, Out: io.Discard, Log: io.Discard})
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{system: system, stop: stop, ended: make(chan error, 1), caller: newCaller("http://"+system.Addr(), callers)}
	go func() { s.ended <- system.Serve(serving) }()
	return s, nil
}

// create makes a running sandbox.
func (s *server) create(ctx context.Context) (id string, err error) {
	return s.createOf(ctx, "default")
}

// createOf makes a running sandbox of a template.
func (s *server) createOf(ctx context.Context, template string) (id string, err error) {
	var made struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	if err := s.call(ctx, "POST", "", map[string]any{"driver": "local", "template": template}, &made); err != nil {
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

// freezeThaw freezes the sandbox and thaws it.
func (s *server) freezeThaw(ctx context.Context, id string) error {
	if err := s.call(ctx, "POST", "/"+id+"/freeze", nil, nil); err != nil {
		return err
	}
	return s.call(ctx, "POST", "/"+id+"/thaw", nil, nil)
}

func (s *server) end(ctx context.Context, id string) error {
	return s.call(ctx, "DELETE", "/"+id, nil, nil)
}

// close destroys all sandboxes and then ends the server. Without the first step the sandboxes would keep running.
func (s *server) close(ctx context.Context) error {
	ended := endAll(ctx, s.system.Engine().Driver("local"))
	s.stop()
	return errors.Join(ended, <-s.ended, s.system.Close())
}
