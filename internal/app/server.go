package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/httpapi"
)

// Server is a System with the HTTP API.
type Server struct {
	*System
	adminKey auth.First
	api      *httpapi.Handler
	front    httpapi.ServerOptions
	http     *httpapi.Server
}

// drainDelay is the time for which a draining server still accepts requests, so that load balancers can notice the drain.
const drainDelay = 2 * time.Second

// NewServer opens a System and listens on the configured address.
func NewServer(ctx context.Context, o Options) (*Server, error) {
	system, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{System: system}
	if err := s.listen(ctx); err != nil {
		return nil, errors.Join(s.disk.explain(err), s.Close())
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context) (err error) {
	if !s.cfg.Loopback() && s.cfg.TLSCert == "" {
		s.log.Warn(plainHTTP(s.cfg))
	}
	if s.adminKey, err = auth.Bootstrap(ctx, s.store, s.cfg.DataDir, s.cfg.APIKey.Reveal()); err != nil {
		return err
	}
	s.redactor.Add(s.adminKey.Kept)
	o := httpapi.ServerOptions{DrainTimeout: s.cfg.DrainTimeout}
	if s.cfg.TLSCert != "" || s.cfg.TLSKey != "" {
		if o.Certificate, err = httpapi.LoadCertificate(s.cfg.TLSCert, s.cfg.TLSKey, s.log); err != nil {
			return err
		}
	}
	if !s.cfg.Loopback() {
		o.DrainDelay = drainDelay
	}
	s.front, s.api = o, s.handler()
	s.http = httpapi.NewServer(s.api, o)
	s.addr = s.http.Addr
	return s.http.Listen(ctx, s.cfg.Listen)
}

func (s *Server) handler() *httpapi.Handler {
	caps := s.cfg.Caps()
	return httpapi.New(httpapi.Options{
		Engine: machineEngine{s.engine, s.System}, Store: s.store, Keys: auth.NewAuthenticator(s.store.APIKeys()), Roots: s.roots, Templates: s.templates,
		Traffic: s.traffic.read, Syncer: s.syncer, Chat: s.chat, Slack: slackAdmin(s.slack), ThreadsOff: !s.cfg.SandboxRuntimeEnabled, Saves: s.syncer != nil, Saving: s.checkSyncer,
		Messages: s.messageCheck.report, Room: s.disk.room, Disk: s.disk.check, Secrets: s.checkSecrets,
		Listen: s.cfg.Listen, AllowedHosts: s.cfg.AllowedHosts, AdvertiseURL: s.cfg.AdvertiseURL, PreviewDomain: s.cfg.PreviewDomain,
		MaxBodyBytes: s.cfg.MaxBodyBytes, RequestTimeout: s.cfg.RequestTimeout, ClaimTTL: s.cfg.LeaseTTL, OrphanGrace: s.cfg.OrphanGrace,
		Rate: caps.RequestsPerSecond, Burst: caps.Burst,
		Version: s.opts.Version, Log: s.log, Metrics: s.metrics, Redactor: s.redactor,
	})
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.http.Addr() }

// Handler returns the HTTP API.
func (s *Server) Handler() http.Handler { return s.api }

// Serve prints the greeting, then serves requests and does background work. It returns when the context has ended and
// running requests are done.
func (s *Server) Serve(ctx context.Context) error {
	s.greet()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	bound, release := bounded(ctx, s.front.DrainDelay+s.cfg.DrainTimeout+cutAnswerTime)
	defer release()
	background, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	s.start(background, &work)
	work.Go(func() { s.leaveNewSchema(background, s.api.Drain, leave) })
	err := s.http.Serve(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errNewSchema) {
		err = errors.Join(err, cause)
	}
	stop()
	leave(nil)
	s.finish(bound, &work)
	return err
}
