package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// checkEvent compares an event from the wire with its description.
func checkEvent(t testing.TB, all []api.EventInfo, data string) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(data), &fields); err != nil {
		t.Fatalf("event %q: %v", data, err)
	}
	i := slices.IndexFunc(all, func(e api.EventInfo) bool { return e.Type == fields["type"] })
	if i < 0 {
		t.Errorf("the type %v is not documented", fields["type"])
		return
	}
	delete(fields, "type")
	for _, f := range all[i].Fields {
		if _, has := fields[f.Name]; f.Always && !has {
			t.Errorf("event %s lacks %s: %s", all[i].Type, f.Name, data)
		}
		delete(fields, f.Name)
	}
	for name := range fields {
		t.Errorf("event %s has %s, which is not documented: %s", all[i].Type, name, data)
	}
}

type schemaDoc struct {
	Ref           string               `json:"$ref"`
	Type          any                  `json:"type"`
	Format        string               `json:"format"`
	Description   string               `json:"description"`
	Enum          []string             `json:"enum"`
	Items         *schemaDoc           `json:"items"`
	Properties    map[string]schemaDoc `json:"properties"`
	Required      []string             `json:"required"`
	OneOf         []schemaDoc          `json:"oneOf"`
	Discriminator struct {
		PropertyName string            `json:"propertyName"`
		Mapping      map[string]string `json:"mapping"`
	} `json:"discriminator"`
}

// name is the type for people.
func (s schemaDoc) name() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Items != nil:
		return "list of " + s.Items.name()
	case s.Type == nil:
		return "any JSON"
	case s.Format == "date-time":
		return "time"
	}
	if all, ok := s.Type.([]any); ok {
		return fmt.Sprint(all[0])
	}
	return fmt.Sprint(s.Type)
}

func (s *site) schemas() map[string]schemaDoc {
	s.t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]schemaDoc `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(s.do(call{path: "/openapi.json"}).is(http.StatusOK).body, &doc); err != nil {
		s.t.Fatal(err)
	}
	return doc.Components.Schemas
}

func TestEventsAreDiscriminatedUnions(t *testing.T) {
	testkit.Proves(t, "X5")
	schemas := newSite(t).schemas()
	for name, events := range map[string][]api.EventInfo{"TurnEvent": api.TurnEvents, "ExecEvent": api.ExecEvents, "ChangeEvent": api.ChangeEvents} {
		union := schemas[name]
		if union.Discriminator.PropertyName != "type" || len(union.OneOf) != len(events) || len(union.Properties) != 0 {
			t.Errorf("%s is no union: %+v", name, union)
		}
		for _, e := range events {
			ref := "#/components/schemas/" + e.Schema
			s := schemas[e.Schema]
			if union.Discriminator.Mapping[e.Type] != ref || !slices.ContainsFunc(union.OneOf, func(one schemaDoc) bool { return one.Ref == ref }) {
				t.Errorf("%s does not lead to %s", name, e.Schema)
			}
			if len(s.Properties) != len(e.Fields)+1 || !slices.Equal(s.Properties["type"].Enum, []string{e.Type}) || s.Required[0] != "type" {
				t.Errorf("%s: %+v", e.Schema, s)
			}
			for field, p := range s.Properties {
				if p.Description == "" && field != "type" {
					t.Errorf("%s.%s has no description", e.Schema, field)
				}
			}
		}
	}
}

// Streams have operations of their own: an operation with two kinds of content gives generated clients no useful type.
func TestStreamsAreOperationsOfTheirOwn(t *testing.T) {
	testkit.Proves(t, "X5")
	doc := newSite(t).specification()
	streams := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			response, _ := op["responses"].(map[string]any)["200"].(map[string]any)
			content, _ := response["content"].(map[string]any)
			_, stream := content["text/event-stream"]
			if stream {
				streams++
			}
			if stream && len(content) > 1 {
				t.Errorf("%s %s answers %v", method, path, content)
			}
		}
	}
	if streams < 5 {
		t.Errorf("only %d operations stream", streams)
	}
}

func TestExecStreamAnswersEventsWithoutBeingAsked(t *testing.T) {
	w := newWorkshop(t)
	s := w.watch(http.MethodPost, w.box+"/exec/stream", shell("echo out; exit 3"), "Accept", "*/*").begun()
	if stdout, _, exit := s.rest(); stdout != "out\n" || exit.ExitCode != 3 {
		t.Errorf("%q, %+v", stdout, exit)
	}
	// The same request again attaches to the command.
	first := w.watch(http.MethodPost, w.box+"/exec/stream", shell("echo once"), "Accept", "*/*", idempotencyHeader, "k1").begun()
	id := first.id()
	first.rest()
	again := w.watch(http.MethodPost, w.box+"/exec/stream", shell("echo once"), "Accept", "*/*", idempotencyHeader, "k1").begun()
	if stdout, _, _ := again.rest(); again.id() != id || stdout != "once\n" {
		t.Errorf("%q instead of %q: %q", again.id(), id, stdout)
	}
}

// The page of events is written from the specification: BERTH_UPDATE_GOLDEN=1 writes it anew.
func TestEventsPage(t *testing.T) {
	testkit.Proves(t, "X5")
	schemas := newSite(t).schemas()
	var b strings.Builder
	b.WriteString(eventsIntro)
	writeEvents(&b, "Turn events", turnIntro, schemas, api.TurnEvents)
	writeEvents(&b, "Exec events", execIntro, schemas, api.ExecEvents)
	writeEvents(&b, "Changes", changesIntro, schemas, api.ChangeEvents)
	testkit.Golden(t, "../../docs/reference/events.md", b.String())
}

func writeEvents(b *strings.Builder, title, intro string, schemas map[string]schemaDoc, events []api.EventInfo) {
	fmt.Fprintf(b, "\n## %s\n\n%s", title, intro)
	for _, e := range events {
		fmt.Fprintf(b, "\n### `%s`\n\n%s Schema `%s`.\n\n| field | type | always | meaning |\n|---|---|---|---|\n", e.Type, e.Doc, e.Schema)
		for _, f := range e.Fields {
			p, mark := schemas[e.Schema].Properties[f.Name], ""
			if f.Always {
				mark = "yes"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, p.name(), mark, strings.ReplaceAll(p.Description, "|", "\\|"))
		}
	}
}

const eventsIntro = `# Events

