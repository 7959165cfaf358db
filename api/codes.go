package api

import "net/http"

// Code is a stable name for one kind of problem, in snake_case. Programs should decide by the code; the detail beside
// it is for people.
type Code string

// The problem codes. A released code keeps its meaning.
const (
	CodeInternal          Code = "internal"
	CodeInvalidRequest    Code = "invalid_request"
	CodeInvalidID         Code = "invalid_id"
	CodeInvalidName       Code = "invalid_name"
	CodeInvalidCursor     Code = "invalid_cursor"
	CodeInvalidPath       Code = "invalid_path"
	CodePathOutside       Code = "path_outside_workspace"
	CodeUnauthenticated   Code = "unauthenticated"
	CodeKeyRevoked        Code = "key_revoked"
	CodeKeyExpired        Code = "key_expired"
	CodeURLExpired        Code = "url_expired"
	CodeURLRevoked        Code = "url_revoked"
	CodeForbidden         Code = "forbidden"
	CodeForeignOrigin     Code = "foreign_origin"
	CodeNotFound          Code = "not_found"
	CodeNoRoute           Code = "no_such_route"
	CodeMethodNotAllowed  Code = "method_not_allowed"
	CodeNotAcceptable     Code = "not_acceptable"
	CodeConflict          Code = "conflict"
	CodeSpecMismatch      Code = "spec_mismatch"
	CodeNameTaken         Code = "name_taken"
	CodeIllegalTransition Code = "illegal_transition"
	CodeStale             Code = "stale_write"
	CodeDeleted           Code = "deleted"
	CodeDeleting          Code = "deleting"
	CodeBodyTooLarge      Code = "body_too_large"
	CodeBodyTimeout       Code = "body_timeout"
	CodeUnsupportedMedia  Code = "unsupported_media_type"
	CodeWrongHostHeader   Code = "wrong_host_header"
	CodeKeyReused         Code = "idempotency_key_reused"
	CodeKeyInFlight       Code = "idempotency_in_flight"
	CodeInvalidKey        Code = "invalid_idempotency_key"
	CodeNotReplayable     Code = "not_replayable"
	CodeUnknownTemplate   Code = "unknown_template"
	CodeUnknownDriver     Code = "unknown_driver"
	CodeUnknownProfile    Code = "unknown_profile"
	CodeUnknownAgent      Code = "unknown_agent"
	CodeUnknownTool       Code = "unknown_tool"
	CodeHeadersTooLarge   Code = "headers_too_large"
	CodeRateLimited       Code = "rate_limited"
	CodeQuotaExceeded     Code = "quota_exceeded"
	CodeUnsupported       Code = "unsupported"
	CodeCreateFailed      Code = "sandbox_create_failed"
	CodeDriverUnreachable Code = "driver_unreachable"
	CodeDriverRefused     Code = "driver_refused"
	CodeBusy              Code = "sandbox_busy"
	CodeBadManifest       Code = "bad_manifest"
	CodeWorkspaceTooLarge Code = "workspace_too_large"
	CodeMassDelete        Code = "sync_mass_delete"
	CodeSyncFailed        Code = "sync_failed"
	CodeSyncConflict      Code = "sync_conflict"
	CodeUnknownVersion    Code = "unknown_version"
	CodeUnhealthy         Code = "unhealthy"
	CodeNotRunning        Code = "sandbox_not_running"
	CodeWrongHost         Code = "wrong_host"
	CodeNoSuchExec        Code = "no_such_exec"
	CodeExecExists        Code = "exec_exists"
	CodeOutputTrimmed     Code = "output_trimmed"
	CodePortUnreachable   Code = "port_unreachable"
	CodeFileNotFound      Code = "file_not_found"
	CodeFileExists        Code = "file_exists"
	CodeFileDenied        Code = "file_access_denied"
	CodeIsADirectory      Code = "is_a_directory"
	CodeNotADirectory     Code = "not_a_directory"
	CodeNotEmpty          Code = "directory_not_empty"
	CodeSpecialFile       Code = "special_file"
	CodeInvalidArchive    Code = "invalid_archive"
	CodeDiskFull          Code = "disk_full"
	CodeTooLarge          Code = "too_large"
	CodePrecondition      Code = "precondition_failed"
	CodeInvalidRange      Code = "range_not_satisfiable"
	CodeStoreUnavailable  Code = "store_unavailable"
	CodeMessageStore      Code = "message_store_unavailable"
	CodeBlobUnreachable   Code = "object_store_unreachable"
	CodeSlackUnavailable  Code = "slack_unavailable"
	CodeBlobCredentials   Code = "object_store_credentials"
	CodeBlobDenied        Code = "object_store_denied"
	CodeBlobNoBucket      Code = "object_store_no_bucket"
	CodeBlobRegion        Code = "object_store_wrong_region"
	CodeBlobClock         Code = "object_store_clock_skew"
	CodeBlobFull          Code = "object_store_full"
	CodeBlobDamaged       Code = "object_store_damaged"
	CodeBlobRefused       Code = "object_store_refused"
	CodeHookFailed        Code = "hook_failed"
	CodeTurnRunning       Code = "turn_running"
	CodeTurnFinished      Code = "turn_finished"
	CodeQueueFull         Code = "queue_full"
	CodeSandboxMismatch   Code = "sandbox_mismatch"
	CodeUnknownRuntime    Code = "unknown_runtime"
	CodeAgentNotInstalled Code = "agent_not_installed"
	CodeSandboxOutdated   Code = "sandbox_outdated"
	CodeAgentFailed       Code = "agent_failed"
	CodeModelKeyMissing   Code = "model_key_missing"
	CodeModelKeyRefused   Code = "model_key_refused"
	CodeModelDenied       Code = "model_access_denied"
	CodeModelNoCredit     Code = "model_no_credit"
	CodeModelRateLimited  Code = "model_rate_limited"
	CodeModelUnavailable  Code = "model_unavailable"
	CodeModelRefusal      Code = "model_refusal"
	CodeModelNotAllowed   Code = "model_not_allowed"
	CodeManyAttachments   Code = "too_many_attachments"
	CodeLargeAttachment   Code = "attachment_too_large"
	CodeAttachmentFetch   Code = "attachment_unreachable"
	CodeRuntimeDisabled   Code = "runtime_disabled"
	CodePromptTooLong     Code = "prompt_too_long"
	CodeAnswerTooLong     Code = "answer_too_long"
	CodeTurnTimeout       Code = "turn_timeout"
	CodeTurnInterrupted   Code = "turn_interrupted"
	CodeOutputLimit       Code = "output_limit"
	CodeShuttingDown      Code = "shutting_down"
	CodeServerDiskFull    Code = "server_disk_full"
	CodeTooManyConns      Code = "too_many_connections"
	CodeTimeout           Code = "timeout"
	CodeDatabaseDamaged   Code = "database_damaged"
	CodeSchemaTooNew      Code = "schema_too_new"
	CodeSecretMismatch    Code = "secret_mismatch"
	CodeSecretLost        Code = "secret_lost"
	CodeSecretUnreadable  Code = "secret_unreadable"
	CodeDataDirLocked     Code = "data_dir_locked"
	CodeInvalidConfig     Code = "invalid_config"
	CodeServerUnreachable Code = "server_unreachable"
)

