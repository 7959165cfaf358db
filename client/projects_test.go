package client_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// patient is a transport that tells how long the caller would wait.
type patient struct{ left time.Duration }

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if at, has := r.Context().Deadline(); has {
		p.left = time.Until(at)
	}
	return respond(http.StatusOK, "application/json", api.ToolResult{})()
}

// A tool that may take long is waited for, unless the caller says how long.
func TestExecuteWaitsForItsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(patient)
		c := dial(t, "http://berth.test", client.WithTransport(p), client.WithTimeout(time.Minute))
		for seconds, want := range map[float64]time.Duration{0: 61 * time.Minute, 90: 150 * time.Second, 99999: 61 * time.Minute} {
			if _, err := c.Projects.Execute(t.Context(), "p", api.ExecuteTool{ToolName: "bash", Timeout: seconds}); err != nil || p.left != want {
				t.Errorf("with a timeout of %v it is waited %v, %v; want %v", seconds, p.left, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Projects.Execute(ctx, "p", api.ExecuteTool{ToolName: "bash", Timeout: 90}); err != nil || p.left != time.Second {
			t.Errorf("with a deadline of its own it is waited %v, %v", p.left, err)
		}
	})
}