Berth streams turns, commands and changes as [server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html).
The data of each event is one JSON object on one line, and its field ` + "`type`" + ` says which of the objects below it is.
Events have no ` + "`event:`" + ` line, so that a plain ` + "`EventSource`" + ` receives them. Lines that begin with a colon are signs of life,
sent every 15 seconds; ignore them. In the OpenAPI document the events are the unions ` + "`TurnEvent`" + `, ` + "`ExecEvent`" + `
and ` + "`ChangeEvent`" + `.

Later versions of Berth may add types and fields. Ignore those that you do not know. A field that is not marked
*always* is left out when it is empty, zero or false.

This page is generated from the code.
`

const turnIntro = "" +
	"```\n" +
	"curl -N -H \"Authorization: Bearer $BERTH_API_KEY\" -H \"Accept: text/event-stream\" --json '{\"prompt\": \"list\"}' \\\n" +
	"  http://127.0.0.1:7070/api/v1/conversations/$ID/messages\n" +
	"```\n\n" +
	"`-N` makes curl print each event at once; without the Accept header, `--json` asks for the turn alone. The `id:` of an event is `TURN.NUMBER`. A turn continues if its reader disconnects: send the\n" +
	"last id as `Last-Event-ID` or `?after=` to `GET /api/v1/conversations/{id}/turns/{turn_id}/events`. An event without an id is not part of the\n" +
	"turn's log; the position of the reader does not change.\n"

const execIntro = "" +
	"```\n" +
	"curl -N -H \"Authorization: Bearer $BERTH_API_KEY\" --json '{\"command\": \"for i in 1 2 3; do date; sleep 1; done\"}' \\\n" +
	"  http://127.0.0.1:7070/api/v1/sandboxes/$ID/exec/stream\n" +
	"```\n\n" +
	"The `id:` of an output event is the offset after it; that of the exit event is `OFFSET.end`. A command continues if its reader disconnects:\n" +
	"send the last id as `Last-Event-ID`, or the last `next` as `?after=`, to `GET /api/v1/sandboxes/{id}/exec/{exec_id}/stream`. Standard output and\n" +
	"standard error share one numbering, so that the order of the output is known.\n"

