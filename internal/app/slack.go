package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/url"
	"path"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/ports"
	"github.com/berthdev/berth/internal/httpapi/tenants"
	"github.com/berthdev/berth/internal/slack"
	"github.com/berthdev/berth/internal/store"
)

// newSlack returns the part that answers in Slack; nil if there are no threads.
func newSlack(s *System) *slack.Service {
	if !s.cfg.SandboxRuntimeEnabled {
		return nil
	}
	limits := s.chat.AttachmentLimits()
	return slack.New(slack.Options{
		Store: s.store, Threads: threads{s}, APIURL: s.cfg.SlackAPIURL, MaxFile: limits.File, MaxAll: limits.Prompt, MaxFiles: limits.Count, Log: s.log, At: s.opts.At,
	})
}

// slackAdmin returns the part of the HTTP API that connects Slack workspaces; nil if there is none.
func slackAdmin(s *slack.Service) tenants.Slack {
	if s == nil {
		return nil
	}
	return slack.Admin{Service: s}
}

// threads are the threads of Slack: conversations with their sandboxes.
type threads struct{ s *System }

func (th threads) of(t slack.Thread, actor, account string) chat.Conversations {
	return th.s.chat.Of(th.s.store.In(store.TenantID(t.Tenant)), actor, account)
}

func key(t slack.Thread) store.Thread {
	return store.Thread{Workspace: t.Workspace, Key: t.Key, Channel: t.Channel}
}

// Post implements slack.Threads.
func (th threads) Post(ctx context.Context, p slack.Prompt) error {
	account, err := th.account(ctx, p)
	if err != nil {
		return err
	}
	all := th.of(p.Thread, "slack:"+p.User.ID, account.ID)
	if _, err := all.Thread(ctx, key(p.Thread)); err == nil {
		p.Template = "" // the thread keeps the template of its first message
	} else if !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	_, err = all.Prompt(ctx, chat.PromptRequest{
		Prompt: api.Prompt{Prompt: p.Text, Template: p.Template, Attachments: p.Files}, Thread: key(p.Thread), Queue: true, TurnID: p.Turn,
	})
	return err
}

// account returns the account of the person who sends a prompt; the zero value: there is none.
func (th threads) account(ctx context.Context, p slack.Prompt) (store.Account, error) {
	all := th.s.store.In(store.TenantID(p.Thread.Tenant)).Accounts()
	name := "slack:" + p.Thread.Workspace + ":" + p.User.ID
	a, err := all.Find(ctx, p.User.Email, name)
	if !errors.Is(err, fault.ErrNotFound) {
		return a, err
	}
	if !p.Accounts {
		return store.Account{}, nil
	}
	a, err = all.Create(ctx, store.Account{Name: name, Email: p.User.Email})
	if fault.CodeOf(err) == api.CodeConflict { // another server was faster
		return all.Find(ctx, p.User.Email, name)
	}
	return a, err
}

