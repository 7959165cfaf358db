package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Client is a client of the Docker Engine API.
type Client struct{ http *http.Client }

// Connect returns a client of the daemon behind a Unix socket. The client reuses connections.
func Connect(socket string) Client {
	return Client{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// CloseIdleConnections closes the idle connections of the client.
func (c Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Ping returns an error if the daemon does not answer.
func (c Client) Ping(ctx context.Context) error { return c.call(ctx, "GET", "/_ping", nil, nil) }

// Import makes an image from a tar archive.
func (c Client) Import(ctx context.Context, name string, tar io.Reader) error {
	resp, err := c.send(ctx, "POST", "/images/create?fromSrc=-&repo="+url.QueryEscape(name), "application/x-tar", tar)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var line struct{ Error string }
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("import image: %w", err)
		case line.Error != "":
			return fmt.Errorf("import image: %s", line.Error)
		}
	}
}

// Create makes a container for a command, without a network, and returns its id.
func (c Client) Create(ctx context.Context, image string, command ...string) (string, error) {
	var made struct{ ID string }
	err := c.call(ctx, "POST", "/containers/create", map[string]any{
		"Image": image, "Cmd": command, "HostConfig": map[string]any{"NetworkMode": "none"},
	}, &made)
	return made.ID, err
}

// Start starts a container.
func (c Client) Start(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/containers/"+id+"/start", nil, nil)
}

// Pause freezes a container.
func (c Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/containers/"+id+"/pause", nil, nil)
}

// Unpause thaws a container.
func (c Client) Unpause(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/containers/"+id+"/unpause", nil, nil)
}

// Pid returns the process id of a running container's first process.
func (c Client) Pid(ctx context.Context, id string) (int, error) {
	var seen struct{ State struct{ Pid int } }
	err := c.call(ctx, "GET", "/containers/"+id+"/json", nil, &seen)
	return seen.State.Pid, err
}

// Exec runs a command in a running container to its end and returns its exit code. It also reads the command's output,
// as a real client would.
func (c Client) Exec(ctx context.Context, id string, command ...string) (int, error) {
	var made struct{ ID string }
	err := c.call(ctx, "POST", "/containers/"+id+"/exec", map[string]any{
		"Cmd": command, "AttachStdout": true, "AttachStderr": true,
	}, &made)
	if err != nil {
		return 0, err
	}
	if err := c.call(ctx, "POST", "/exec/"+made.ID+"/start", map[string]any{"Detach": false, "Tty": false}, nil); err != nil {
		return 0, err
	}
	for {
		var seen struct {
			Running  bool
			ExitCode *int
		}
		if err := c.call(ctx, "GET", "/exec/"+made.ID+"/json", nil, &seen); err != nil {
			return 0, err
		}
		if !seen.Running && seen.ExitCode != nil {
			return *seen.ExitCode, nil
		}
	}
}

// Remove ends a container and removes it.
func (c Client) Remove(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", "/containers/"+id+"?force=true&v=true", nil, nil)
}

// RemoveAll removes every container.
func (c Client) RemoveAll(ctx context.Context) error {
	var all []struct{ ID string }
	if err := c.call(ctx, "GET", "/containers/json?all=true", nil, &all); err != nil {
		return err
	}
	var failed error
	for _, each := range all {
		failed = errors.Join(failed, c.Remove(ctx, each.ID))
	}
	return failed
}

// call sends in as JSON and reads the whole answer, into out as JSON if out is not nil.
func (c Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	resp, err := c.send(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out != nil {
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			return fmt.Errorf("read docker's answer to %s %s: %w", method, path, err)
		}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (c Client) send(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }()
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil, fmt.Errorf("docker %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(why))
	}
	return resp, nil
}
