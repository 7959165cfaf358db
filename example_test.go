package berth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/api"
)

// A program opens Berth once, and then a sandbox for each user or task.
func Example() {
	ctx := context.Background()
	b, err := berth.Open(ctx, berth.Config{DataDir: dataDir, GuestPath: guestPath})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	s, err := b.Sandbox(ctx, berth.NewID(), berth.Account{ID: "user-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Delete(ctx, false)

	if _, err := s.WriteFile(ctx, berth.WorkingDir, "words.txt", strings.NewReader("three short words\n"), 0); err != nil {
		log.Fatal(err)
	}
	exit, err := s.Exec(ctx, berth.Command{Args: []string{"wc", "-w", "words.txt"}, Stdout: os.Stdout})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit code", exit.ExitCode)
	// Output:
	// 3 words.txt
	// exit code 0
}

// A turn is a sequence of events. This one is done by the demo agent, which needs no key and no network.
func ExampleSandbox_ExecuteAgentStream() {
	ctx := context.Background()
	b, err := berth.Open(ctx, berth.Config{DataDir: dataDir, GuestPath: guestPath})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	s, err := b.Sandbox(ctx, berth.NewID(), berth.Account{ID: "user-1"}, berth.WithTemplate("demo"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Delete(ctx, false)

	for event, err := range s.ExecuteAgentStream(ctx, berth.Prompt{Text: "write notes.txt: hello"}) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Type == api.EventTurnFinished {
			fmt.Println("turn", event.Status)
		}
	}
	content, err := s.FileContent(ctx, berth.WorkingDir, "notes.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", content)
	// Output:
	// turn completed
	// hello
}

// A template in Go, with a hook that prepares each new instance.
func ExampleTemplate() {
	ctx := context.Background()
	prepare := func(ctx context.Context, d *berth.HookData) error {
		exit, err := d.Exec(ctx, berth.Shell("echo '# Notes' > README.md"))
		if err != nil || exit.ExitCode != 0 {
			return fmt.Errorf("prepare the workspace: exit code %d: %w", exit.ExitCode, err)
		}
		return d.SetMetadata("prepared", "yes")
	}
	b, err := berth.Open(ctx, berth.Config{
		DataDir: dataDir, GuestPath: guestPath,
		Templates: []berth.Template{{Name: "notes", Extends: "demo", Hooks: []berth.Hook{berth.OnColdStart(prepare)}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	s, err := b.Sandbox(ctx, berth.NewID(), berth.Account{ID: "user-1"}, berth.WithTemplate("notes"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Delete(ctx, false)

	info, err := s.Info(ctx)
	if err != nil {
		log.Fatal(err)
	}
	list, err := s.ListFiles(ctx, berth.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list.Items[0].Path, info.Metadata["prepared"])
	// Output: README.md yes
}

// Errors are compared by their kind; their code and hint say more.
func ExampleError() {
	ctx := context.Background()
	b, err := berth.Open(ctx, berth.Config{DataDir: dataDir, GuestPath: guestPath})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	_, err = b.Sandbox(ctx, "scratch", berth.Account{ID: "user-1"})
	fmt.Println(errors.Is(err, berth.ErrInvalidSandboxID))
	var e *berth.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code)
	}
	// Output:
	// true
	// invalid_id
}