// Events implements slack.Threads.
func (th threads) Events(ctx context.Context, tenant, turn string) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		t, err := th.s.store.In(store.TenantID(tenant)).Turns().Get(ctx, turn)
		if err != nil {
			yield(api.TurnEvent{}, err)
			return
		}
		for stored, err := range th.s.chat.Events(ctx, t, 0) {
			var e api.TurnEvent
			if err == nil {
				err = json.Unmarshal(stored.Data, &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Cancel implements slack.Threads.
func (th threads) Cancel(ctx context.Context, tenant, turn, reason string) error {
	_, err := th.s.chat.Cancel(ctx, store.TenantID(tenant), turn, reason)
	if code := fault.CodeOf(err); code == api.CodeTurnFinished || code == api.CodeNotFound {
		return nil
	}
	return err
}

// sandbox returns the thread's conversation and a handle on its sandbox; nil if there is none.
func (th threads) sandbox(ctx context.Context, t slack.Thread) (store.Conversation, *engine.Handle, error) {
	conv, err := th.of(t, "slack", "").Thread(ctx, key(t))
	if errors.Is(err, fault.ErrNotFound) {
		return conv, nil, nil
	}
	if err != nil || conv.Sandbox == "" {
		return conv, nil, err
	}
	return conv, th.s.engine.Handle(t.Tenant, conv.Sandbox, "slack"), nil
}

// Stop implements slack.Threads.
func (th threads) Stop(ctx context.Context, t slack.Thread) error {
	conv, h, err := th.sandbox(ctx, t)
	if err != nil || h == nil {
		return err
	}
	if err := th.s.chat.Stop(ctx, conv.Tenant, conv.ID, "stopped in Slack"); err != nil {
		return err
	}
	_, err = h.Stop(ctx)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDeleted) {
		return nil
	}
	return err
}

// Open implements slack.Threads.
func (th threads) Open(ctx context.Context, t slack.Thread, name string) (io.ReadCloser, error) {
	_, h, err := th.sandbox(ctx, t)
	if err == nil && h == nil {
		err = fault.Errorf("open file", api.CodeNotFound, "the thread has no sandbox")
	}
	if err != nil {
		return nil, err
	}
	workspace, err := h.Files(ctx, files.WorkingDir)
	if err != nil {
		return nil, err
	}
	f, err := workspace.Open(ctx, name)
	if err != nil {
		return nil, errors.Join(err, workspace.Close())
	}
	return opened{f, workspace}, nil
}

// opened is an open file and the workspace that it is in.
type opened struct {
	io.ReadCloser
	workspace io.Closer
}

// Close closes both.
func (o opened) Close() error { return errors.Join(o.ReadCloser.Close(), o.workspace.Close()) }

// mostListed is the number of files that an overview lists.
const mostListed = 30

// Show implements slack.Threads.
func (th threads) Show(ctx context.Context, t slack.Thread) (o slack.Overview, err error) {
	conv, h, err := th.sandbox(ctx, t)
	if err != nil || h == nil {
		return o, err
	}
	o.Stats = conv.Stats.Stats()
	s, err := th.s.store.In(conv.Tenant).ByID(ctx, conv.Sandbox)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDeleted) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.Sandbox, o.State = s.ID, string(s.State)
	workspace, err := h.ReadOnly().Files(ctx, files.WorkingDir)
	if err != nil {
		return o, nil // files of a sandbox without an instance are not shown here
	}
	defer workspace.Close()
	page, err := files.List(ctx, workspace, files.ListOptions{Path: chat.DisplayDir, Depth: 8, Limit: mostListed})
	if err != nil {
		return o, nil // there are none
	}
	for _, f := range page.Items {
		if f.Mode.IsRegular() {
			o.Files = append(o.Files, path.Clean(f.Path))
		}
	}
	return o, nil
}

const (
	previewsTime  = 10 * time.Second
	mostPreviewed = 10
)

// Previews implements slack.Threads. Its URLs end when the workspace is disconnected.
func (th threads) Previews(ctx context.Context, t slack.Thread) ([]slack.Preview, error) {
	ctx, cancel := context.WithTimeout(ctx, previewsTime)
	defer cancel()
	scheme, at := th.s.publicAddress()
	conv, h, err := th.sandbox(ctx, t)
	if err != nil || h == nil || th.s.cfg.PreviewDomain == "" || at == "" || len(th.s.roots) == 0 {
		return nil, err
	}
	listeners, err := ports.Listeners(ctx, h)
	if err != nil {
		return nil, err
	}
	tables := th.s.store.Slack()
	w, err := tables.Workspace(ctx, t.Workspace)
	if err != nil {
		return nil, err
	}
	key, err := tables.URLKey(ctx, w)
	if err != nil {
		return nil, err
	}
	signer := auth.NewURLs(th.s.store.APIKeys().URLs(), th.s.roots[0], th.s.roots[1:]...)
	out := []slack.Preview{}
	for _, l := range listeners[:min(len(listeners), mostPreviewed)] {
		u, err := th.s.store.In(conv.Tenant).Keys().URLs().Create(ctx, store.PreviewURL{Sandbox: conv.Sandbox, Port: l.Port(), Key: store.Key{ID: key}}, api.PortURLSeconds*time.Second)
		if err != nil {
			return nil, err
		}
		origin := ports.OriginOf(th.s.cfg.PreviewDomain, scheme, at, conv.Sandbox, l.Port())
		out = append(out, slack.Preview{Port: int(l.Port()), URL: ports.SignedURL(origin, "/", signer.Sign(u))})
	}
	return out, nil
}

// publicAddress returns the scheme and the host at which browsers reach the server; empty: there is none.
func (s *System) publicAddress() (scheme, host string) {
	if u, err := url.Parse(s.cfg.AdvertiseURL); err == nil && u.Host != "" {
		return u.Scheme, u.Host
	}
	if s.addr == nil {
		return "", ""
	}
	if s.cfg.TLSCert != "" {
		return "https", s.addr()
	}
	return "http", s.addr()
}
