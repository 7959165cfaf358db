package conversations

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Limits of the fields of a form, as the schema has them for JSON.
const (
	maxFileName  = 255
	maxFormField = 255
)

// formFields are the fields of a form beside files.
var formFields = []string{"prompt", "agent_id", "template", "model"}

// readForm reads a prompt from a body of the type multipart/form-data. Parts with a file name are attachments, whatever
// their field is called. Browsers send a part without name and content for a file that was not chosen.
func readForm(contentType string, data []byte, limits chat.AttachmentLimits) (p api.Prompt, err error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return p, exchange.InvalidField("header.Content-Type", "expected multipart/form-data with a boundary")
	}
	fields := map[string]string{}
	for parts := multipart.NewReader(bytes.NewReader(data), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			p.Prompt, p.AgentID, p.Template, p.Model = fields["prompt"], fields["agent_id"], fields["template"], fields["model"]
			return p, checkFields(fields)
		case err != nil:
			return p, fault.Errorf("", api.CodeInvalidRequest, "the form cannot be read: %w", err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return p, fault.Errorf("", api.CodeInvalidRequest, "the form cannot be read: %w", err)
		}
		_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		name, isFile := disposition["filename"]
		switch {
		case isFile && name == "" && len(content) == 0:
		case isFile && len(p.Attachments) == limits.Count:
			return p, fault.Errorf("", api.CodeManyAttachments, "the prompt has more than %d attachments", limits.Count)
		case isFile && len(name) > maxFileName:
			return p, exchange.InvalidField("body."+exchange.Clip(part.FormName()), fmt.Sprintf("expected a file name of at most %d bytes", maxFileName))
		case isFile:
			p.Attachments = append(p.Attachments, api.PromptFile{Name: name, MediaType: part.Header.Get("Content-Type"), Data: content})
		default:
			if err := addField(fields, part.FormName(), string(content)); err != nil {
				return p, err
			}
		}
	}
}

func addField(fields map[string]string, name, value string) error {
	at := "body." + exchange.Clip(name)
	if !slices.Contains(formFields, name) {
		return exchange.InvalidField(at, "there is no such field; files need a file name")
	}
	if _, twice := fields[name]; twice {
		return exchange.InvalidField(at, "given twice")
	}
	fields[name] = value
	return nil
}

func checkFields(fields map[string]string) error {
	for _, name := range formFields[1:] {
		if len(fields[name]) > maxFormField {
			return exchange.InvalidField("body."+name, fmt.Sprintf("expected at most %d bytes", maxFormField))
		}
	}
	return nil
}

// digest returns a form of a prompt that two requests share if they ask for the same, as JSON or as a form: a form has
// another boundary each time.
func digest(p api.Prompt) []byte {
	files := slices.Clone(p.Attachments)
	for i, f := range files {
		sum := sha256.Sum256(f.Data)
		files[i].Data = sum[:]
	}
	p.Attachments = files
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and bytes always marshal
	}
	return text
}

// documentForm adds the form to the OpenAPI document.
func documentForm(o *huma.Operation) {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	o.RequestBody.Content["multipart/form-data"] = &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"prompt"},
		Properties: map[string]*huma.Schema{
			"prompt": text("The prompt"), "agent_id": text(""), "template": text(""), "model": text("The model"),
			"file": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Description: "Attachments, each a part with a file name; the field may have any name"},
		},
	}}
}
