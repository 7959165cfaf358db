// Command embed is a program of another module that embeds Berth: it adds a template with a hook, runs a turn of
// the demo agent, reads the file that it wrote, and terminates the sandbox.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/api"
)

func main() {
	c := berth.Config{DataDir: os.Args[1]}
	if len(os.Args) > 2 {
		c.GuestPath = os.Args[2]
	}
	if err := run(context.Background(), c); err != nil {
		fmt.Println("error:", err)
		if e := new(berth.Error); errors.As(err, &e) {
			fmt.Println("hint:", e.Hint)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, c berth.Config) (err error) {
	c.Templates = []berth.Template{{Name: "notes", Extends: "demo", Hooks: []berth.Hook{berth.OnColdStart(prepare)}}}
	b, err := berth.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	account := berth.Account{ID: "user-1"}
	s, err := b.Sandbox(ctx, berth.NewID(), account, berth.WithTemplate("notes"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Delete(ctx, false)) }()
	return use(ctx, s)
}

// prepare writes a file into each new instance.
func prepare(ctx context.Context, d *berth.HookData) error {
	exit, err := d.Exec(ctx, berth.Shell("echo prepared > README.md"))
	if err == nil && exit.ExitCode != 0 {
		err = fmt.Errorf("the shell exited with %d", exit.ExitCode)
	}
	return errors.Join(err, d.SetMetadata("prepared", d.Sandbox.Template))
}

func use(ctx context.Context, s *berth.Sandbox) error {
	for event, err := range s.ExecuteAgentStream(ctx, berth.Prompt{Text: "write notes.txt: hello"}) {
		if err != nil {
			return err
		}
		if event.Type == api.EventTurnFinished {
			fmt.Println("turn:", event.Status)
		}
	}
	for _, name := range []string{"README.md", "notes.txt"} {
		content, err := s.FileContent(ctx, berth.WorkingDir, name)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s", name, content)
	}
	if err := s.Terminate(ctx, true); err != nil {
		return err
	}
	info, err := s.Info(ctx)
	fmt.Println("sandbox:", info.State, info.Metadata["prepared"])
	return err
}
