package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// LeaseTurn is the kind of lease for running a turn.
const LeaseTurn = "turn"

// The progress of a turn. A finished turn has its final status (api.TurnCompleted, …).
const (
	TurnQueued    = api.TurnQueued
	TurnRunning   = api.TurnRunning
	TurnFinishing = "finishing" // the agent has ended; the finishing steps run
)

// Turn is one prompt and its result.
type Turn struct {
	ID           string
	Tenant       TenantID
	Conversation string
	Sandbox      string
	Placed       bool // admitted: it has one of its sandbox's slots
	Status       string
	Message      string // id of the user's message
	Reply        string // id of the assistant's message, once there is one
	Prompt       string
	Files        []PromptFile // of the prompt, without their bytes; nil in lists
	Model        string
	Template     string
	Actor        string
	CancelAt     time.Time // when cancellation was requested; zero: it was not
	CancelReason string

	// Fields that only the lease holder writes.
	Epoch    int64
	Session  string
	Resume   bool
	Attempt  int64
	Seq      int64 // number of its newest event when the row was written; the log may have more
	ReadTo   int64 // position in the agent's output that belongs to Seq
	State    json.RawMessage
	Outcome  json.RawMessage // nil until the agent has ended
	Version  string
	Saving   bool // the turn's version is not saved yet
	Warnings []string
	Done     []string // names of the finishing steps that are done

	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
}

// Finished reports whether the turn has its final status.
func (t Turn) Finished() bool { return !t.FinishedAt.IsZero() }

const turnColumns = turnHead + `prompt, files` + turnMiddle + `outcome` + turnRest

// listedColumns are the columns for lists. Large values are left out.
const listedColumns = turnHead + `'', '[]'` + turnMiddle + `case when finished_at is null then null else outcome end` + turnRest

const (
	turnHead   = `turns.id, turns.tenant, conversation, sandbox, slot is not null, status, message, reply, `
	turnMiddle = `, model, template, actor, cancel_at, cancel_reason, turns.epoch, session, resume, attempt, seq, read_to, state, `
	turnRest   = `, version, warnings, done, turns.created_at, started_at, finished_at, turns.saving`
)

func scanTurn(row scanner) (t Turn, err error) {
	var state, outcome sql.NullString
	err = row.Scan(&t.ID, &t.Tenant, &t.Conversation, &t.Sandbox, &t.Placed, &t.Status, &t.Message, &t.Reply, &t.Prompt, document{&t.Files}, &t.Model, &t.Template, &t.Actor,
		instant{&t.CancelAt}, &t.CancelReason, &t.Epoch, &t.Session, &t.Resume, &t.Attempt, &t.Seq, &t.ReadTo, &state, &outcome, &t.Version,
		document{&t.Warnings}, document{&t.Done}, instant{&t.CreatedAt}, instant{&t.StartedAt}, instant{&t.FinishedAt}, &t.Saving)
	if state.String != "" {
		t.State = json.RawMessage(state.String)
	}
	if outcome.Valid {
		t.Outcome = json.RawMessage(outcome.String)
	}
	return t, err
}

// OutboxMessage is the outbox kind of conversations' messages. The id in the outbox is the message's id.
const OutboxMessage = "message"

// NewTurn is a request for a turn.
type NewTurn struct {
	Turn
	Queue     bool  // wait if no slot is free
	Places    int64 // limit of running turns in the sandbox
	MostQueue int64 // limit of waiting turns in the conversation
	MostBytes int64 // limit of the tenant's files that prompt_files holds, in bytes
	// Begin returns the user's message for the outbox and the first events of the log. It is called when the ids are
	// known.
	Begin func(Turn) (message []byte, events [][]byte, err error)
}

// Turns holds the turns of a tenant, for the clients that start, read and cancel them.
type Turns struct{ scope Scope }

// Turns returns the tenant's turns.
func (s Scope) Turns() Turns { return Turns{s} }

// Add records a turn and the user's message in one transaction. If a turn with the id exists, it returns that with
// added = false. If another turn runs in the conversation, or the sandbox has no free slot, the new turn waits if
// Queue is set; otherwise the error is CodeTurnRunning.
func (tu Turns) Add(ctx context.Context, n NewTurn) (t Turn, added bool, err error) {
	const op = "begin turn"
	for try := 0; ; try++ {
		err = tu.scope.db.inTx(ctx, func(tx *txn) error {
			t, added, err = tu.add(ctx, tx, op, n)
			return err
		})
		if try == 10 || err == nil || !tu.scope.db.dialect.duplicate(err) { // a duplicate slot: another turn took it
			return t, added, tu.scope.db.fail(op, err)
		}
	}
}

