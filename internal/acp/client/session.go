package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// workspace is the working directory of all sessions.
const workspace = "/workspace"

// open initialises the agent and makes or loads the session. It leaves the agent ready for the prompt.
func (c *client) open(theirs string) error {
	if err := c.initialize(); err != nil {
		return err
	}
	fresh := theirs == ""
	if !fresh {
		err := c.load(theirs)
		var refused *rpcError
		if errors.As(err, &refused) && refused.Code != codeAuthentication {
			fmt.Fprintln(os.Stderr, err)
			if c.turn.Resume {
				return errNoSession
			}
			fresh, err = true, nil
		}
		if err != nil {
			return err
		}
	}
	if fresh {
		if err := c.create(); err != nil {
			return err
		}
	} else {
		c.turn.Fresh = ""
	}
	return c.set()
}

// initialize offers neither files nor terminals: an agent would then wait for a client that may be a server that is
// away.
func (c *client) initialize() error {
	result, err := c.call("initialize", map[string]any{
		"protocolVersion": 1,
		"clientInfo":      map[string]any{"name": "berth", "version": "1"},
		"clientCapabilities": map[string]any{
			"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false,
			"session": map[string]any{"notices": map[string]any{}, "compaction": map[string]any{}},
		},
	})
	if err != nil {
		return err
	}
	var r struct {
		Capabilities struct {
			Session struct {
				Resume json.RawMessage `json:"resume"`
			} `json:"sessionCapabilities"`
			Prompt struct {
				Image bool `json:"image"`
			} `json:"promptCapabilities"`
		} `json:"agentCapabilities"`
	}
	_ = json.Unmarshal(result, &r)
	c.seesImages = r.Capabilities.Prompt.Image
	c.resumes = len(r.Capabilities.Session.Resume) > 0 && string(r.Capabilities.Session.Resume) != "null"
	return nil
}

func (c *client) servers() []Server {
	if c.turn.Servers == nil {
		return []Server{}
	}
	return c.turn.Servers
}

// load continues a session. An agent that cannot resume one without repeating it loads it, and the repetition is
// dropped.
func (c *client) load(theirs string) error {
	c.theirs = theirs
	params := map[string]any{"sessionId": theirs, "cwd": workspace, "mcpServers": c.servers()}
	if c.resumes {
		result, err := c.call("session/resume", params)
		c.readModel(result)
		return err
	}
	result, err := c.call("session/load", params)
	c.readModel(result)
	if err == nil && c.turn.QuietMS > 0 {
		err = c.drain(time.Duration(c.turn.QuietMS) * time.Millisecond)
	}
	return err
}

func (c *client) create() error {
	result, err := c.call("session/new", map[string]any{"cwd": workspace, "mcpServers": c.servers()})
	if err != nil {
		return err
	}
	var r struct {
		ID string `json:"sessionId"`
	}
	_ = json.Unmarshal(result, &r)
	if r.ID == "" || len(r.ID) > maxKey {
		return errors.New("the agent made a session without an id")
	}
	c.theirs = r.ID
	c.readModel(result)
	return c.remember()
}

// readModel reads the model from an answer about a session.
func (c *client) readModel(result json.RawMessage) {
	var r struct {
		Models struct {
			Current string `json:"currentModelId"`
		} `json:"models"`
		Options []struct {
			ID      string `json:"id"`
			Current any    `json:"currentValue"`
		} `json:"configOptions"`
	}
	_ = json.Unmarshal(result, &r)
	if r.Models.Current != "" {
		c.model = r.Models.Current
	}
	for _, o := range r.Options {
		if value, ok := o.Current.(string); ok && o.ID == "model" && value != "" {
			c.model = value
		}
	}
}

// set makes the requests that precede the prompt.
func (c *client) set() error {
	for _, call := range c.turn.Calls {
		params := map[string]any{"sessionId": c.theirs}
		for name, value := range call.Params {
			params[name] = value
		}
		result, err := c.call(call.Method, params)
		var refused *rpcError
		switch {
		case errors.As(err, &refused) && !call.Must:
			c.out.print(Line{Type: LineNotice, Text: clip(err.Error(), maxNote)})
		case err != nil:
			return err
		}
		c.readModel(result)
	}
	return nil
}

