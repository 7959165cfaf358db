package client

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// message is a message of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// rpcError is an error that the agent answered.
type rpcError struct {
	Op      string
	Code    int64
	Message string
	body    json.RawMessage
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Op, e.Message, e.Code) }

// raw returns the error as the agent sent it, if it is not too long.
func (e *rpcError) raw() json.RawMessage {
	if len(e.body) <= maxAnswer {
		return e.body
	}
	raw, _ := json.Marshal(map[string]any{"code": e.Code, "message": clip(e.Message, maxNote)})
	return raw
}

// codeAuthentication is the code of an agent that wants an account or a key.
const codeAuthentication = -32000

func newError(op string, body json.RawMessage) *rpcError {
	e := &rpcError{Op: op, body: body}
	var fields struct {
		Code    float64 `json:"code"`
		Message string  `json:"message"`
	}
	_ = json.Unmarshal(body, &fields)
	e.Code, e.Message = int64(fields.Code), fields.Message
	return e
}

// request sends a request.
func (c *client) request(method string, params any) (id string) {
	c.calls++
	id = strconv.Itoa(c.calls)
	c.send(map[string]any{"jsonrpc": "2.0", "id": c.calls, "method": method, "params": params})
	return id
}

func (c *client) send(m map[string]any) {
	if raw, err := json.Marshal(m); err == nil {
		c.agent.send(append(raw, '\n'))
	}
}

// handshakeTime limits each request before the prompt.
const handshakeTime = 5 * time.Minute

// call sends a request and waits for its answer.
func (c *client) call(method string, params any) (json.RawMessage, error) {
	limit := time.NewTimer(handshakeTime)
	defer limit.Stop()
	return c.await(method, c.request(method, params), limit.C)
}

// await handles messages until the answer to a request comes.
func (c *client) await(method, id string, limit <-chan time.Time) (json.RawMessage, error) {
	for {
		c.out.flush()
		select {
		case line, ok := <-c.agent.lines:
			if !ok {
				return nil, errEnded
			}
			var m message
			if json.Unmarshal(line, &m) != nil {
				continue // not a message
			}
			if m.Method != "" || string(m.ID) != id {
				c.handle(&m)
				continue
			}
			if len(m.Error) > 0 && string(m.Error) != "null" {
				return nil, newError(method, m.Error)
			}
			return m.Result, nil
		case <-c.shaper.due():
			c.shaper.flushCalls()
		case sig := <-c.signals:
			if err := c.interrupted(sig); err != nil {
				return nil, err
			}
			limit = time.After(cancelTime)
		case <-limit:
			if c.cancelled {
				return nil, errCancelled
			}
			return nil, fmt.Errorf("the agent did not answer %s within %s", method, handshakeTime)
		}
	}
}

// cancelTime is the time that an agent has to answer a prompt that was cancelled.
const cancelTime = 3 * time.Second

// interrupted handles a signal. An interrupt cancels the turn. It returns an error if the agent cannot answer any more:
// there is no prompt, or it was cancelled before, or the sandbox stops.
func (c *client) interrupted(sig os.Signal) error {
	switch {
	case sig != syscall.SIGINT:
		return errStopped
	case c.cancelled || !c.prompted:
		c.cancelled = true
		return errCancelled
	}
	c.cancelled = true
	c.out.print(Line{Type: LineCancel})
	c.send(map[string]any{"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]any{"sessionId": c.theirs}})
	return nil
}

// handle handles a message that is no answer to a request of the client.
func (c *client) handle(m *message) {
	switch {
	case m.Method == "":
		return
	case len(m.ID) > 0 && string(m.ID) != "null":
		c.respond(m)
	case c.prompted && m.Method == "session/update":
		c.shaper.message(m.Params, c.theirs)
	case c.prompted:
		c.shaper.extension(m.Params)
	}
}

// respond answers a request of the agent.
func (c *client) respond(m *message) {
	if len(m.ID) > maxKey {
		return
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if m.Method == "session/request_permission" {
		reply["result"] = map[string]any{"outcome": c.permit(m.Params)}
	} else {
		reply["error"] = map[string]any{"code": -32601, "message": "Method not found: " + clip(m.Method, maxKey)}
	}
	c.send(reply)
}

// drain handles messages until none has come for the given time.
func (c *client) drain(quiet time.Duration) error {
	limit := time.After(drainTime)
	for last := time.Now(); ; {
		select {
		case line, ok := <-c.agent.lines:
			if !ok {
				return errEnded
			}
			// On a busy machine the messages come with longer pauses.
			quiet = min(max(quiet, 4*time.Since(last)), drainMost)
			last = time.Now()
			var m message
			if json.Unmarshal(line, &m) == nil {
				c.handle(&m)
			}
		case <-time.After(quiet):
			return nil
		case <-limit:
			return nil
		case sig := <-c.signals:
			return c.interrupted(sig)
		}
	}
}

// Limits of drain.
const (
	drainTime = time.Minute
	drainMost = 2 * time.Second
)
