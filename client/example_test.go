package client_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// A sandbox is opened once; its methods need no more than that.
func ExampleClient_Sandbox() {
	ctx := context.Background()
	c, err := client.New(server.URL, server.Key)
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Sandbox(ctx, api.CreateSandbox{Name: "words"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Delete(ctx, false)

	if _, err := s.WriteFile(ctx, "", "words.txt", strings.NewReader("three short words\n"), 0); err != nil {
		log.Fatal(err)
	}
	result, err := s.Exec(ctx, api.Exec{Command: []string{"wc", "-w", "words.txt"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(result.Stdout)
	// Output: 3 words.txt
}

// A turn is a sequence of events. This one is done by the demo agent.
func ExampleSandbox_ExecuteAgentStream() {
	ctx := context.Background()
	c, err := client.New(server.URL, server.Key)
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Sandbox(ctx, api.CreateSandbox{Template: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Delete(ctx, false)

	for event, err := range s.ExecuteAgentStream(ctx, api.Prompt{Prompt: "write notes.txt: hello"}) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Type == api.EventTurnFinished {
			fmt.Println("turn", event.Status)
		}
	}
	content, err := s.FileContent(ctx, api.SourceWorkingDir, "notes.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", content)
	// Output:
	// turn completed
	// hello
}