// prompt sends the prompt and waits for the answer.
func (c *client) prompt() error {
	text := c.turn.Prompt
	if c.turn.Fresh != "" {
		text = c.turn.Fresh
	}
	c.out.print(Line{Type: LineBegin, Session: clip(c.theirs, maxKey), Model: clip(c.model, maxKey)})
	c.out.print(Line{Type: LinePrompt})
	c.out.flush()
	c.prompted = true
	id := c.request("session/prompt", map[string]any{
		"sessionId": c.theirs, "prompt": append([]any{map[string]any{"type": "text", "text": text}}, c.images()...),
	})
	result, err := c.await("session/prompt", id, nil)
	if err == nil {
		c.settle()
		c.shaper.end()
		c.out.print(Line{Type: LineAnswer, Answer: bounded(result)})
	}
	return err
}

// maxImage is the size in bytes of the largest image that goes with a prompt.
const maxImage = 5 << 20

// images returns the blocks of the images. One that cannot be read is left out: the text names its path.
func (c *client) images() (blocks []any) {
	if !c.seesImages {
		return nil
	}
	for _, i := range c.turn.Images {
		f, err := os.OpenFile(i.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) // it may be a pipe by now
		if err != nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
		_ = f.Close()
		if err == nil && len(data) > 0 && len(data) <= maxImage {
			blocks = append(blocks, map[string]any{"type": "image", "mimeType": i.MediaType, "data": base64.StdEncoding.EncodeToString(data)})
		}
	}
	return blocks
}

// settleTime is the time in which updates still count: an agent may report its tokens behind the answer, and what it
// reported before the end may still be on its way.
const settleTime = 10 * time.Millisecond

func (c *client) settle() {
	limit := time.After(settleTime)
	for {
		select {
		case line, ok := <-c.agent.lines:
			if !ok {
				return
			}
			var m message
			if json.Unmarshal(line, &m) == nil {
				c.handle(&m)
			}
		case <-limit:
			return
		}
	}
}

// bounded returns an answer, or what matters of an answer that is too long.
func bounded(result json.RawMessage) json.RawMessage {
	if len(result) <= maxAnswer {
		return result
	}
	var r struct {
		Stop  string `json:"stopReason"`
		Usage *struct {
			Input      float64 `json:"inputTokens"`
			Output     float64 `json:"outputTokens"`
			CacheRead  float64 `json:"cachedReadTokens"`
			CacheWrite float64 `json:"cachedWriteTokens"`
			Total      float64 `json:"totalTokens"`
		} `json:"usage,omitempty"`
	}
	_ = json.Unmarshal(result, &r)
	r.Stop = clip(r.Stop, maxKey)
	raw, _ := json.Marshal(r)
	return raw
}

// sessions is the directory of the session map, below the agent's state: a file for each session, with the name of
// Berth's id and the agent's id as content. An agent chooses the ids of its sessions itself.
const sessions = "berth-sessions"

func (c *client) mapFile() string { return filepath.Join(c.turn.StateDir, sessions, c.turn.Session) }

// recall returns the agent's id of the session, or an empty string.
func (c *client) recall() string {
	raw, err := os.ReadFile(c.mapFile())
	if id := strings.TrimSpace(string(raw)); err == nil && len(id) <= maxKey {
		return id
	}
	return ""
}

// remember stores the agent's id of the session.
func (c *client) remember() error {
	file := c.mapFile()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(c.theirs+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// prepare makes the agent's directory and files.
func (c *client) prepare() error {
	if err := os.MkdirAll(c.turn.StateDir, 0o755); err != nil {
		return err
	}
	for name, text := range c.turn.Files {
		path := filepath.Join(c.turn.StateDir, name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Rename renames the file of a session before it is loaded. Dir is a pattern below the agent's state; From and To are
// names in it, in which {id8} stands for the first eight characters of the session's id.
type Rename struct {
	Dir  string `json:"dir"`
	From string `json:"from"`
	To   string `json:"to"`
}

// apply keeps the largest of the session's files under the new name: an agent that damaged a session left small files
// beside it.
func (r *Rename) apply(stateDir, id string) {
	names := strings.NewReplacer("{id8}", id[:min(8, len(id))])
	files, _ := filepath.Glob(filepath.Join(stateDir, r.Dir, names.Replace(r.From)))
	largest, size := "", int64(-1)
	for _, file := range files {
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() > size {
			largest, size = file, info.Size()
		}
	}
	if largest == "" {
		return
	}
	for _, file := range files {
		if file != largest {
			_ = os.Remove(file)
		}
	}
	_ = os.Rename(largest, filepath.Join(filepath.Dir(largest), names.Replace(r.To)))
}
