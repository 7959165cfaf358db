package api

import "fmt"

// Problem is an RFC 9457 problem document, the only shape an error has on the wire.
type Problem struct {
	Type      string       `json:"type" doc:"Address of the page that explains the code" example:"/docs/problems#not_found"`
	Title     string       `json:"title" doc:"A few words, the same for every occurrence of the code"`
	Status    int          `json:"status" doc:"HTTP status"`
	Detail    string       `json:"detail" doc:"What was wrong this time"`
	Code      Code         `json:"code" doc:"Stable name to decide by" example:"not_found"`
	Hint      string       `json:"hint,omitempty" doc:"What to do about it"`
	Retryable bool         `json:"retryable" doc:"The same request may succeed later, unchanged"`
	RequestID string       `json:"request_id,omitempty" doc:"Find this request in the server's log"`
	Errors    []FieldError `json:"errors,omitempty" doc:"Each field that was wrong"`
}

// FieldError is one field that was wrong.
type FieldError struct {
	Location string `json:"location" doc:"Where, such as body.name or query.limit"`
	Message  string `json:"message" doc:"What was wrong with it"`
	Value    any    `json:"value,omitempty" doc:"What was sent"`
}

// NewProblem fills a problem from the table of codes.
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