func (tu Turns) add(ctx context.Context, tx *txn, op string, n NewTurn) (t Turn, added bool, err error) {
	c, err := first(ctx, tx, tu.scope.db.scanConversation, `update conversations set updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null returning `+conversationColumns, tu.scope.tenant, n.Conversation)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, conversations.missing(op, n.Conversation)
	} else if err != nil {
		return t, false, err
	}
	t, err = first(ctx, tx, scanTurn, `select `+turnColumns+` from turns where id = $1`, n.ID)
	switch {
	case err == nil && (t.Tenant != tu.scope.tenant || t.Conversation != n.Conversation):
		return Turn{}, false, notFound(op, "turn", n.ID)
	case !errors.Is(err, sql.ErrNoRows):
		return t, false, err
	}
	slot, err := tu.place(ctx, tx, op, n)
	if err != nil {
		return t, false, err
	}
	n.Message = idAfter(c.LastMessage)
	n.Reply = idAfter(n.Message)
	if t, err = tu.insert(ctx, tx, n.Turn, slot); err != nil {
		return t, false, err
	}
	if err := tu.addFiles(ctx, tx, op, n); err != nil {
		return t, false, err
	}
	if _, err := tx.exec(ctx, `update conversations set last_message = $2 where id = $1`, c.ID, n.Reply); err != nil {
		return t, false, err
	}
	message, events, err := n.Begin(t)
	if err != nil {
		return t, false, err
	}
	if t, err = tu.scope.db.TurnRuns().appendOne(ctx, tx, op, Lease{ID: t.ID}, Append{Events: events}); err != nil {
		return t, false, err
	}
	return t, true, tu.scope.Outgoing().enqueue(ctx, tx, Message{ID: t.Message, Kind: OutboxMessage, Ref: t.Conversation, Payload: message})
}

// place returns a free slot for the turn, or nil if the turn has to wait.
func (tu Turns) place(ctx context.Context, tx *txn, op string, n NewTurn) (any, error) {
	type standing struct{ running, waiting int64 }
	here, err := first(ctx, tx, func(row scanner) (h standing, err error) {
		err = row.Scan(&h.running, &h.waiting)
		return h, err
	}, `select count(slot), count(*) - count(slot) from turns where conversation = $1 and finished_at is null`, n.Conversation)
	if err != nil {
		return nil, err
	}
	slot, err := freeSlot(ctx, tx, n.Sandbox, n.Places)
	if err != nil {
		return nil, err
	}
	switch {
	case here.running+here.waiting == 0 && slot >= 0:
		return slot, nil
	case n.Queue && here.waiting >= n.MostQueue:
		return nil, fault.Errorf(op, api.CodeQueueFull, "%d prompts wait in this conversation already", here.waiting)
	case n.Queue:
		return nil, nil
	case here.running+here.waiting > 0:
		return nil, fault.Errorf(op, api.CodeTurnRunning, "a turn of this conversation is running")
	}
	return nil, fault.Errorf(op, api.CodeTurnRunning, "sandbox %s runs as many turns as it may: %d", n.Sandbox, n.Places)
}

// freeSlot returns the lowest free slot of a sandbox, -1 if there is none.
func freeSlot(ctx context.Context, tx *txn, sandbox string, places int64) (int64, error) {
	taken, err := all(ctx, tx, scanOne[int64], `select slot from turns where sandbox = $1 and slot is not null order by slot`, sandbox)
	if err != nil {
		return -1, err
	}
	for slot := range places {
		if !slices.Contains(taken, slot) {
			return slot, nil
		}
	}
	return -1, nil
}

func (tu Turns) insert(ctx context.Context, tx *txn, t Turn, slot any) (Turn, error) {
	status := TurnRunning
	if slot == nil {
		status = TurnQueued
	}
	return first(ctx, tx, scanTurn, `
		insert into turns (id, tenant, conversation, sandbox, slot, status, message, reply, prompt, files, model, template, actor,
			cancel_reason, epoch, session, resume, attempt, seq, read_to, state, version, warnings, done, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, '', 0, '', false, 0, 0, 0, '', '', '[]', '[]', {now})
		returning `+turnColumns, t.ID, tu.scope.tenant, t.Conversation, t.Sandbox, slot, status, t.Message, t.Reply, t.Prompt, listArg(t.Files), t.Model, t.Template, t.Actor)
}

