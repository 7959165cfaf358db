package rest

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
)

// Streams documents an answer that is a stream of server-sent events. The data of each is one of the described
// types, which the field "type" distinguishes.
func Streams[T any](a *Spec, events []api.EventInfo) func(*huma.Operation) {
	registry := a.API.OpenAPI().Components.Schemas
	ref := registry.Schema(reflect.TypeFor[T](), true, "")
	if union := registry.SchemaFromRef(ref.Ref); union.Discriminator == nil {
		describeUnion(registry, union, events)
	}
	return func(o *huma.Operation) {
		o.Responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: ref}
	}
}

// describeUnion turns the schema of the Go type, which has the fields of all events, into a union with one schema
// for each event.
func describeUnion(registry huma.Registry, union *huma.Schema, events []api.EventInfo) {
	all := union.Properties
	*union = huma.Schema{
		Description:   "The data of one server-sent event.",
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}},
	}
	for _, e := range events {
		registry.Map()[e.Schema] = eventSchema(e, all)
		ref := "#/components/schemas/" + e.Schema
		union.OneOf = append(union.OneOf, &huma.Schema{Ref: ref})
		union.Discriminator.Mapping[e.Type] = ref
	}
}

func eventSchema(e api.EventInfo, all map[string]*huma.Schema) *huma.Schema {
	s := &huma.Schema{
		Type: huma.TypeObject, Description: e.Doc, Required: []string{"type"},
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{e.Type}}},
	}
	for _, f := range e.Fields {
		property := *all[f.Name]
		if f.Doc != "" {
			property.Description = f.Doc
		}
		s.Properties[f.Name] = &property
		if f.Always {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

// Parts of the operations of all streams.
var (
	NoMoreEvents = map[int]string{http.StatusNoContent: "There are no events after the given one"}
	InAfter      = InQuery("after", "integer", "The offset to continue from; 0 is the oldest stored output")
)
