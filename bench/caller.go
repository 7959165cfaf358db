package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const key = "a-key-for-the-benchmarks"

// callers is the number of concurrent callers in measurements of throughput.
const callers = 8

// caller sends requests to a server over TCP.
type caller struct {
	base string
	http *http.Client
}

// newCaller returns a caller that keeps the given number of idle connections.
func newCaller(base string, conns int) caller {
	return caller{base, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}}
}

// call sends in as JSON to a path below /api/v1/sandboxes and reads the answer into out. Both may be nil.
func (c caller) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1/sandboxes"+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s /api/v1/sandboxes%s: %s: %s", method, path, resp.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
