package demo_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/demo"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

func TestRuntimePassesSuite(t *testing.T) {
	testkit.Proves(t, "H7")
	agenttest.Run(t, harness(t))
}

func harness(t *testing.T) agenttest.Harness {
	t.Parallel()
	runtime := demo.New()
	runtime.Grace = 2 * time.Second
	return agenttest.Harness{
		Runtime: runtime,
		Box:     boxtest.New(t, boxtest.Options{}),
		Say:     func(text string) string { return text },
		Write:   func(path, text string) string { return "write `" + path + "`: " + text },
		Exec:    func(command string) string { return "run " + command },
		Session: func(id string) string { return ".berth/demo/" + id },
	}
}
