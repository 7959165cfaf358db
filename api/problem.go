package api

import "fmt"

// Problem is an RFC 9457 problem document. The API answers every error with it.
type Problem struct {
	Type      string       `json:"type" doc:"URL of the page that explains the code" example:"/docs/problems#not_found"`
	Title     string       `json:"title" doc:"A short title, the same for every occurrence of the code"`
	Status    int          `json:"status" doc:"HTTP status"`
	Detail    string       `json:"detail" doc:"The cause of this error"`
	Code      Code         `json:"code" doc:"Stable code; programs should use it" example:"not_found"`
	Hint      string       `json:"hint,omitempty" doc:"How to fix it"`
	Retryable bool         `json:"retryable" doc:"The same request may succeed later"`
	RequestID string       `json:"request_id,omitempty" doc:"The request's id in the server's log"`
	Errors    []FieldError `json:"errors,omitempty" doc:"The invalid fields"`
}

// FieldError describes one invalid field of a request.
type FieldError struct {
	Location string `json:"location" doc:"The field, such as body.name or query.limit"`
	Message  string `json:"message" doc:"The error"`
	Value    any    `json:"value,omitempty" doc:"The value that was sent"`
}

// NewProblem returns a problem with the values of the code's row in Codes.
func NewProblem(code Code, detail string) *Problem {
	info := code.Info()
	return &Problem{
		Type: "/docs/problems#" + string(info.Code), Title: info.Title, Status: info.Status,
		Detail: detail, Code: info.Code, Hint: info.Hint, Retryable: info.Retryable,
	}
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return fmt.Sprintf("%s (%s)", p.Title, p.Code)
	}
	return fmt.Sprintf("%s (%s)", p.Detail, p.Code)
}
