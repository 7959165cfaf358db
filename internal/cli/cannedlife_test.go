package cli

import (
	"encoding/json"
	"time"

	"github.com/berthdev/berth/api"
)

// cannedLife is what a server says of shop, scratch and itself when all is well, or nearly.
func cannedLife() map[string]any {
	in := func(d time.Duration) *time.Time { at := birth.Add(d); return &at }
	health := api.ProjectHealth{ProjectID: "shop", SandboxID: firstID, Status: "RUNNING", Healthy: true, Actual: "up", CheckedAt: birth}
	sync := api.ProjectSync{ProjectID: "shop", SandboxID: firstID, Recorded: "RUNNING", Actual: "missing", Detail: "the driver confirmed that the instance is gone",
		Would: []string{"mark it lost", "create a new instance"}, Sandbox: api.ProjectSandbox{Status: "RUNNING"}}
	mended := sync
	mended.Agrees, mended.Actual, mended.Detail, mended.Would = true, "up", "", nil
	code := 3
	return map[string]any{
		"GET " + shopPath + "/health": health,
		"GET " + shopPath + "/sync":   sync,
		"POST " + shopPath + "/sync":  mended,
		"GET " + shopPath + "/tools": api.ToolList{Items: []api.Tool{
			{Name: "bash", Description: "Run a command with bash in the sandbox. The answer has more.", InputSchema: json.RawMessage(`{"type": "object", "properties": {"command": {"type": "string", "description": "Command line."}, "timeout": {"type": ["number", "null"]}}, "required": ["command"]}`)},
			{Name: "read", Description: "Read a file.", InputSchema: json.RawMessage(`{"properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "hidden": {"type": "boolean"}, "odd": {"type": 7}}, "required": ["path"]}`)},
			{Name: "strange", InputSchema: json.RawMessage(`[]`)},
		}, Servers: []api.ToolServer{{Name: "files", Tools: 1}}},
		"POST " + shopPath + "/execute": api.ToolResult{Content: []api.ToolContent{{Type: "text", Text: "out\n[exit code 3]"}}, IsError: true, ExitCode: &code},
		"POST /api/v1/projects/sandboxes/cleanup": api.ProjectCleanup{Items: []api.CleanedProject{
			{ProjectID: "shop", SandboxID: firstID, IdleSeconds: 7300, Action: "stop", Done: true},
			{ProjectID: "blog", SandboxID: "2", IdleSeconds: 90000, Action: "terminate", Done: true}}},
		"POST /api/v1/sweep": api.Sweep{At: birth, Drivers: []api.DriverSweep{{Driver: "local", Instances: 12}, {Driver: "fake", Instances: 1}}},
		"GET /api/v1/sandboxes/scratch/explain": api.Explanation{
			Sandbox: api.Sandbox{ID: firstID, Name: "scratch", State: "running"},
			Summary: "scratch runs. It was last used 3 minutes ago.",
			Because: []api.Transition{
				{At: birth.Add(-3 * time.Minute), Event: "ready", From: "starting", To: "running", Reason: "the instance answers", Actor: "engine"},
				{At: birth.Add(-4 * time.Minute), Event: "want", From: "stopped", To: "stopped", Want: "running", Reason: "used", Actor: "key k1"},
				{At: birth.Add(-2 * time.Hour), Event: "stopped", From: "stopping", To: "stopped"},
			},
			Ahead: []api.Prospect{
				{What: "probe", At: in(30 * time.Second), Why: "health check"},
				{What: "stop", At: in(12 * time.Minute), Why: "not used for 15m"},
				{What: "archive", Why: "not used for 24h", Off: "it would lose the files, which this server cannot save"},
				{What: "retry", Why: "recovery gave up; the next use tries again"},
			},
			Holds: []api.Hold{{Kind: "terminal", Until: birth.Add(time.Minute)}},
			Left:  []string{"instance"},
			Keeps: []string{"stop: all files", "terminate: nothing"},
		},
	}
}
