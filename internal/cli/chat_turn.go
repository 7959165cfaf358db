package cli

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
)

// turnWatch is a turn that somebody waits for.
type turnWatch struct {
	*talk
	show shower
	news chan turnNews
	turn string // once it is known
	stop stopping
	sent sync.WaitGroup // until the server was asked to cancel
}

// stopping is how far the wish to cancel a turn is.
type stopping int

const (
	goingOn stopping = iota
	wished           // by the person
	asked            // of the server
)

// shower shows the events of a turn.
type shower interface {
	event(api.TurnEvent) error
	// waiting is called while nothing comes.
	waiting()
	// note tells something that is not of the turn.
	note(text string)
	close() error
}

// turnNews is an event, an error, or a connection that was cut.
type turnNews struct {
	event api.TurnEvent
	turn  string
	err   error
	cut   bool
}

// ask sends the prompt and shows the turn to its end.
func (t *talk) ask(ctx context.Context, prompt string) (api.TurnEvent, error) {
	return t.watchTurn(ctx, func(ctx context.Context, c *connection, opts ...client.TurnOption) (*client.TurnStream, error) {
		if t.queue {
			opts = append(opts, client.Queued())
		}
		stream, err := c.Conversations.Prompt(ctx, t.conv.ID, api.Prompt{Prompt: prompt, Model: t.model}, opts...)
		if isCode(err, api.CodeTurnRunning) {
			err = &hinted{err, fmt.Sprintf("'berth chat -c %s' shows what it does; --queue lets the prompt wait for its end.", t.conv.ID)}
		}
		return stream, err
	})
}

// follow shows the turn that runs.
func (t *talk) follow(ctx context.Context) (api.TurnEvent, error) {
	return t.watchTurn(ctx, func(ctx context.Context, c *connection, opts ...client.TurnOption) (*client.TurnStream, error) {
		return c.Conversations.Follow(ctx, t.conv.ID, t.conv.TurnID, 0, opts...)
	})
}

type beginTurn func(context.Context, *connection, ...client.TurnOption) (*client.TurnStream, error)

func (t *talk) watchTurn(ctx context.Context, begin beginTurn) (api.TurnEvent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The server was there a moment ago, and may be restarting.
	patient, err := t.f.connect(client.WithAttempts(returnAttempts))
	if err != nil {
		return api.TurnEvent{}, err
	}
	signals, giveBack := t.f.interrupts.take()
	defer giveBack()
	w := &turnWatch{talk: t, show: t.f.shower(), news: make(chan turnNews, 64)}
	go w.read(ctx, func(opts ...client.TurnOption) (*client.TurnStream, error) { return begin(ctx, patient, opts...) })
	end, err := w.run(ctx, signals)
	return end, errors.Join(err, w.show.close())
}

// read hands on what comes, from the first word of the server to the end of the stream.
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

// patientFor is how long nothing may come before it is shown that something is waited for.
const patientFor = 300 * time.Millisecond

// run shows the turn until its end, and obeys the person who watches.
func (w *turnWatch) run(ctx context.Context, signals <-chan os.Signal) (api.TurnEvent, error) {
	idle := time.NewTimer(patientFor)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return api.TurnEvent{}, context.Cause(ctx)
		case <-idle.C:
			w.show.waiting()
		case <-signals:
			if w.stop != goingOn {
				w.sent.Wait()
				w.show.note(w.fate())
				return api.TurnEvent{}, exited(ExitInterrupted)
			}
			w.show.note("cancelling the turn; Ctrl-C again leaves …")
			w.stop = wished
			w.cancelTurn(ctx)
		case n, more := <-w.news:
			idle.Reset(patientFor)
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
				return w.told(ctx)
			}
		}
	}
}

// fate is what becomes of a turn that is not waited for.
func (w *turnWatch) fate() string {
	look := fmt.Sprintf("'berth conversation show %s' tells what became of it", clean(w.conv.ID))
	if w.stop == asked {
		return "left; the turn was asked to end: " + look
	}
	return "left; the prompt may have been sent: " + look
}

// lost says how to come back to a turn that cannot be watched any longer.
func (w *turnWatch) lost(err error) error {
	if w.turn == "" || !passing(err) {
		return err
	}
	return &hinted{err, fmt.Sprintf("The turn goes on by itself: 'berth chat -c %s' shows it.", w.conv.ID)}
}

// cancelTurn asks for the end of the turn, if that is wished for and the turn is known. Its last event will
// tell.
func (w *turnWatch) cancelTurn(ctx context.Context) {
	if w.stop != wished || w.turn == "" {
		return
	}
	w.stop = asked
	conv, turn := w.conv.ID, w.turn
	w.sent.Go(func() {
		brief, cancel := context.WithTimeout(ctx, 5*signalPatience)
		defer cancel()
		if _, err := w.c.Conversations.Cancel(brief, conv, turn); err != nil && !isCode(err, api.CodeTurnFinished) && ctx.Err() == nil {
			w.f.complain("%s", clean(err.Error()))
		}
	})
}

// told shows the answer of a turn whose events are not kept any more.
func (w *turnWatch) told(ctx context.Context) (api.TurnEvent, error) {
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