// idAfter returns a new id that sorts after last, even if the clock went back.
func idAfter(last string) string {
	for {
		id := NewID()
		if id > last {
			return id
		}
		if before, err := uuid.Parse(last); err == nil {
			next := uuid.Must(uuid.NewV7())
			copy(next[:6], before[:6]) // the time
			for i := 5; i >= 0; i-- {
				if next[i]++; next[i] != 0 {
					break
				}
			}
			return next.String()
		}
		last = "" // last is not a UUID, so that any id may follow it
	}
}

// Get returns one turn, or ErrNotFound.
func (tu Turns) Get(ctx context.Context, id string) (Turn, error) {
	const op = "read turn"
	t, err := first(ctx, tu.scope.db.read, scanTurn, `select `+turnColumns+` from turns where tenant = $1 and id = $2`, tu.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return t, notFound(op, "turn", id)
	}
	return t, tu.scope.db.fail(op, err)
}

// List returns one page of a conversation's turns, newest first, and the position of the next page.
func (tu Turns) List(ctx context.Context, conversation string, page Page) ([]Turn, Position, error) {
	l := listing[Turn]{
		columns: listedColumns, table: "turns", scan: scanTurn,
		position: func(t Turn) Position { return Position{t.CreatedAt, t.ID} },
	}
	l.where("conversation = $%d", conversation)
	l.where("tenant = $%d", tu.scope.tenant)
	items, next, err := l.read(ctx, tu.scope.db.read, page)
	return items, next, tu.scope.db.fail("list turns", err)
}

// LastFinished returns the newest turn of a conversation that has finished, or ErrNotFound.
func (tu Turns) LastFinished(ctx context.Context, conversation string) (Turn, error) {
	const op = "read turn"
	t, err := first(ctx, tu.scope.db.read, scanTurn, `select `+listedColumns+` from turns
		where tenant = $1 and conversation = $2 and finished_at is not null order by created_at desc, id desc limit 1`, tu.scope.tenant, conversation)
	if errors.Is(err, sql.ErrNoRows) {
		return t, notFound(op, "finished turn of conversation", conversation)
	}
	return t, tu.scope.db.fail(op, err)
}

// ListOpen returns the unfinished turns of a conversation or a sandbox, oldest first.
func (tu Turns) ListOpen(ctx context.Context, conversation, sandbox string) ([]Turn, error) {
	turns, err := all(ctx, tu.scope.db.read, scanTurn, `select `+listedColumns+` from turns
		where tenant = $1 and finished_at is null and (conversation = $2 or sandbox = $3 and sandbox <> '') order by created_at, id limit 1000`,
		tu.scope.tenant, conversation, sandbox)
	return turns, tu.scope.db.fail("list turns", err)
}

// Cancel requests the end of a turn. A waiting turn ends at once; a running one is ended by its holder. A
// second call changes nothing.
func (tu Turns) Cancel(ctx context.Context, id, reason string) (Turn, error) {
	const op = "cancel turn"
	t, err := first(ctx, tu.scope.db.write, scanTurn, `
		update turns set cancel_at = coalesce(cancel_at, {now}), cancel_reason = case when cancel_at is null then $3 else cancel_reason end
		where tenant = $1 and id = $2 and finished_at is null returning `+turnColumns, tu.scope.tenant, id, printable(reason))
	if !errors.Is(err, sql.ErrNoRows) {
		return t, tu.scope.db.fail(op, err)
	}
	if t, err = tu.Get(ctx, id); err == nil {
		err = fault.Errorf(op, api.CodeTurnFinished, "turn %s has ended: %s", id, t.Status)
	}
	return t, err
}

// ListOldestOpen returns, for each of the conversations that has unfinished turns, the id of the oldest one.
func (tu Turns) ListOldestOpen(ctx context.Context, conversations []string) (map[string]string, error) {
	working := map[string]string{}
	if len(conversations) == 0 {
		return working, nil
	}
	ids, marks := inList(2, conversations)
	type open struct{ turn, conversation string }
	turns, err := all(ctx, tu.scope.db.read, func(row scanner) (o open, err error) {
		err = row.Scan(&o.turn, &o.conversation)
		return o, err
	}, `select id, conversation from turns where tenant = $1 and finished_at is null and conversation in (`+marks+`)
		order by created_at desc, id desc`, append([]any{tu.scope.tenant}, ids...)...)
	for _, t := range turns {
		working[t.conversation] = t.turn
	}
	return working, tu.scope.db.fail("list turns", err)
}
