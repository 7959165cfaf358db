package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/seal"
)

// LeaseSlack is the kind of lease that protects the answers to the messages of one thread.
const LeaseSlack = "slack"

// SlackTokens are the secrets of an app in a Slack workspace.
type SlackTokens struct {
	Bot     string `json:"bot"`
	App     string `json:"app,omitempty"`     // for Socket Mode
	Signing string `json:"signing,omitempty"` // for the Events API
}

// SlackWorkspace is a Slack workspace in which the app is installed.
type SlackWorkspace struct {
	Team      string
	Tenant    TenantID
	Name, URL string
	BotUser   string
	Bot       string
	Template  string // of new threads; empty: the server's default
	Accounts  bool   // people without an account get one
	Key       string // the id of the key with which the signed URLs end that people open; empty: there are none
	Tokens    SlackTokens
	Failure   string // why Slack refuses the app; empty: it does not
	Problem   error  // set if the tokens cannot be decrypted
	CreatedAt time.Time
	UpdatedAt time.Time
}

// States of a reply.
const (
	SlackWaiting = "waiting"
	SlackRunning = "running"
	SlackDone    = "done"
)

// SlackReply is a message in Slack that gets an answer.
type SlackReply struct {
	ID        string // also that of the turn
	Tenant    TenantID
	Team      string
	Channel   string
	MessageTS string
	ThreadTS  string // the thread in Slack that the answer goes to
	Thread    string // the id of the lease
	Kind      string
	Request   json.RawMessage
	State     string
	Cancelled bool
	Progress  json.RawMessage
	CreatedAt time.Time
}

// SlackTables holds the Slack workspaces and their messages.
type SlackTables struct{ db *DB }

// Slack returns the Slack workspaces and their messages.
func (db *DB) Slack() SlackTables { return SlackTables{db} }

func slackTokens(tenant TenantID, team string) seal.Cell {
	return seal.Cell{Tenant: string(tenant), Table: "slack_workspaces", Row: team, Column: "tokens"}
}

const slackWorkspaceColumns = "team, tenant, name, url, bot_user, bot, template, create_accounts, key_id, tokens, failure, created_at, updated_at"

func (t SlackTables) scanWorkspace(row scanner) (w SlackWorkspace, err error) {
	var tokens string
	err = row.Scan(&w.Team, &w.Tenant, &w.Name, &w.URL, &w.BotUser, &w.Bot, &w.Template, &w.Accounts, &w.Key, &tokens, &w.Failure, instant{&w.CreatedAt}, instant{&w.UpdatedAt})
	if err == nil {
		w.Problem = t.db.secrets.openJSON(slackTokens(w.Tenant, w.Team), tokens, &w.Tokens)
	}
	return w, err
}

// Connect adds a workspace, or replaces the record of a known one. A workspace belongs to one tenant: CodeConflict.
func (t SlackTables) Connect(ctx context.Context, w SlackWorkspace) (SlackWorkspace, error) {
	const op = "connect workspace"
	text, err := json.Marshal(w.Tokens)
	if err != nil {
		return w, err
	}
	tokens, sealed, err := t.db.secrets.seal(slackTokens(w.Tenant, w.Team), string(text))
	if err != nil {
		return w, err
	}
	out, err := first(ctx, t.db.write, t.scanWorkspace, `
		insert into slack_workspaces (team, tenant, name, url, bot_user, bot, template, create_accounts, tokens, sealed, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, {now}, {now})
		on conflict (team) do update set name = excluded.name, url = excluded.url, bot_user = excluded.bot_user, bot = excluded.bot,
			template = excluded.template, create_accounts = excluded.create_accounts, tokens = excluded.tokens, sealed = excluded.sealed, failure = '', updated_at = {now}
			where slack_workspaces.tenant = excluded.tenant
		returning `+slackWorkspaceColumns, w.Team, w.Tenant, w.Name, w.URL, w.BotUser, w.Bot, w.Template, w.Accounts, tokens, sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return w, fault.Errorf(op, api.CodeConflict, "the Slack workspace %s belongs to another tenant", w.Team)
	}
	return out, t.db.fail(op, err)
}

// Workspace returns a workspace of any tenant, or ErrNotFound.
func (t SlackTables) Workspace(ctx context.Context, team string) (SlackWorkspace, error) {
	const op = "read workspace"
	w, err := first(ctx, t.db.read, t.scanWorkspace, `select `+slackWorkspaceColumns+` from slack_workspaces where team = $1`, team)
	if errors.Is(err, sql.ErrNoRows) {
		return w, notFound(op, "Slack workspace", team)
	}
	return w, t.db.fail(op, err)
}

// Workspaces lists the workspaces of all tenants.
func (t SlackTables) Workspaces(ctx context.Context) ([]SlackWorkspace, error) {
	list, err := all(ctx, t.db.read, t.scanWorkspace, `select `+slackWorkspaceColumns+` from slack_workspaces order by team`)
	return list, t.db.fail("list workspaces", err)
}

