package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// pollEvery is the interval at which the server asks processes for their traffic and log lines. It notices within this
// time that a process has ended.
const pollEvery = time.Second

// source is a process as far as its reports were taken in.
type source struct {
	process string
	seen    int64   // number of the last line
	counted traffic // of all runs
}

// follow polls the processes until ctx ends.
func (c *Client) follow(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		c.pollAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

func (c *Client) pollAll(ctx context.Context) {
	names, err := c.dir.sockets()
	if err == nil && !slices.Contains(names, c.own) && c.attachments() != nil {
		names = append(names, c.own) // its socket was removed
	}
	for _, name := range names {
		err = errors.Join(err, c.poll(ctx, name))
	}
	if err != nil && ctx.Err() == nil {
		c.o.Log.Warn("follow the egress process", "error", err)
	}
}

// poll takes in the report of a process. It starts another process if the server's own one has ended.
func (c *Client) poll(ctx context.Context, name string) error {
	src := c.sources[name]
	if src == nil {
		src = new(source)
		c.sources[name] = src
	}
	r := &request{Op: opPoll, Process: src.process, Seen: src.seen, Level: c.level()}
	answer, err := c.dir.ask(ctx, name, r, nil)
	gone := errors.Is(err, errGone)
	if err != nil && !gone {
		return err
	}
	if gone && (name != c.own || c.attachments() == nil) {
		delete(c.sources, name)
		return c.dir.removeDead(name)
	}
	if !gone {
		c.take(src, &answer)
	}
	if name == c.own {
		c.attachAgain(ctx, answer.Process)
	}
	return nil
}

// lost reports that the process has ended while sandboxes need it.
func (c *Client) lost() {
	c.o.Log.Error("the egress process has ended; starting another. Connections out of sandboxes have broken", "output", c.dir.takeLastWords())
	if c.o.Lost != nil {
		c.o.Lost()
	}
}

// attachments returns the present attachments.
func (c *Client) attachments() []*attachment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.attached))
}

// attachAgain attaches the instances that are not attached to this process, which may be empty if there is none.
func (c *Client) attachAgain(ctx context.Context, process string) {
	missing := slices.DeleteFunc(c.attachments(), func(a *attachment) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.process == "" || a.process == process
	})
	if slices.ContainsFunc(missing, func(a *attachment) bool { return !a.failed }) {
		c.lost()
	}
	var all sync.WaitGroup
	for _, a := range missing {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			defer context.AfterFunc(a.ctx, cancel)()
			err := c.serve(ctx, a)
			if err != nil && ctx.Err() == nil && !a.failed {
				c.o.Log.Error("open the way out of a sandbox again", "sandbox_id", a.spec.Sandbox, "error", err)
			}
			a.failed = err != nil
		})
	}
	all.Wait()
}

// take counts the traffic of a report and logs its lines.
func (c *Client) take(src *source, answer *reply) {
	if src.process != answer.Process {
		*src = source{process: answer.Process}
	}
	r := answer.Report
	if r == nil {
		return
	}
	if d := r.Traffic.minus(src.counted); c.o.Meter != nil {
		c.o.Meter.Count(d.In, d.Out)
	}
	src.counted = r.Traffic
	runs := map[int64]traffic{}
	for _, run := range r.Runs {
		runs[run.Run] = run.traffic
	}
	for _, a := range c.attachments() {
		a.count(answer.Process, runs)
	}
	if r.Dropped > 0 {
		c.o.Log.Warn("log lines about refused connections were not kept", "lines", r.Dropped)
	}
	for _, l := range r.Lines {
		src.seen = l.Number
		c.log(l.Text)
	}
}

// count counts the traffic of the attachment's run.
func (a *attachment) count(process string, runs map[int64]traffic) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, ok := runs[a.run]
	if !ok || a.process != process || a.spec.Meter == nil {
		return
	}
	d := now.minus(a.counted)
	a.spec.Meter.Count(d.In, d.Out)
	a.counted = now
}

// level is the lowest level that the server logs.
func (c *Client) level() slog.Level {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if c.o.Log.Enabled(context.Background(), l) {
			return l
		}
	}
	return slog.LevelError
}

// log logs a line of the process with its own time.
func (c *Client) log(text []byte) {
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return
	}
	var r slog.Record
	r.Message, _ = fields[slog.MessageKey].(string)
	at, _ := fields[slog.TimeKey].(string)
	r.Time, _ = time.Parse(time.RFC3339Nano, at)
	level, _ := fields[slog.LevelKey].(string)
	_ = r.Level.UnmarshalText([]byte(level))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != slog.MessageKey && key != slog.TimeKey && key != slog.LevelKey {
			r.AddAttrs(slog.Any(key, fields[key]))
		}
	}
	if c.o.Log.Enabled(context.Background(), r.Level) {
		_ = c.o.Log.Handler().Handle(context.Background(), r)
	}
}
