package api

// EventField describes one field of one type of event.
type EventField struct {
	Name   string // the field's name in JSON
	Doc    string // the description; empty: the doc tag of the Go field
	Always bool   // true if every event of the type has the field
}

// EventInfo describes one type of event.
type EventInfo struct {
	Type   string // the value of the field "type"
	Schema string // the name of its schema in the OpenAPI document
	Doc    string
	Fields []EventField // the fields, without "type"
}

func always(name, doc string) EventField    { return EventField{Name: name, Doc: doc, Always: true} }
func sometimes(name, doc string) EventField { return EventField{Name: name, Doc: doc} }

// fromAgent lists the fields of every event that is made from a line of the agent's output.
var fromAgent = []EventField{
	sometimes("parent_id", "The tool call whose sub-agent wrote it"),
	sometimes("at", "When the event was recorded"),
	sometimes("raw", "The agent's own line of output; only with ?raw=true"),
}

func agentEvent(fields ...EventField) []EventField { return append(fields, fromAgent...) }

const truncatedText = "The text was longer than the limit and is cut"

// TurnEvents describes the events of a turn.
var TurnEvents = []EventInfo{
	{EventTurnStarted, "TurnStartedEvent", "The prompt was accepted. It is the first event of every turn.", []EventField{
		always("conversation_id", "The conversation"), always("sandbox_id", "The sandbox that the agent works in"), always("turn_id", "The turn"),
		always("message_id", "The user's message"), always("at", "When the turn was accepted"),
	}},
	{EventStatus, "StatusEvent", "The state of the turn changed. Ignore a status that you do not know.", agentEvent(
		always("status", "One of queued, session_started, session_replaced, history_unavailable, workspace_restored, waiting, retrying, output_lost, untested_version"),
		sometimes("message", "The reason, for people"), sometimes("code", "The code of the error that caused it"),
		sometimes("session_id", "The agent's session, with session_started"), sometimes("model", "The agent's model, with session_started"),
	)},
	{EventTextDelta, "TextDeltaEvent", "A part of the answer's text. A text event with the whole block follows.", agentEvent(
		always("text", "The next part of the block's text"), sometimes("truncated", truncatedText))},
	{EventText, "TextEvent", "One block of the answer's text, whole. It replaces the deltas before it.", agentEvent(
		always("text", "The block's text"), sometimes("truncated", truncatedText))},
	{EventThinkingDelta, "ThinkingDeltaEvent", "A part of the agent's thinking. A thinking event with the whole block follows.", agentEvent(
		always("text", "The next part of the block's text"), sometimes("truncated", truncatedText))},
	{EventThinking, "ThinkingEvent", "One block of the agent's thinking, whole. It replaces the deltas before it.", agentEvent(
		always("text", "The block's text"), sometimes("truncated", truncatedText))},
	{EventToolCall, "ToolCallEvent", "The agent calls a tool.", agentEvent(
		always("id", "The call's id"), always("name", "The tool's name"),
		sometimes("input", "The call's arguments, as JSON"), sometimes("truncated", "The input was larger than the limit and is left out"))},
	{EventToolResult, "ToolResultEvent", "A tool call ended.", agentEvent(
		always("id", "The id of the call"), sometimes("text", "The tool's output; left out if it is empty"),
		sometimes("is_error", "The tool failed"), sometimes("truncated", truncatedText))},
	{EventUsage, "UsageEvent", "The tokens that the turn has used so far.", agentEvent(
		always("usage", "The turn's tokens so far"), sometimes("model", "The model that used them"),
		sometimes("cost_usd", "The turn's cost so far, in US dollars"))},
	{EventTurnError, "TurnErrorEvent", "The turn failed, and turn.finished follows. Without an id it is about the stream: the stream ends, the turn goes on.", []EventField{
		sometimes("code", "The code of the error"), sometimes("message", "The error, for people")}},
	{EventResync, "ResyncEvent", "The turn's events are no longer stored. It is the only event of the stream. Read the conversation's messages instead.", []EventField{
		always("conversation_id", "The conversation"), always("turn_id", "The turn"), always("message", "The reason, for people")}},
	{EventTurnFinished, "TurnFinishedEvent", "The turn has ended. It is the last event of every turn.", []EventField{
		always("status", "One of completed, failed, cancelled, interrupted"),
		always("conversation_id", "The conversation"), always("sandbox_id", "The sandbox that the agent worked in"), always("turn_id", "The turn"),
		sometimes("message_id", "The assistant's message"), sometimes("code", "The code of the error, if the turn failed"),
		sometimes("message", "The error or the reason, for people"), sometimes("stop_reason", ""), sometimes("model", "The model that answered"), sometimes("session_id", "The agent's session"),
		always("usage", "The tokens that the turn used"), sometimes("cost_usd", "The turn's cost in US dollars"),
		sometimes("artifacts", "The files below output/display/ that changed during the turn"),
		always("stats", "The totals of the conversation, this turn included"), sometimes("version", "The version of the workspace that was saved after the turn"),
		sometimes("version_pending", "The workspace is not saved yet; GET …/turns/{turn_id} has the version later"),
		sometimes("warnings", "Failures that did not fail the turn"), always("at", "When the turn ended"),
	}},
}

// ExecEvents describes the events of a command's stream.
var ExecEvents = []EventInfo{
	{EventStarted, "ExecStartedEvent", "The stream is attached to the command. It is the first event of every stream.", []EventField{
		always("exec_id", "The command's id"), sometimes("notice", "Changes of the sandbox's files since its last use: the version that was restored, and lost changes"),
		sometimes("next", "The offset of the first byte of output that follows; left out if it is 0")}},
	{EventStdout, "ExecStdoutEvent", "The command wrote to its standard output or its terminal.", []EventField{
		sometimes("text", "The output, if it is valid UTF-8"), sometimes("base64", "The output in base64, if it is not valid UTF-8"),
		always("next", "The offset after this output; send it as after to continue from here")}},
	{EventStderr, "ExecStderrEvent", "The command wrote to its standard error.", []EventField{
		sometimes("text", "The output, if it is valid UTF-8"), sometimes("base64", "The output in base64, if it is not valid UTF-8"),
		always("next", "The offset after this output; send it as after to continue from here")}},
	{EventDropped, "ExecDroppedEvent", "Some output is lost, because the reader read nothing for 30 seconds. The stream continues with the oldest stored output.", []EventField{
		always("dropped_bytes", "How many bytes before next are lost"), sometimes("next", "The offset of the output that follows")}},
	{EventExit, "ExecExitEvent", "The command has ended. It is the last event.", []EventField{
		always("exit_code", ""), sometimes("signal", ""), sometimes("reason", ""), sometimes("lost", ""), always("duration_ms", ""),
		sometimes("next", "The offset after the last output; left out if it is 0"), sometimes("dropped_bytes", "How many bytes this stream lost in total")}},
	{EventError, "ExecErrorEvent", "The stream ends without the command's exit. Attach again with the offset of the last event.", []EventField{
		always("error", "The problem that ended the stream")}},
}
