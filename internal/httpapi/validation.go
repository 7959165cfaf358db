package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/berthdev/berth/api"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// huma keeps how errors are made, and how strictly it reads, in variables of its package.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return refusal(context.Background(), status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return refusal(ctx.Context(), status, msg, errs)
	}
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false // a list that holds nothing is empty, not null
	validation.MsgUnexpectedProperty = "there is no such field"
}

// refusal is the problem for what huma itself finds wrong with a request. It calls broken JSON 400 and
// a wrong field 422; both are invalid_request here, and 422 is kept for what only we can know.
func refusal(ctx context.Context, status int, msg string, errs []error) *problem {
	code := api.CodeInvalidRequest
	switch status {
	case http.StatusUnsupportedMediaType:
		code = api.CodeUnsupportedMedia
	case http.StatusInternalServerError:
		return problemOf(ctx, errors.Join(append(errs, errors.New(msg))...))
	}
	p := newProblem(code, msg)
	for _, err := range errs {
		p.Errors = append(p.Errors, fieldError(err))
	}
	if len(p.Errors) > 0 {
		p.Detail = summary(p.Errors)
	}
	return p.finish(ctx)
}

// fieldError says where and what. The value sent is repeated only where it cannot be a secret: a part
// of a body may be the environment of a sandbox.
func fieldError(err error) api.FieldError {
	detailer, ok := err.(huma.ErrorDetailer)
	if !ok {
		return api.FieldError{Message: err.Error()}
	}
	d := detailer.ErrorDetail()
	field := api.FieldError{Location: d.Location, Message: d.Message}
	if text, ok := d.Value.(string); ok && text != "" && (strings.HasPrefix(d.Location, "query.") || strings.HasPrefix(d.Location, "path.")) {
		field.Value = clip(text)
	}
	return field
}

// invalidField is the problem of one field that only a handler can judge.
func invalidField(location, message string) *problem {
	p := newProblem(api.CodeInvalidRequest, location+": "+message)
	p.Errors = []api.FieldError{{Location: location, Message: message}}
	return p
}

// checkPlain refuses control characters: a name is shown in terminals, which obey them.
func checkPlain(location, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalidField(location, "expected text without control characters")
	}
	return nil
}

func summary(fields []api.FieldError) string {
	first := fields[0].Message
	if fields[0].Location != "" {
		first = fields[0].Location + ": " + first
	}
	if more := len(fields) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}
