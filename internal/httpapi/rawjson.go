package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/danielgtaylor/huma/v2"
)

// jsonBody reads bodies of one type for raw handlers, as strictly as typed ones are read.
type jsonBody[T any] struct {
	registry huma.Registry
	schema   *huma.Schema
	words    map[string]string // what to say of a field, by its place, where the schema's own words say little
}

// newBody makes the reader of T. The schema may be changed where Go's type says too little.
func newBody[T any](a *Handler, change func(*huma.Schema)) *jsonBody[T] {
	registry := a.spec.OpenAPI().Components.Schemas
	ref := registry.Schema(reflect.TypeFor[T](), true, "")
	if change != nil {
		change(registry.SchemaFromRef(ref.Ref))
	}
	return &jsonBody[T]{registry: registry, schema: ref}
}

// read decodes and checks a body. Its errors name fields, never values.
func (b *jsonBody[T]) read(data []byte) (out T, err error) {
	if len(data) == 0 {
		return out, refusal(context.Background(), http.StatusBadRequest, "request body is required", nil)
	}
	if err := checkJSON(data); err != nil {
		return out, refusal(context.Background(), http.StatusBadRequest, err.Error(), nil)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return out, refusal(context.Background(), http.StatusBadRequest, err.Error(), nil)
	}
	at, res := huma.NewPathBuffer(nil, 0), new(huma.ValidateResult)
	at.Push("body")
	huma.Validate(b.registry, b.schema, at, huma.ModeWriteToServer, value, res)
	if len(res.Errors) > 0 {
		b.reword(res.Errors)
		return out, refusal(context.Background(), http.StatusUnprocessableEntity, "validation failed", res.Errors)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, refusal(context.Background(), http.StatusBadRequest, "the body cannot be read: "+err.Error(), nil)
	}
	return out, nil
}

func (b *jsonBody[T]) reword(errs []error) {
	for _, err := range errs {
		if detail, ok := errors.AsType[*huma.ErrorDetail](err); ok && b.words[detail.Location] != "" {
			detail.Message = b.words[detail.Location]
		}
	}
}

// document puts the body into the specification.
func (b *jsonBody[T]) document(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: b.schema}}}
}

// anyBody documents a body of bytes.
func anyBody(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/octet-stream": {}}}
}

// answers documents a JSON answer of the type.
func answers[T any](a *Handler) func(*huma.Operation) { return content[T](a, "application/json") }

// streams documents an answer that is a stream of events of the type.
func streams[T any](a *Handler) func(*huma.Operation) { return content[T](a, "text/event-stream") }

func content[T any](a *Handler, contentType string) func(*huma.Operation) {
	schema := a.spec.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return func(o *huma.Operation) { o.Responses["200"].Content[contentType] = &huma.MediaType{Schema: schema} }
}

// inPath documents the parts of the path that stand for something.
func inPath(names ...string) func(*huma.Operation) {
	docs := map[string]string{"id": "Its id or its name", "exec_id": "The command's id", "port": "A port of the sandbox's loopback", "rest": "Path at whoever listens there", "path": "The file's path below its root, percent-encoded", "project_id": "The project's id, percent-encoded", "turn_id": "The turn's id", "sandbox_id": "The sandbox's id or its name"}
	return func(o *huma.Operation) {
		for _, name := range names {
			o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "path", Required: true, Description: docs[name], Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
}

// inQuery documents a parameter of the query.
func inQuery(name, kind, description string) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: kind}})
	}
}

// describeExec says that a command may be a text, too.
func describeExec(s *huma.Schema) {
	one := 1
	command := s.Properties["command"]
	s.Properties["command"] = &huma.Schema{
		Description: command.Description,
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, MinItems: &one, Items: &huma.Schema{Type: huma.TypeString}},
			{Type: huma.TypeString, MinLength: &one},
		},
	}
	s.Properties["command"].PrecomputeMessages()
	for _, either := range s.Properties["command"].OneOf {
		either.PrecomputeMessages()
	}
}

// readQuery refuses parameters that the route does not know, or that are given twice.
func readQuery(r *http.Request, known ...string) error {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name):
			return invalidField("query."+clip(name), "there is no such parameter")
		case len(query[name]) > 1:
			return invalidField("query."+name, "given twice")
		}
	}
	return nil
}

// number reads a whole number out of the query; absent is the default.
func number(r *http.Request, name string, least, most, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalidField("query."+name, fmt.Sprintf("expected a whole number from %d to %d", least, most))
	}
	return n, nil
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := strictJSON.Marshal(w, value); err != nil {
		exchangeOf(r.Context()).log.DebugContext(r.Context(), "answer not sent", "error", err)
	}
}

// checkExecID refuses what cannot be an exec's id: nothing was ever started under it.
func checkExecID(id string) error {
	for _, c := range []byte(id) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			id = ""
			break
		}
	}
	if id == "" || len(id) > 64 {
		return sandbox.Errorf("find command", api.CodeNoSuchExec, "no command was started under that id")
	}
	return nil
}