const changesIntro = "" +
	"```\n" +
	"curl -N -H \"Authorization: Bearer $BERTH_API_KEY\" http://127.0.0.1:7070/api/v1/events\n" +
	"```\n\n" +
	"Changes of the tenant's sandboxes, conversations and turns, whichever server makes them; a key that is bound to an account sees its own. Watch\n" +
	"them in the place of polling: list when a `reset` comes, and apply the events after it. Each event has an `id:`; send the last one as\n" +
	"`Last-Event-ID` or `?after=` to continue without a gap. Positions are valid for ten minutes, and heartbeats have new ones. A reader that is\n" +
	"further behind, or more than 5,000 changes, gets a `reset`.\n"

// verbs are the first words of summaries.
var verbs = strings.Fields(`Call Cancel Change Check Compare Connect Create Delete Disconnect Download Explain Export Extract Forward Freeze Get List Not Open Prune Read
	Reconcile Release Remove Replace Resize Restart Restore Revoke Run Save Send Start Stop Stream Terminate Thaw Verify Write`)

var quaint = regexp.MustCompile(`(?i)\b(who(ever)|what(ever)|(no|some|any|every)body|mean(while)|t(old|ells)|of your own|by itself|what (is|it|was))\b`)

// Every operation has a summary of a verb and an object, and the words of the whole document are plain.
func TestSpecificationIsPlainEnglish(t *testing.T) {
	s := newSite(t)
	for path, methods := range s.specification().Paths {
		for method, op := range methods {
			summary, _ := op["summary"].(string)
			verb, object, _ := strings.Cut(summary, " ")
			if !slices.Contains(verbs, verb) || object == "" || len(summary) > 72 || strings.HasSuffix(summary, ".") {
				t.Errorf("%s %s: the summary is %q", method, path, summary)
			}
		}
	}
	text := string(s.do(call{path: "/openapi.json"}).is(http.StatusOK).body)
	for _, found := range quaint.FindAllStringIndex(text, -1) {
		t.Errorf("…%s…", text[max(0, found[0]-60):min(len(text), found[1]+60)])
	}
}

// The list of operations is part of the repository, so that a change of the API is seen in review.
func TestOperationsPage(t *testing.T) {
	testkit.Proves(t, "X5")
	byTag := map[string][]string{}
	doc := newSite(t).specification()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			tag := op["tags"].([]any)[0].(string)
			line := fmt.Sprintf("| `%s %s` | `%v` | %v |\n", strings.ToUpper(method), path, op["operationId"], op["summary"])
			if op["deprecated"] == true {
				line = fmt.Sprintf("| `%s %s` | `%v` | %v (deprecated) |\n", strings.ToUpper(method), path, op["operationId"], op["summary"])
			}
			byTag[tag] = append(byTag[tag], line)
		}
	}
	var b strings.Builder
	b.WriteString("# HTTP API\n\nEvery server has its OpenAPI 3.1 document at `/openapi.json` and a page that shows it at `/docs`. The events of streams are in\n[events.md](events.md). This page is generated from the code.\n\n" + keyIntro)
	for _, tag := range doc.Tags {
		lines := byTag[tag.Name]
		sort.Strings(lines)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| route | operation | |\n|---|---|---|\n%s", tag.Name, tag.Description, strings.Join(lines, ""))
		delete(byTag, tag.Name)
	}
	if len(byTag) > 0 {
		t.Errorf("unknown tags: %v", byTag)
	}
	testkit.Golden(t, "../../docs/reference/api.md", b.String())
}

const keyIntro = "" +
	"Send an API key with every request, as `Authorization: Bearer KEY` or `X-API-Key: KEY`:\n\n" +
	"```\n" +
	"export BERTH_API_KEY=\"$(cat ~/.local/share/berth/admin.key)\"\n" +
	"curl -H \"Authorization: Bearer $BERTH_API_KEY\" http://127.0.0.1:7070/api/v1/sandboxes\n" +
	"```\n\n" +
	"Paths that older clients use (`/api/v1/sandbox/…`, `/conversations/…`, `/conversation/…`, `/sandboxes/{id}/claude`) have the same answers and are not listed.\n"