// WorkspacesOf lists the workspaces of a tenant.
func (t SlackTables) WorkspacesOf(ctx context.Context, tenant TenantID) ([]SlackWorkspace, error) {
	list, err := all(ctx, t.db.read, t.scanWorkspace, `select `+slackWorkspaceColumns+` from slack_workspaces where tenant = $1 order by team`, tenant)
	return list, t.db.fail("list workspaces", err)
}

// URLKey returns the id of a valid key of a workspace, with which the signed URLs end that people in it open. It records
// one if there is none; its hash is random, so that no text is the key.
func (t SlackTables) URLKey(ctx context.Context, w SlackWorkspace) (id string, err error) {
	const op = "find key of workspace"
	var hash KeyHash
	_, _ = rand.Read(hash[:])
	err = t.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update slack_workspaces set updated_at = updated_at where tenant = $1 and team = $2`, w.Tenant, w.Team) // one at a time
		if err != nil || n == 0 {
			return cmp.Or(err, sql.ErrNoRows)
		}
		id, err = first(ctx, tx, scanOne[string], `select k.id from slack_workspaces w join api_keys k on k.id = w.key_id
			where w.team = $1 and k.revoked_at is null`, w.Team)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		id = NewID()
		if _, err := tx.exec(ctx, `insert into api_keys (id, tenant, account, label, prefix, hash, scopes, created_at)
			values ($1, $2, '', $3, '', $4, 'write', {now})`, id, w.Tenant, "previews in Slack workspace "+w.Team, hash[:]); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `update slack_workspaces set key_id = $2 where team = $1`, w.Team, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", notFound(op, "Slack workspace", w.Team)
	}
	return id, t.db.fail(op, err)
}

// Disconnect removes a workspace of a tenant, or returns ErrNotFound. Messages that wait are given up, and signed URLs end.
func (t SlackTables) Disconnect(ctx context.Context, tenant TenantID, team string) error {
	const op = "disconnect workspace"
	var n int64
	err := t.db.inTx(ctx, func(tx *txn) (err error) {
		if _, err = tx.exec(ctx, `update api_keys set revoked_at = {now} where revoked_at is null
			and id in (select key_id from slack_workspaces where tenant = $1 and team = $2)`, tenant, team); err != nil {
			return err
		}
		if n, err = tx.exec(ctx, `delete from slack_workspaces where tenant = $1 and team = $2`, tenant, team); err != nil || n == 0 {
			return err
		}
		_, err = tx.exec(ctx, `update slack_replies set cancelled = true, updated_at = {now} where team = $1 and state <> 'done'`, team)
		return err
	})
	if err == nil && n == 0 {
		return notFound(op, "Slack workspace", team)
	}
	return t.db.fail(op, err)
}

// SetFailure records why Slack refuses the app in a workspace; empty: it does not.
func (t SlackTables) SetFailure(ctx context.Context, team, failure string) error {
	_, err := t.db.write.exec(ctx, `update slack_workspaces set failure = $2, updated_at = {now} where team = $1 and failure <> $2`, team, failure)
	return t.db.fail("record failure of workspace", err)
}

// SlackChange is what an event changes. Its parts take effect in one transaction, together with the record of the event.
type SlackChange struct {
	Reply  *SlackReply // a message that gets an answer; a known one stays as it is
	Edit   *SlackReply // the new request of a message that waits, by team, channel and timestamp
	Delete *SlackReply // a message that gets no answer any more
	Leave  *SlackReply // all messages before a time in a channel that the app was removed from get no answer any more
	Stop   *SlackReply // all messages before this one in its thread get no answer any more
}

// Receive records an event and makes its change. It returns false if the event was received before.
func (t SlackTables) Receive(ctx context.Context, team, event string, c SlackChange) (added bool, err error) {
	err = t.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `insert into slack_events (team, event, seen_at) values ($1, $2, {now}) on conflict do nothing`, team, event)
		if err != nil || n == 0 {
			return err
		}
		added = true
		return c.apply(ctx, tx)
	})
	return added, t.db.fail("record event", err)
}

func (c SlackChange) apply(ctx context.Context, tx *txn) error {
	if r := c.Stop; r != nil {
		if _, err := tx.exec(ctx, `update slack_replies set cancelled = true, updated_at = {now}
			where thread = $1 and state <> 'done' and kind = 'prompt' and message_ts < $2`, r.Thread, r.MessageTS); err != nil {
			return err
		}
	}
	if r := c.Reply; r != nil {
		if _, err := tx.exec(ctx, `
			insert into slack_replies (id, tenant, team, channel, message_ts, thread_ts, thread, kind, request, state, cancelled, created_at, updated_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'waiting', $8 = 'prompt' and exists (
				select 1 from slack_replies o where o.thread = $7 and o.kind = 'stop' and o.message_ts > $5), {now}, {now})
			on conflict do nothing`,
			r.ID, r.Tenant, r.Team, r.Channel, r.MessageTS, r.ThreadTS, r.Thread, r.Kind, string(r.Request)); err != nil {
			return err
		}
	}
	if r := c.Edit; r != nil {
		if _, err := tx.exec(ctx, `update slack_replies set request = $4, updated_at = {now}
			where team = $1 and channel = $2 and message_ts = $3 and state = 'waiting'`, r.Team, r.Channel, r.MessageTS, string(r.Request)); err != nil {
			return err
		}
	}
	if r := c.Leave; r != nil {
		if _, err := tx.exec(ctx, `update slack_replies set cancelled = true, updated_at = {now}
			where team = $1 and channel = $2 and message_ts < $3 and state <> 'done'`, r.Team, r.Channel, r.MessageTS); err != nil {
			return err
		}
	}
	if r := c.Delete; r != nil {
		_, err := tx.exec(ctx, `update slack_replies set cancelled = true, updated_at = {now}
			where team = $1 and channel = $2 and message_ts = $3 and state <> 'done'`, r.Team, r.Channel, r.MessageTS)
		return err
	}
	return nil
}

const slackReplyColumns = "id, tenant, team, channel, message_ts, thread_ts, thread, kind, request, state, cancelled, progress, created_at"

func scanSlackReply(row scanner) (r SlackReply, err error) {
	var request, progress string
	err = row.Scan(&r.ID, &r.Tenant, &r.Team, &r.Channel, &r.MessageTS, &r.ThreadTS, &r.Thread, &r.Kind, &request, &r.State, &r.Cancelled, &progress, instant{&r.CreatedAt})
	r.Request, r.Progress = json.RawMessage(request), json.RawMessage(progress)
	return r, err
}

// HasThread reports whether a message of the thread in Slack before a timestamp was answered or is to be.
func (t SlackTables) HasThread(ctx context.Context, team, channel, thread, before string) (bool, error) {
	_, err := first(ctx, t.db.read, scanOne[string], `select id from slack_replies where team = $1 and channel = $2 and thread_ts = $3 and message_ts < $4 limit 1`,
		team, channel, thread, before)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, t.db.fail("look for thread", err)
}

// Reply returns the record of a message, or ErrNotFound.
func (t SlackTables) Reply(ctx context.Context, id string) (SlackReply, error) {
	const op = "read reply"
	r, err := first(ctx, t.db.read, scanSlackReply, `select `+slackReplyColumns+` from slack_replies where id = $1`, id)
	if errors.Is(err, sql.ErrNoRows) {
		return r, notFound(op, "reply", id)
	}
	return r, t.db.fail(op, err)
}

// OpenThreads returns threads with messages that are not answered and that no live holder works on.
func (t SlackTables) OpenThreads(ctx context.Context, limit int) ([]string, error) {
	list, err := all(ctx, t.db.read, scanOne[string], `
		select r.thread from slack_replies r left join leases l on l.kind = 'slack' and l.id = r.thread
		where r.state <> 'done' and (l.until is null or l.until <= {now})
		group by r.thread order by min(r.created_at) limit $1`, limit)
	return list, t.db.fail("list open threads", err)
}

// OpenReplies returns the messages of a thread that are not answered, in their order.
func (t SlackTables) OpenReplies(ctx context.Context, thread string) ([]SlackReply, error) {
	list, err := all(ctx, t.db.write, scanSlackReply, `select `+slackReplyColumns+` from slack_replies where thread = $1 and state <> 'done' order by message_ts`, thread)
	return list, t.db.fail("list open replies", err)
}

// RepliesIn returns all messages of a thread in Slack that are known.
func (t SlackTables) RepliesIn(ctx context.Context, team, channel, thread string) ([]SlackReply, error) {
	list, err := all(ctx, t.db.write, scanSlackReply, `select `+slackReplyColumns+` from slack_replies where team = $1 and channel = $2 and thread_ts = $3`, team, channel, thread)
	return list, t.db.fail("list replies of a thread", err)
}

// Save records the state and the progress of a reply. It returns ErrStale if the lease of its thread is lost.
func (t SlackTables) Save(ctx context.Context, l Lease, r SlackReply) error {
	const op = "record reply"
	n, err := t.db.write.exec(ctx, `
		update slack_replies set state = $2, progress = $3, updated_at = {now}
		where id = $1 and exists (select 1 from leases where kind = $4 and id = $5 and holder = $6 and epoch = $7)`,
		r.ID, r.State, string(r.Progress), l.Kind, l.ID, l.Holder, l.Epoch)
	if err == nil && n == 0 {
		return stale(op, "thread "+l.ID)
	}
	return t.db.fail(op, err)
}

// DropOld removes records of events and of answered messages that are older than age. Threads stay known by the newest
// message of each.
func (t SlackTables) DropOld(ctx context.Context, age time.Duration) error {
	_, err := t.db.write.exec(ctx, `delete from slack_events where seen_at < {now-$1}`, age.Microseconds())
	if err == nil {
		_, err = t.db.write.exec(ctx, `delete from slack_replies where state = 'done' and updated_at < {now-$1} and exists (
			select 1 from slack_replies o where o.team = slack_replies.team and o.channel = slack_replies.channel
				and o.thread_ts = slack_replies.thread_ts and o.message_ts > slack_replies.message_ts)`, age.Microseconds())
	}
	return t.db.fail("remove old records of Slack", err)
}
