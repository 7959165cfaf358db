package acp

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/client"
)

// The stop reasons of the protocol that are no ordinary end.
const (
	stopCancelled = "cancelled"
	stopRefusal   = "refusal"
	stopTokens    = "max_tokens"
	stopCalls     = "max_turn_requests"
)

// answer reads the result for the prompt. Many agents report a failed call of the model as an ordinary end.
func (r *reader) answer(l *client.Line) []api.TurnEvent {
	var a answered
	_ = json.Unmarshal(l.Answer, &a)
	counted := r.state.Tally.answer(r.profile.Usage, &a)
	res := &end{Status: api.TurnCompleted, Stop: clip(a.Stop, maxName)}
	r.state.End = res
	if a.Stop == stopCancelled || r.state.Cancelled {
		res.Status = api.TurnCancelled
		return []api.TurnEvent{r.usage()}
	}
	if code, why := r.failure(&a, counted); code != "" {
		res.Status, res.Code, res.Message = api.TurnFailed, code, clip(why, maxError)
		return []api.TurnEvent{r.usage()}
	}
	return []api.TurnEvent{r.usage()}
}

// failure returns the code and the reason of a turn that failed although the agent answered.
func (r *reader) failure(a *answered, counted bool) (code api.Code, why string) {
	silent := r.profile.SilentFailures && !r.state.Answered
	switch {
	case a.Stop == stopRefusal:
		return api.CodeModelRefusal, cmp.Or(r.state.Failure, "the model refused to answer")
	case a.Stop == stopTokens && !r.state.Said:
		return api.CodeAnswerTooLong, "the model reached its limit of tokens before it answered"
	case a.Stop == stopCalls:
		return api.CodeAgentFailed, "the agent stopped at its limit of calls of the model"
	case r.state.Broken, r.state.Failure != "", r.profile.Usage.Failed && !counted:
		why = cmp.Or(strings.TrimSpace(r.state.Failure), "the call of the model failed, and the agent gave no reason")
		return refused(failureCode(0, why), why)
	case !r.state.Said, silent:
		return api.CodeAgentFailed, "the agent ended its turn without an answer: the call of the model has probably failed"
	}
	return "", ""
}

// refused explains a refused key, for which services and agents have many words.
func refused(code api.Code, why string) (api.Code, string) {
	if code == api.CodeModelKeyRefused && !strings.Contains(why, "refuse") {
		why = "the model's service refused the key: " + why
	}
	return code, why
}

// failed reads an error that the agent answered.
func (r *reader) failed(l *client.Line) {
	var e rpcError
	_ = json.Unmarshal(l.Answer, &e)
	if l.Text == "session/prompt" && r.state.Cancelled {
		r.state.End = &end{Status: api.TurnCancelled}
		return
	}
	why := e.reason()
	res := &end{Status: api.TurnFailed}
	res.Code, res.Message = refused(failureCode(e.status(), why), why)
	switch {
	case e.Code == codeAuthentication:
		res.Code, res.Message = api.CodeModelKeyRefused, "the key was refused, or the agent wants an account: "+why
	case l.Text == "session/set_model" || l.Text == "session/set_config_option":
		res.Message = "the agent refuses the model " + strconv.Quote(r.turn.Model) + ": " + why
	case l.Text != "session/prompt":
		res.Message = "the agent refuses " + clip(l.Text, maxName) + ": " + why
	}
	res.Message = clip(res.Message, maxError)
	r.state.End = res
}

// codeAuthentication is the code of agents that want an account or a key.
const codeAuthentication = -32000

// rpcError is an error of JSON-RPC with what agents add.
type rpcError struct {
	Code    float64 `json:"code"`
	Message string  `json:"message"`
	Data    struct {
		Status  float64 `json:"http_status"`
		Message string  `json:"message"`
		Details string  `json:"details"`
	} `json:"data"`
}

// reason returns the text that says most.
func (e *rpcError) reason() string {
	message := strings.TrimPrefix(e.Message, "Internal error: ")
	if detail := cmp.Or(e.Data.Message, e.Data.Details); detail != "" && !strings.Contains(message, detail) {
		if message == "Internal error" || message == "" {
			return strings.TrimSpace(detail)
		}
		message += ": " + strings.TrimSpace(detail)
	}
	return cmp.Or(message, "the agent gave no reason")
}

// status returns the HTTP status of the model's service, if the error has one.
func (e *rpcError) status() int {
	for _, n := range []float64{e.Data.Status, e.Code} {
		if n >= 400 && n <= 599 {
			return int(n)
		}
	}
	return 0
}

var statusInText = regexp.MustCompile(`\b(40[0123]|413|429|5\d\d)\b`)

// failureCode returns the code for a failed call of the model, by its HTTP status and by what the service says.
func failureCode(status int, why string) api.Code {
	if m := statusInText.FindString(why); status == 0 && m != "" {
		status, _ = strconv.Atoi(m)
	}
	low := strings.ToLower(why)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(low, w) {
				return true
			}
		}
		return false
	}
	switch {
	case status == 413, has("prompt is too long", "context length", "context window", "maximum context"):
		return api.CodePromptTooLong
	case status == 402, has("credit balance", "insufficient_quota", "exceeded your current quota"):
		return api.CodeModelNoCredit
	case status == 401, has("invalid api key", "invalid x-api-key", "invalid_api_key", "incorrect api key", "api key not valid", "authentication_error", "unauthorized"):
		return api.CodeModelKeyRefused
	case status == 403:
		return api.CodeModelDenied
	case status == 429, has("rate limit"):
		return api.CodeModelRateLimited
	case status >= 500, has("overloaded", "high demand", "stream disconnected", "terminated", "decoding response"):
		return api.CodeModelUnavailable
	}
	return api.CodeAgentFailed
}
