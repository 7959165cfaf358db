package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// huma has its error constructors and its strictness in package variables.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return Refusal(context.Background(), status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return Refusal(ctx.Context(), status, msg, errs)
	}
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false // a list that holds nothing is empty, not null
	validation.MsgUnexpectedProperty = "there is no such field"
}

// Refusal returns the problem for an error that huma has found in a request. huma uses 400 for broken JSON and 422
// for an invalid field. Here both are invalid_request (400); 422 is for errors that only our own code can find.
func Refusal(ctx context.Context, status int, msg string, errs []error) *Problem {
	code := api.CodeInvalidRequest
	switch status {
	case http.StatusUnsupportedMediaType:
		code = api.CodeUnsupportedMedia
	case http.StatusInternalServerError:
		return ProblemOf(ctx, errors.Join(append(errs, errors.New(msg))...))
	}
	p := NewProblem(code, msg)
	for _, err := range errs[:min(len(errs), MostErrors)] {
		p.Errors = append(p.Errors, fieldError(err))
	}
	if len(errs) > 0 {
		p.Detail = summary(bounded(p.Errors[0]), len(errs)-1)
	}
	return p.Finish(ctx)
}

const (
	MostErrors  = 50   // maximum number of field errors in one problem; its detail counts the others
	mostOfField = 1000 // maximum bytes of a field's location, and of its message
)

// bounded clips the texts of a field error, so that an answer is not much larger than its request.
func bounded(f api.FieldError) api.FieldError {
	f.Location, f.Message = fault.Clip(f.Location, mostOfField), fault.Clip(f.Message, mostOfField)
	return f
}

// fieldError converts an error of huma. It includes the sent value only of query and path parameters: the body may
// contain secrets, such as environment variables.
func fieldError(err error) api.FieldError {
	detailer, ok := err.(huma.ErrorDetailer)
	if !ok {
		return api.FieldError{Message: err.Error()}
	}
	d := detailer.ErrorDetail()
	field := api.FieldError{Location: d.Location, Message: d.Message}
	if text, ok := d.Value.(string); ok && text != "" && (strings.HasPrefix(d.Location, "query.") || strings.HasPrefix(d.Location, "path.")) {
		field.Value = Clip(text)
	}
	return field
}

// InvalidField returns the problem for one field that a handler has refused.
func InvalidField(location, message string) *Problem {
	p := NewProblem(api.CodeInvalidRequest, location+": "+message)
	p.Errors = []api.FieldError{{Location: location, Message: message}}
	return p
}

// CheckPlain refuses control characters, because a terminal that shows the text would interpret them.
func CheckPlain(location, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return InvalidField(location, "expected text without control characters")
	}
	return nil
}

func summary(field api.FieldError, more int) string {
	first := field.Message
	if field.Location != "" {
		first = field.Location + ": " + first
	}
	if more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}
