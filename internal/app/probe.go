package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
	transcripts "github.com/berthdev/berth/internal/transcript/open"
)

// Probe checks whether local sandboxes, the object store and the message store work on this machine. No server needs to run. It leaves
// nothing behind.
func Probe(ctx context.Context, cfg *config.Loaded) []api.Check {
	s := &System{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	report, err := local.Probe(ctx, s.localOptions())
	check := api.Check{Name: "local sandboxes", Status: "ok", Detail: strings.Join(append([]string{report.Tier.Explain()}, report.Notes...), "; ")}
	switch {
	case err != nil:
		check.Status, check.Detail, check.Fix = "failed", err.Error(), "See the words above; the data directory must be writable."
	case report.Tier == local.TierNone:
		check.Status, check.Detail, check.Fix = "failed", report.Problem, report.Remedy
	case report.Tier == local.TierUser:
		check.Status = "warning"
		check.Fix = "Run the server as root for limits of CPU, memory and processes, and for a root user inside; or as a user with subordinate ids for that user, and with a delegated cgroup for the limits (docs/SECURITY.md)."
	}
	var objects, messages []api.Check
	var wg sync.WaitGroup // one that does not answer must not use up the time of the other
	wg.Go(func() { objects = probeStore(ctx, cfg) })
	wg.Go(func() { messages = probeMessages(ctx, cfg) })
	wg.Wait()
	return slices.Concat([]api.Check{check}, objects, messages)
}

// probeMessages checks a message store that is not the database.
func probeMessages(ctx context.Context, cfg *config.Loaded) []api.Check {
	if cfg.MessageStore == "" {
		return nil
	}
	check := api.Check{Name: "message store", Status: "ok", Detail: "answers"}
	ctx, cancel := context.WithTimeout(ctx, checkMessagesFor)
	defer cancel()
	messages, err := transcripts.Store(ctx, cfg.MessageStore, nil)
	if err == nil {
		err = messages.Check(ctx)
	}
	if err != nil {
		check.Status, check.Detail, check.Fix = "failed", err.Error(), cmp.Or(hint(err), fault.CodeOf(err).Info().Hint)
	}
	return []api.Check{check}
}

// probeStore checks an object store at an s3:// address. It returns no check for a store in a directory.
func probeStore(ctx context.Context, cfg *config.Loaded) []api.Check {
	address := storeAddress(cfg)
	if !strings.HasPrefix(address, "s3://") {
		return nil
	}
	check := api.Check{Name: "object store", Status: "ok"}
	store, err := open.Store(ctx, address)
	conditional := false
	if err == nil {
		check.Detail = store.String() + ", answers"
		conditional, err = blob.Probe(ctx, store)
	}
	switch {
	case err != nil:
		check.Status, check.Detail, check.Fix = "failed", err.Error(), fault.CodeOf(err).Info().Hint
	case !conditional:
		check.Status, check.Detail = "warning", store.String()+" does not do conditional writes"
		check.Fix = "It works with one server and nothing else that writes there; a store that does them is better."
	}
	return []api.Check{check}
}
