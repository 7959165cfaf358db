package claudecli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// offers stands before a model's double and notes which tools each call of the model offers.
type offers struct {
	url  string
	mu   sync.Mutex
	seen [][]string
}

func newOffers(t *testing.T, model string) *offers {
	t.Helper()
	to, err := url.Parse(model)
	if err != nil {
		t.Fatal(err)
	}
	o, proxy := &offers{}, httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		o.note(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	o.url = front.URL
	return o
}

func (o *offers) note(body []byte) {
	var asked struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(body, &asked) != nil || len(asked.Tools) == 0 {
		return
	}
	var names []string
	for _, t := range asked.Tools {
		names = append(names, t.Name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, names)
}

// all are the tools of each call since the last time.
func (o *offers) all() [][]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.seen
	o.seen = nil
	return seen
}

// The tools of a template's MCP servers are offered to the model from its first call on, by name or behind the CLI's
// search for tools, and can be used. A server that does not start takes nothing away.
func TestRealCLIHasToolsOfMCPServers(t *testing.T) {
	testkit.Proves(t, "P3")
	t.Parallel()
	offered := newOffers(t, fakellm.New(t).URL)
	h := harness(t, program.ClaudeCode.Tested(), offered.url, driver.Mount{Source: tooltest.Server(t), Target: "/opt/tools"})
	h.Box.Env = append(h.Box.Env, "OF_TEMPLATE=template", "OF_SERVER=template")
	turn := agenttest.Turn("[[bash cat /proc/[0-9]*/cmdline >argv; stat -c %a ~/.berth/turns/*.aside >mode]][[next]]" +
		"[[tool mcp__good__env {}]][[say {{last_result}}]]")
	// The first time it takes longer than the CLI would wait for it.
	late := `[ -e /tmp/late ] || { : >/tmp/late; sleep 6; }; x=y; OF_TEMPLATE="$OF_TEMPLATE-${x}" exec /opt/tools/server`
	turn.Servers = map[string]agent.Server{
		"good": {Command: []string{"/bin/sh", "-c", late}, Env: map[string]string{"OF_SERVER": "secret-${HOME}"}, Timeout: 2 * time.Minute},
		"ill":  {Command: []string{"/opt/tools/server", "exit"}, Timeout: time.Minute},
	}
	for range 2 { // a session that begins, and one that is resumed
		h.Start(t, turn)
		o := h.Read(t, turn, agent.Cursor{})
		if o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "template-y secret-${HOME} /workspace 1000") {
			t.Errorf("it ended %+v and says %q", o.End, o.Text())
		}
		calls := offered.all()
		if len(calls) < 2 {
			t.Fatalf("the model was called %d times", len(calls))
		}
		for _, tools := range calls {
			offered := slices.Contains(tools, "mcp__good__echo") || slices.Contains(tools, "ToolSearch")
			if !offered || !slices.Contains(tools, "Bash") {
				t.Errorf("the model is offered %v", tools)
			}
		}
		// The configuration of a server is in a private file of the agent, and only for the turn.
		argv, _ := h.File(t, files.WorkingDir, "argv")
		mode, _ := h.File(t, files.WorkingDir, "mode")
		if !strings.Contains(argv, "--mcp-config") || strings.Contains(argv, "secret") || mode != "600\n" {
			t.Errorf("mode %q; commands %q", mode, argv)
		}
		if text, ok := h.File(t, files.HomeDir, ".berth/turns/"+agent.ProcessID(turn)+".prompt.aside"); ok {
			t.Errorf("this is left: %s", text)
		}
		turn = agenttest.Next(turn, turn.Prompt)
	}
}
