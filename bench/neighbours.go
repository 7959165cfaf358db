package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/local"
)

// neighbours is a server with two sandboxes: "hog" runs attacks on resources, "other" is measured.
type neighbours struct {
	sizes
	dir    string
	server *process
	client *client.Client
	talk   string // id of a conversation; each commit changes its title
	n      int    // number of commits
}

// assaults lists the attacks that the hog runs while the other sandbox is measured. The last argument, a number of
// seconds, is added later.
var assaults = []struct {
	name  string
	words []string
}{
	{"fork bomb", []string{"bomb"}},
	{"fsync storm", []string{"storm", "/workspace"}},
	{"64 busy threads", []string{"spin", "64"}},
	{"output flood", []string{"flood"}},
}

// neighbourFigures prints the effect of a hostile sandbox: the 99th percentile of the time of a command in another
// sandbox, and of a request that commits to the database. Windows with and without the attack alternate.
func neighbourFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	h, err := openNeighbours(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for _, a := range assaults {
		if size.attack != "" && size.attack != a.words[0] {
			continue
		}
		var quiet, loud latencies
		for range size.windows {
			if err := h.round(ctx, a.words, &quiet, &loud); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
		}
		for i, what := range []string{"exec in another sandbox", "API commit"} {
			f := figure{
				name: a.name + ": " + what + ", p99", unit: "s", n: len(loud[i]), goals: []goal{{ratio: 3}},
				ours: quantile(loud[i], .99), peer: quantile(quiet[i], .99),
			}
			f.note = fmt.Sprintf("p50 %s to %s, %d windows", amount(quantile(loud[i], .5), "s"), amount(quantile(quiet[i], .5), "s"), size.windows)
			if err := print(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// latencies holds the times of commands and the times of commits, in seconds.
type latencies [2][]float64

func openNeighbours(ctx context.Context, size sizes) (h *neighbours, err error) {
	if size.attacker == "" {
		return nil, errors.New("there is no program to attack with; name one with -attacker")
	}
	h = &neighbours{sizes: size}
	if h.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.server, err = serve(ctx, size.berth, h.dir, "", "BERTH_DEFAULT_DRIVER=local"); err != nil {
		return h, err
	}
	if h.client, err = client.New(h.server.base, key); err != nil {
		return h, err
	}
	for _, name := range []string{"hog", "other"} {
		if _, _, err := h.client.Sandboxes.Create(ctx, api.CreateSandbox{Name: name}); err != nil {
			return h, err
		}
	}
	program, err := os.Open(size.attacker)
	if err != nil {
		return h, err
	}
	defer program.Close()
	if _, _, err := h.client.Sandboxes.WriteFile(ctx, "hog", "", "attacker", program, client.WriteOptions{Mode: 0o755}); err != nil {
		return h, err
	}
	made, _, err := h.client.Conversations.Create(ctx, api.CreateConversation{})
	h.talk = made.ID
	return h, err
}

// round measures one window without the attack and one with it.
func (h *neighbours) round(ctx context.Context, words []string, quiet, loud *latencies) error {
	if err := h.window(ctx, quiet); err != nil {
		return err
	}
	seconds := int(h.loud.Seconds()) + 3
	command := append(append([]string{"/workspace/attacker"}, words...), fmt.Sprint(seconds))
	id, err := h.begin(ctx, api.Exec{Command: command, TimeoutSeconds: float64(seconds) + 60})
	if err != nil {
		return fmt.Errorf("begin the attack: %w", err)
	}
	if err := errors.Join(pause(ctx, time.Second), h.window(ctx, loud), h.ended(ctx, id)); err != nil {
		return err
	}
	return pause(ctx, time.Second)
}

// begin starts an attack and waits until it prints "here". The attack's later output is not read.
func (h *neighbours) begin(ctx context.Context, attack api.Exec) (id string, err error) {
	stream, err := h.client.Sandboxes.ExecStream(ctx, "hog", attack)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	for {
		ev, err := stream.Next()
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(string(ev.Data()), "here") {
			return stream.ExecID, nil
		}
	}
}

// ended waits for the end of an attack. It returns an error if the exit code is not 0, because the attack was then
// stopped early.
func (h *neighbours) ended(ctx context.Context, id string) error {
	for {
		st, err := h.client.Sandboxes.ExecStatus(ctx, "hog", id)
		if err != nil {
			return err
		}
		if !st.Running {
			if st.Exit == nil || st.Exit.ExitCode != 0 {
				return fmt.Errorf("the attack was stopped: %+v", st.Exit)
			}
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// window measures commands and commits in turn for the duration of one window.
func (h *neighbours) window(ctx context.Context, times *latencies) error {
	measured := [2]func(context.Context) error{h.exec, h.commit}
	for end := time.Now().Add(h.loud); time.Now().Before(end); {
		for i, do := range measured {
			took, err := timed(do)(ctx)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took.Seconds())
		}
	}
	return nil
}

func (h *neighbours) exec(ctx context.Context) error {
	res, err := h.client.Sandboxes.Exec(ctx, "other", api.Exec{Command: []string{command}})
	return wentWell("a sandbox", res.ExitCode, err)
}

func (h *neighbours) commit(ctx context.Context) error {
	h.n++
	title := fmt.Sprint("title ", h.n)
	_, err := h.client.Conversations.Patch(ctx, h.talk, api.PatchConversation{Title: &title})
	return err
}

// close ends the server, destroys its sandboxes and removes their files.
func (h *neighbours) close() error {
	var failed []error
	if h.server != nil {
		failed = append(failed, h.server.end())
	}
	if _, err := os.Stat(filepath.Join(h.dir, "local")); err == nil {
		ctx := context.Background()
		d, err := local.New(ctx, local.Options{Dir: filepath.Join(h.dir, "local"), Tier: local.TierRoot})
		if err == nil {
			err = errors.Join(endAll(ctx, d), d.WaitIdle(ctx), d.Close())
		}
		failed = append(failed, err)
	}
	return errors.Join(append(failed, os.RemoveAll(h.dir))...)
}