// CodeInfo describes one problem code.
type CodeInfo struct {
	Code      Code
	Status    int    // HTTP status; 0 for codes that only the command line uses
	Retryable bool   // the same request may succeed later, unchanged
	Title     string // a short text, the same for every occurrence
	Hint      string // the default next step, for errors without their own hint
}

// Codes is the table of all problem codes.
var Codes = []CodeInfo{
	{CodeInternal, http.StatusInternalServerError, false, "Something broke inside Berth", "Report the request id; the server's log has the cause under it."},
	{CodeInvalidRequest, http.StatusBadRequest, false, "The request is not valid", "Compare the request with /docs; the errors list names each field."},
	{CodeInvalidID, http.StatusBadRequest, false, "The id is not valid", "Ids are UUIDs; names are 1 to 63 of a-z, 0-9 and '-', starting with a letter or digit."},
	{CodeInvalidName, http.StatusBadRequest, false, "The name is not valid", "Names are 1 to 63 of a-z, 0-9 and '-', start with a letter or digit, and do not look like a UUID."},
	{CodeInvalidCursor, http.StatusBadRequest, false, "The cursor is not valid", "Use next_cursor of the previous page as it was given, or leave cursor out to begin again."},
	{CodeInvalidPath, http.StatusBadRequest, false, "The path is not valid", "Send a plain, percent-encoded path without '..', empty segments or NUL."},
	{CodePathOutside, http.StatusBadRequest, false, "The path leaves the workspace", "Use a path relative to the workspace root, without '..'."},
	{CodeUnauthenticated, http.StatusUnauthorized, false, "No valid API key", "Send 'Authorization: Bearer KEY'. 'berth keys create' makes a key."},
	{CodeKeyRevoked, http.StatusUnauthorized, false, "The API key was revoked while the request ran", "Use another key. What was started in a sandbox runs on and can be attached to."},
	{CodeKeyExpired, http.StatusUnauthorized, false, "The API key expired while the request ran", "Use another key; 'berth keys create' makes one."},
	{CodeURLExpired, http.StatusUnauthorized, false, "The signed URL expired", "Make a new one with 'berth open SANDBOX PORT'."},
	{CodeURLRevoked, http.StatusUnauthorized, false, "The signed URL was revoked", "Make a new one with 'berth open SANDBOX PORT'."},
	{CodeForbidden, http.StatusForbidden, false, "This key may not do that", "Use a key with the scope that the detail names."},
	{CodeForeignOrigin, http.StatusForbidden, false, "Request from another web origin", "Call the API from the server's own pages or without a browser."},
	{CodeNotFound, http.StatusNotFound, false, "Not found", "Check the id or name; lists show what this key may see."},
	{CodeNoRoute, http.StatusNotFound, false, "No such route", "/docs lists every route."},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, false, "Method not allowed here", "The Allow header lists the methods of this route."},
	{CodeNotAcceptable, http.StatusNotAcceptable, false, "No such representation", "Accept application/json."},
	{CodeConflict, http.StatusConflict, false, "The request conflicts with the current state", "Read the resource again, then decide."},
	{CodeSpecMismatch, http.StatusConflict, false, "It exists with another specification", "Leave out the fields that differ, or use another name."},
	{CodeNameTaken, http.StatusConflict, false, "The name is taken", "Use another name, or leave the id out to get the one that has it."},
	{CodeIllegalTransition, http.StatusConflict, false, "Not possible in this state", "Read the state and its history; request a transition that the state allows."},
	{CodeStale, http.StatusConflict, true, "Another request was faster", "Try again."},
	{CodeDeleted, http.StatusGone, false, "Deleted for good", "Ids are never reused: create a new one."},
	{CodeDeleting, http.StatusConflict, true, "The sandbox before it is still being deleted", "Try again after Retry-After: the owner and its name are free once nothing of the old sandbox is left. 'berth explain' says what its delete waits for."},
	{CodeBodyTooLarge, http.StatusRequestEntityTooLarge, false, "The body is too large", "Send less, or raise max_body_bytes."},
	{CodeBodyTimeout, http.StatusRequestTimeout, true, "The body came too slowly", "Send it again over a better connection."},
	{CodeUnsupportedMedia, http.StatusUnsupportedMediaType, false, "Unsupported content type", "Send application/json."},
	{CodeWrongHostHeader, http.StatusMisdirectedRequest, false, "Unknown Host header", "Add the host to --allowed-hosts (BERTH_ALLOWED_HOSTS)."},
	{CodeKeyReused, http.StatusUnprocessableEntity, false, "Idempotency-Key used with another request", "Use a new key for a new request."},
	{CodeKeyInFlight, http.StatusConflict, true, "The first request with this Idempotency-Key is still running", "Send the same request again after Retry-After."},
	{CodeInvalidKey, http.StatusBadRequest, false, "The Idempotency-Key is not valid", "Use 1 to 255 printable ASCII characters, a random UUID for example."},
	{CodeNotReplayable, http.StatusConflict, false, "Done before, and its answer cannot be given again", "Look at what the first request made; for another one use a new Idempotency-Key."},
	{CodeUnknownTemplate, http.StatusUnprocessableEntity, false, "Unknown template", "Use one of the templates that the detail lists."},
	{CodeUnknownDriver, http.StatusUnprocessableEntity, false, "Unknown driver", "Use one of the drivers that the detail lists."},
	{CodeUnknownProfile, http.StatusUnprocessableEntity, false, "Unknown profile", "Use lite, standard or full."},
	{CodeUnknownAgent, http.StatusNotFound, false, "Unknown agent", "GET /api/v1/agents lists the agents of this tenant."},
	{CodeUnknownTool, http.StatusNotFound, false, "Unknown tool", "Use one of the tools that the detail lists."},
	{CodeHeadersTooLarge, http.StatusRequestHeaderFieldsTooLarge, false, "The headers are too large", "Send fewer or shorter headers."},
	{CodeRateLimited, http.StatusTooManyRequests, true, "Too many requests", "Wait for Retry-After seconds."},
	{CodeQuotaExceeded, http.StatusTooManyRequests, false, "The tenant's quota is used up", "Delete unneeded resources, or raise the quota."},
	{CodeUnsupported, http.StatusNotImplemented, false, "Not supported", "Choose a driver or template that can do it."},
	{CodeCreateFailed, http.StatusBadGateway, false, "The driver could not make the sandbox", "The detail has the driver's words; change what it names, then try again."},
	{CodeDriverUnreachable, http.StatusServiceUnavailable, true, "The driver does not answer", "What was asked for is recorded, and Berth tries again by itself; the same call with the same name, id or Idempotency-Key joins in."},
	{CodeDriverRefused, http.StatusBadGateway, false, "The driver refused", "The detail has the driver's words; check its credentials and quota."},
	{CodeBusy, http.StatusServiceUnavailable, true, "The sandbox is being worked on", "Try the same call again; it joins the work under way."},
	{CodeBadManifest, http.StatusBadGateway, false, "A stored version cannot be read", "Restore another version; 'berth verify' says which are whole. Nothing was deleted."},
	{CodeWorkspaceTooLarge, http.StatusRequestEntityTooLarge, false, "The workspace is too large to be saved", "Remove unneeded files, or exclude them with a .berthignore file."},
	{CodeMassDelete, http.StatusConflict, false, "That would delete most of the workspace", "Compare the versions first (berth versions, berth diff). To accept the deletions, run 'berth sync --allow-mass-delete SANDBOX', or send allow_mass_delete with the sync or start; to undo them, restore an older version."},
	{CodeSyncFailed, http.StatusBadGateway, true, "The workspace could not be saved or brought back", "The detail says how far it came; trying again goes on from there."},
	{CodeSyncConflict, http.StatusConflict, true, "Another writer changed the stored workspace", "Try again: both changes are merged, and a file changed on both sides is kept twice."},
	{CodeUnknownVersion, http.StatusNotFound, false, "No such version", "List the versions to see which there are."},
	{CodeUnhealthy, http.StatusBadGateway, false, "The sandbox does not stay healthy", "Its next use tries again; 'berth explain' says what happened to it."},
	{CodeNotRunning, http.StatusConflict, false, "The sandbox does not run", "Start it, or use it: the next command does."},
	{CodeWrongHost, http.StatusMisdirectedRequest, false, "The sandbox is on another machine", "Send the request to the Berth on the machine that the detail names."},
	{CodeNoSuchExec, http.StatusNotFound, false, "No such command", "GET …/exec lists what was started in the sandbox."},
	{CodeExecExists, http.StatusConflict, false, "A command with this id was started before", "Attach to it with GET, or use another exec_id."},
	{CodeOutputTrimmed, http.StatusGone, false, "That part of the output is gone", "Attach again with after=0 to read the oldest stored output."},
	{CodePortUnreachable, http.StatusBadGateway, true, "Nothing listens on that port of the sandbox", "Start the server in the sandbox, on 127.0.0.1 or 0.0.0.0 and this port, then try again."},
	{CodeFileNotFound, http.StatusNotFound, false, "No such file", "List the folder to see its files."},
	{CodeFileExists, http.StatusConflict, false, "There is something already", "Choose another path, or ask for it to be replaced."},
	{CodeFileDenied, http.StatusForbidden, false, "The sandbox's user may not do that", "Change the file's permissions from inside the sandbox."},
	{CodeIsADirectory, http.StatusConflict, false, "It is a folder", "List it, or download it as an archive; to remove it with everything in it, ask with recursive=true."},
	{CodeNotADirectory, http.StatusConflict, false, "It is not a folder", "Name a folder, or remove the file in its place."},
	{CodeNotEmpty, http.StatusConflict, false, "The folder is not empty", "Ask with recursive=true to remove everything in it."},
	{CodeSpecialFile, http.StatusConflict, false, "Not a plain file", "Pipes, sockets, devices and other users' files with further hard links are not opened; copy it inside the sandbox first."},
	{CodeInvalidArchive, http.StatusBadRequest, false, "The archive is refused", "Send a plain tar, uncompressed, of files, folders and links below one folder."},
	{CodeDiskFull, http.StatusInsufficientStorage, false, "No space is left in the sandbox", "Remove unneeded files, or use a larger profile."},
	{CodeTooLarge, http.StatusRequestEntityTooLarge, false, "More than one archive may hold", "Take a smaller folder, or several."},
	{CodePrecondition, http.StatusPreconditionFailed, false, "The file is not as the request expects", "Read it again and decide anew."},
	{CodeInvalidRange, http.StatusRequestedRangeNotSatisfiable, false, "The range is not in the file", "Ask for bytes below the size that Content-Range tells."},
	{CodeStoreUnavailable, http.StatusServiceUnavailable, true, "The database does not answer", "Try again; run 'berth doctor' on the server to find the cause."},
	{CodeMessageStore, http.StatusServiceUnavailable, true, "The message store does not answer", "Messages are kept and delivered when it answers again. If it stays so, check that DynamoDB is reachable and that message_store names it."},
	{CodeSlackUnavailable, http.StatusBadGateway, true, "Slack does not answer", "Try again. If it stays so, check that the server can reach Slack (slack_api_url)."},
	{CodeBlobUnreachable, http.StatusServiceUnavailable, true, "The object store does not answer", "Nothing is lost, and trying again goes on where it stopped; if it stays so, check that the store runs and that object_store names its address."},
	{CodeBlobCredentials, http.StatusBadGateway, false, "The object store does not accept the credentials", "Give the server a valid AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones), then try again."},
	{CodeBlobDenied, http.StatusBadGateway, false, "The object store does not allow it", "Allow the server's credentials to get, put, list and delete objects below the prefix."},
	{CodeBlobNoBucket, http.StatusBadGateway, false, "The object store has no such bucket", "Make the bucket, or correct its name in object_store."},
	{CodeBlobRegion, http.StatusBadGateway, false, "The bucket is in another region", "Put the bucket's region into object_store (region=…) or AWS_REGION."},
	{CodeBlobClock, http.StatusBadGateway, false, "The server's clock is wrong", "Set the clock of the machine that Berth runs on, with NTP for example; the object store refuses requests that are minutes off."},
	{CodeBlobFull, http.StatusInsufficientStorage, false, "The object store is full", "Make room: prune old versions, raise the store's quota, or use a larger disk."},
	{CodeBlobDamaged, http.StatusBadGateway, false, "The object store is not as Berth left it", "Another program changed the objects that the detail names; restore or remove them."},
	{CodeBlobRefused, http.StatusBadGateway, false, "The object store refused", "The detail has the store's words; change what they name, then try again."},
	{CodeHookFailed, http.StatusFailedDependency, false, "A cold start hook refused the start", "The detail has the hook's words. Correct what they name, or the hook in the template, then use the sandbox again."},
	{CodeTurnRunning, http.StatusConflict, true, "A turn is running", "Wait for it, cancel it, send the prompt with ?queue=true, or, for what would end it, ask with ?force=true."},
	{CodeTurnFinished, http.StatusConflict, false, "The turn has ended", "Its events and messages tell how."},
	{CodeQueueFull, http.StatusTooManyRequests, true, "Too many prompts wait already", "Wait until some of them have been answered."},
	{CodeSandboxMismatch, http.StatusConflict, false, "The conversation works in another sandbox", "Leave the sandbox out, name the one that the detail names, or begin another conversation."},
	{CodeUnknownRuntime, http.StatusUnprocessableEntity, false, "The template's agent is not known here", "Use a template whose runtime is one of those that the detail lists."},
	{CodeAgentNotInstalled, http.StatusFailedDependency, false, "The agent is not installed", "Install it with 'berth template install', as the detail says."},
	{CodeSandboxOutdated, http.StatusConflict, false, "The sandbox is older than the server", "Stop it and start it again; its files stay."},
	{CodeAgentFailed, http.StatusBadGateway, false, "The agent failed", "The detail has the agent's own words; what it had done by then is kept."},
	{CodeModelKeyMissing, http.StatusFailedDependency, false, "The agent has no key for its model's service", "Set the key that the detail names with 'berth secret set NAME', once for all of the tenant, or give it to one conversation: berth chat -t TEMPLATE --env NAME."},
	{CodeModelKeyRefused, http.StatusBadGateway, false, "The model's service refused the key", "Set a valid key with 'berth secret set NAME', such as ANTHROPIC_API_KEY for Claude Code: the next turn has it. A conversation or sandbox that was made with --env NAME keeps that one; begin another."},
	{CodeModelDenied, http.StatusBadGateway, false, "The model's service denied access", "The key is known, but may not use this model or feature; choose another model, or change what the key may do at the service."},
	{CodeModelNoCredit, http.StatusBadGateway, false, "The account at the model's service has no credit", "Add credit to the account that the key belongs to, then ask again."},
	{CodeModelRateLimited, http.StatusBadGateway, true, "The model's service limits the rate", "Ask again later, run fewer turns at once, or raise the account's limit at the service."},
	{CodeModelUnavailable, http.StatusBadGateway, true, "The model's service does not answer", "Ask again later; if it lasts, check the service's address and whether the template's egress allows it."},
	{CodeModelRefusal, http.StatusBadGateway, false, "The model refused to answer", "Word the prompt differently, begin another conversation, or choose another model."},
	{CodeModelNotAllowed, http.StatusUnprocessableEntity, false, "The template does not allow the model", "Ask for one of the models that the detail lists, or for none."},
	{CodeManyAttachments, http.StatusUnprocessableEntity, false, "The prompt has too many attachments", "Send fewer, or one archive of them; 'berth cp' brings any number of files into the sandbox."},
	{CodeLargeAttachment, http.StatusRequestEntityTooLarge, false, "The attachments are too large", "Send less with the prompt: 'berth cp' brings files of any size into the sandbox, and the prompt can name them."},
	{CodeAttachmentFetch, http.StatusUnprocessableEntity, false, "An attachment could not be fetched", "Check that its URL can be read without signing in from the internet, or send its content as data."},
	{CodeRuntimeDisabled, http.StatusServiceUnavailable, false, "The server has no threads", "Set sandbox_runtime_enabled to true and restart the server; conversations and sandboxes work without it."},
	{CodePromptTooLong, http.StatusBadGateway, false, "The prompt is too long for the model", "Begin another conversation, or shorten the prompt and what it attaches."},
	{CodeAnswerTooLong, http.StatusBadGateway, false, "The answer reached the model's limit", "Ask for less at once; what came before is kept."},
	{CodeTurnTimeout, http.StatusGatewayTimeout, false, "The turn took too long", "Ask for less at once, or raise turn_timeout; what it had done by then is kept."},
	{CodeTurnInterrupted, http.StatusBadGateway, false, "The turn was interrupted", "Its sandbox or its agent went away in the middle, and tools may have run: look at the workspace, then ask again."},
	{CodeOutputLimit, http.StatusInsufficientStorage, false, "The agent wrote more than one turn may", "What came before is kept; ask for less at once."},
	{CodeShuttingDown, http.StatusServiceUnavailable, true, "The server is shutting down", "Try again in a moment."},
	{CodeServerDiskFull, http.StatusInsufficientStorage, true, "The server's disk is full", "Delete sandboxes that are not needed ('berth rm', with --no-save if their files are not needed either), or make room in the server's data directory; then try again."},
	{CodeTooManyConns, http.StatusServiceUnavailable, true, "The server has too many connections", "Try again after Retry-After. If it lasts, raise the server's limit of open files (ulimit -n, or LimitNOFILE in systemd), close connections that are not used, or add a server."},
	{CodeTimeout, http.StatusGatewayTimeout, true, "It took too long", "Try the same call again; it joins the work under way."},
	{CodeDatabaseDamaged, http.StatusServiceUnavailable, false, "The database file is damaged", "Restore a backup of berth.db; 'berth doctor' on the server checks the file."},
	{CodeSchemaTooNew, 0, false, "The database was written by a newer Berth", "Run a Berth at least as new, or restore the database from before the upgrade."},
	{CodeSecretMismatch, http.StatusServiceUnavailable, true, "The server's secret is not the database's", "Give every server the same secret_key (BERTH_SECRET_KEY), and the one before it in secret_key_previous."},
	{CodeSecretLost, 0, false, "The root secret is missing", "Restore secret.key from a backup of the data directory, or set secret_key (BERTH_SECRET_KEY) to its content."},
	{CodeSecretUnreadable, http.StatusInternalServerError, false, "An encrypted value cannot be read", "Give the server the secret that the detail names in secret_key_previous. What cannot be read can still be deleted."},
	{CodeDataDirLocked, 0, false, "Another Berth uses this data directory", "Stop it, or give this one its own --data-dir; several servers need PostgreSQL."},
	{CodeInvalidConfig, 0, false, "The configuration is not valid", "'berth config' shows every value and where it comes from."},
	{CodeServerUnreachable, 0, true, "No Berth server answers", "Start one with 'berth serve', or name another with --server."},
}

var byCode = func() map[Code]CodeInfo {
	m := make(map[Code]CodeInfo, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c
	}
	return m
}()

// Info returns the code's row of Codes, or the row of CodeInternal if Codes does not list the code.
func (c Code) Info() CodeInfo {
	if info, ok := byCode[c]; ok {
		return info
	}
	return byCode[CodeInternal]
}
