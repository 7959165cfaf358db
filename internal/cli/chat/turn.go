package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/process"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// turnWatch follows a running turn.
type turnWatch struct {
	*talk
	show turnView
	news chan turnNews
	turn string // id of the turn; empty until the server sent it
	stop stopState
	sent sync.WaitGroup // done when the server has answered the request to cancel
}

// stopState is the state of a request to cancel the turn.
type stopState int

const (
	stopNone   stopState = iota
	stopWanted           // the user pressed Ctrl-C
	stopSent             // the request was sent to the server
)

// turnView shows the events of a turn.
type turnView interface {
	event(api.TurnEvent) error
	// waiting is called when no event has arrived for a while.
	waiting()
	// note prints a line that is not part of the turn.
	note(text string)
	close() error
}

// turnNews is an event, an error, or a lost connection that the client tries to restore.
type turnNews struct {
	event api.TurnEvent
	turn  string
	err   error
	cut   bool
}

// ask sends the prompt and shows its turn to the end.
func (t *talk) ask(ctx context.Context, prompt string) (api.TurnEvent, error) {
	return t.watchTurn(ctx, func(ctx context.Context, c *remote.Connection, opts ...client.TurnOption) (*client.TurnStream, error) {
		if t.queue {
			opts = append(opts, client.Queued())
		}
		stream, err := c.Conversations.Prompt(ctx, t.conv.ID, api.Prompt{Prompt: prompt, Model: t.model, Attachments: t.files}, opts...)
		if err == nil {
			t.files = nil // they were for this prompt
		}
		if remote.IsCode(err, api.CodeTurnRunning) {
			err = ui.Hint(err, fmt.Sprintf("'berth chat -c %s' shows what it does; --queue lets the prompt wait for its end.", t.conv.ID))
		}
		return stream, err
	})
}

// follow shows the running turn to its end.
func (t *talk) follow(ctx context.Context) (api.TurnEvent, error) {
	return t.watchTurn(ctx, func(ctx context.Context, c *remote.Connection, opts ...client.TurnOption) (*client.TurnStream, error) {
		return c.Conversations.Follow(ctx, t.conv.ID, t.conv.TurnID, 0, opts...)
	})
}

type beginTurn func(context.Context, *remote.Connection, ...client.TurnOption) (*client.TurnStream, error)

func (t *talk) watchTurn(ctx context.Context, begin beginTurn) (api.TurnEvent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The server answered a moment ago. If it does not now, it may be restarting.
	patient, err := t.a.Connect(client.WithAttempts(process.ReconnectAttempts))
	if err != nil {
		return api.TurnEvent{}, err
	}
	signals, giveBack := t.a.Interrupts.Take()
	defer giveBack()
	w := &turnWatch{talk: t, show: t.a.newTurnView(), news: make(chan turnNews, 64)}
	go w.read(ctx, func(opts ...client.TurnOption) (*client.TurnStream, error) { return begin(ctx, patient, opts...) })
	end, err := w.run(ctx, signals)
	return end, errors.Join(err, w.show.close())
}

// read sends the events of the turn to w.news until the stream ends.
func (w *turnWatch) read(ctx context.Context, begin func(...client.TurnOption) (*client.TurnStream, error)) {
	defer close(w.news)
	tell := func(n turnNews) bool {
		select {
		case w.news <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	stream, err := begin(client.OnCut(func(why error) { tell(turnNews{err: why, cut: true}) }))
	if err != nil {
		tell(turnNews{err: err})
		return
	}
	defer stream.Close()
	for event, err := range stream.Events() {
		if !tell(turnNews{event: event, turn: stream.TurnID, err: err}) || err != nil {
			return
		}
	}
}

// waitingAfter is the time without an event after which the view shows that it waits.
const waitingAfter = 300 * time.Millisecond

// run shows the turn until its end and handles Ctrl-C.
func (w *turnWatch) run(ctx context.Context, signals <-chan os.Signal) (api.TurnEvent, error) {
	idle := time.NewTimer(waitingAfter)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return api.TurnEvent{}, context.Cause(ctx)
		case <-idle.C:
			w.show.waiting()
		case <-signals:
			if w.stop != stopNone {
				w.sent.Wait()
				w.show.note(w.leaveMessage())
				return api.TurnEvent{}, ui.ExitCode(ui.ExitInterrupted)
			}
			w.show.note("cancelling the turn; Ctrl-C again leaves …")
			w.stop = stopWanted
			w.cancelTurn(ctx)
		case n, more := <-w.news:
			idle.Reset(waitingAfter)
			switch {
			case !more:
				return api.TurnEvent{}, io.ErrUnexpectedEOF
			case n.cut:
				w.show.note("the connection was lost; trying to come back …")
				continue
			case n.err != nil:
				return api.TurnEvent{}, w.lost(n.err)
			}
			w.turn = n.turn
			w.cancelTurn(ctx)
			if err := w.show.event(n.event); err != nil {
				return api.TurnEvent{}, err
			}
			switch n.event.Type {
			case api.EventTurnFinished:
				return n.event, nil
			case api.EventResync:
				return w.finalState(ctx)
			}
		}
	}
}

// leaveMessage returns a message about the turn for a user who leaves before its end.
func (w *turnWatch) leaveMessage() string {
	look := fmt.Sprintf("'berth conversation show %s' shows its result", ui.Clean(w.conv.ID))
	if w.stop == stopSent {
		return "left; the turn was asked to end: " + look
	}
	return "left; the prompt may have been sent: " + look
}

// lost adds a hint to err: how to watch the turn again.
func (w *turnWatch) lost(err error) error {
	if w.turn == "" || !remote.Retryable(err) {
		return err
	}
	return ui.Hint(err, fmt.Sprintf("The turn goes on by itself: 'berth chat -c %s' shows it.", w.conv.ID))
}

// cancelTurn sends a request to cancel the turn, if the user wants that and the turn's id is known. It does not wait:
// the turn's last event tells its status.
func (w *turnWatch) cancelTurn(ctx context.Context) {
	if w.stop != stopWanted || w.turn == "" {
		return
	}
	w.stop = stopSent
	conv, turn := w.conv.ID, w.turn
	w.sent.Go(func() {
		brief, cancel := context.WithTimeout(ctx, 5*process.SignalTimeout)
		defer cancel()
		if _, err := w.c.Conversations.Cancel(brief, conv, turn); err != nil && !remote.IsCode(err, api.CodeTurnFinished) && ctx.Err() == nil {
			w.a.Errorf("%s", ui.Clean(err.Error()))
		}
	})
}

// finalState shows the result of a turn whose events are no longer stored. It reads the answer from the messages.
func (w *turnWatch) finalState(ctx context.Context) (api.TurnEvent, error) {
	for m, err := range w.c.Conversations.Newest(ctx, w.conv.ID) {
		if err != nil {
			return api.TurnEvent{}, err
		}
		if m.TurnID != w.turn || m.Role != api.RoleAssistant {
			continue
		}
		end := api.TurnEvent{Type: api.EventTurnFinished, TurnID: w.turn, Status: m.Status, Message: m.Error, Model: m.Model, Usage: &m.Usage, CostUSD: m.CostUSD}
		return end, errors.Join(w.show.event(api.TurnEvent{Type: api.EventText, Text: m.Text()}), w.show.event(end))
	}
	return api.TurnEvent{}, errors.New("the events of this turn are not kept any more, and neither is its answer")
}
