package telemetry

// Names of log events that alerts can be based on. The message of such a record is exactly one of these names; all
// details are in its fields.
const (
	EventResolveStart          = "sandbox.resolve.start"
	EventResolveReuse          = "sandbox.resolve.reuse"
	EventResolveRecreate       = "sandbox.resolve.recreate"
	EventHealthRetry           = "sandbox.health.retry"
	EventSessionReplaced       = "sandbox.session.replaced"
	EventPromptOK              = "sandbox.prompt.ok"
	EventPromptRecoverableFail = "sandbox.prompt.recoverable_fail"
	EventPromptFatalFail       = "sandbox.prompt.fatal_fail"
)

// Names of the fields that a context adds to every log record.
const (
	FieldRequestID = "request_id"
	FieldTenant    = "tenant"
	FieldOwnerKind = "owner_kind"
	FieldOwnerID   = "owner_id"
	FieldSandboxID = "sandbox_id"
)
