package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// WantsEvents reports whether the client accepts server-sent events.
func WantsEvents(r *http.Request) bool { return Accepts(r, "text/event-stream") }

// Accepts reports whether the Accept header lists the media type.
func Accepts(r *http.Request, mediaType string) bool {
	for _, header := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(header, ",") {
			if mt, params, err := mime.ParseMediaType(one); err == nil && mt == mediaType && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// Flag parses a boolean parameter of the query. An absent parameter is false.
func Flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, exchange.InvalidField("query."+name, "expected true or false")
	}
	return on, nil
}

// Attachment returns the Content-Disposition that makes a browser save the answer under a name.
func Attachment(name string) string {
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}

// Body decodes and validates the bodies of raw handlers, as strictly as bodies of typed handlers are.
type Body[T any] struct {
	registry huma.Registry
	schema   *huma.Schema
	Words    map[string]string // messages for invalid fields by location, instead of the schema's messages
}

// NewBody returns the Body for T. change may adjust the schema that is derived from the Go type; nil: no change.
func NewBody[T any](a *Spec, change func(*huma.Schema)) *Body[T] {
	registry := a.API.OpenAPI().Components.Schemas
	ref := registry.Schema(reflect.TypeFor[T](), true, "")
	if change != nil {
		change(registry.SchemaFromRef(ref.Ref))
	}
	return &Body[T]{registry: registry, schema: ref}
}

// Read decodes and checks a body. Its errors name fields, never values.
func (b *Body[T]) Read(data []byte) (out T, err error) {
	if len(data) == 0 {
		return out, exchange.Refusal(context.Background(), http.StatusBadRequest, "request body is required", nil)
	}
	if err := checkJSON(data); err != nil {
		return out, exchange.Refusal(context.Background(), http.StatusBadRequest, err.Error(), nil)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return out, exchange.Refusal(context.Background(), http.StatusBadRequest, err.Error(), nil)
	}
	at, res := huma.NewPathBuffer(nil, 0), new(huma.ValidateResult)
	at.Push("body")
	huma.Validate(b.registry, b.schema, at, huma.ModeWriteToServer, value, res)
	if len(res.Errors) > 0 {
		b.reword(res.Errors)
		return out, exchange.Refusal(context.Background(), http.StatusUnprocessableEntity, "validation failed", res.Errors)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, exchange.Refusal(context.Background(), http.StatusBadRequest, "the body cannot be read: "+err.Error(), nil)
	}
	return out, nil
}

func (b *Body[T]) reword(errs []error) {
	for _, err := range errs {
		if detail, ok := errors.AsType[*huma.ErrorDetail](err); ok && b.Words[detail.Location] != "" {
			detail.Message = b.Words[detail.Location]
		}
	}
}

// Document adds the body to the OpenAPI document.
func (b *Body[T]) Document(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: b.schema}}}
}

// AnyBody documents a body of bytes.
func AnyBody(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/octet-stream": {}}}
}

// Answers documents a JSON answer of the type.
func Answers[T any](a *Spec) func(*huma.Operation) {
	schema := a.API.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return func(o *huma.Operation) {
		o.Responses["200"].Content["application/json"] = &huma.MediaType{Schema: schema}
	}
}

// InPath documents parameters in the path.
func InPath(names ...string) func(*huma.Operation) {
	docs := map[string]string{"id": "The sandbox's id or name", "exec_id": "The command's id", "port": "A port on the sandbox's loopback interface", "rest": "The path on the port", "path": "The file's path below the root, percent-encoded", "project_id": "The project's id, percent-encoded", "turn_id": "The turn's id", "thread_id": "The thread's key in the chat system: 1 to 190 bytes of printable text without slashes", "sandbox_id": "The sandbox's id or name"}
	return func(o *huma.Operation) {
		for _, name := range names {
			o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "path", Required: true, Description: docs[name], Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
}

// InQuery documents a parameter of the query.
func InQuery(name, kind, description string) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: kind}})
	}
}

// ReadQuery returns an error if the query has a parameter that the route does not know, or one parameter twice.
func ReadQuery(r *http.Request, known ...string) error {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name):
			return exchange.InvalidField("query."+exchange.Clip(name), "there is no such parameter")
		case len(query[name]) > 1:
			return exchange.InvalidField("query."+name, "given twice")
		}
	}
	return nil
}

// Number parses an integer parameter of the query. An absent parameter has the value otherwise.
func Number(r *http.Request, name string, least, most, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, exchange.InvalidField("query."+name, fmt.Sprintf("expected a whole number from %d to %d", least, most))
	}
	return n, nil
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := strictJSON.Marshal(w, value); err != nil {
		exchange.Of(r.Context()).Log.DebugContext(r.Context(), "answer not sent", "error", err)
	}
}
