package lines_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/lines"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

// program returns the first turn of a session with the agent of testdata.
func program(t agent.Turn) agent.Turn {
	t.Command = []string{"/usr/bin/perl", "/opt/agent/agent.pl"}
	return t
}

func TestRuntimePassesSuite(t *testing.T) {
	t.Parallel()
	testkit.Proves(t, "H7", "X10")
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	runtime := lines.New()
	runtime.Grace = 2 * time.Second
	job := runtime.Job
	runtime.Job = func(t agent.Turn) agent.Job { return job(program(t)) }
	agenttest.Run(t, agenttest.Harness{
		Runtime: runtime,
		Box:     boxtest.New(t, boxtest.Options{Mounts: []driver.Mount{{Source: data, Target: "/opt/agent"}}}),
		Say:     func(text string) string { return "say " + text },
		Write:   func(path, text string) string { return "write " + path + "\n" + text },
		Exec:    func(command string) string { return "exec " + command },
		Session: func(id string) string { return ".berth/lines/" + id + "/turns" },
	})
}
