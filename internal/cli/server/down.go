package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
)

func (a *app) down() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop every sandbox of this machine",
		Long: `Stop every sandbox of this machine, of all tenants, and keep their files. The next use of a sandbox
starts it again. The request goes to the server of --server or BERTH_SERVER. Without one, or if it is a
server of this machine that does not run, the command works on the data directory itself, or through the
server that uses the directory, at the address of the setting listen. It waits for a server that is
ending. It does not create a missing data directory.`,
		Example: "  berth down\n  berth down --data-dir /var/lib/berth",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.Flags().StringVar(&a.Server, "server", "", "`URL` of the server, if one runs (env BERTH_SERVER; default "+remote.DefaultServer+")")
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		spin := a.Spin("stopping sandboxes")
		done, err := a.runDown(ctx, cfg)
		spin.Stop()
		if err != nil {
			return err
		}
		return a.printDown(done)
	})
	return cmd
}

// runDown asks the given server to stop the sandboxes. If no server is given, or a server on this machine does not run,
// it stops the sandboxes of the data directory without a server. If there is no data directory either, it returns the
// error of the server.
func (a *app) runDown(ctx context.Context, cfg *config.Loaded) (api.Down, error) {
	a.DataDir = cfg.DataDir
	if server := ui.First(a.Server, a.Getenv("BERTH_SERVER")); server != "" {
		done, err := a.requestDown(ctx)
		var p *api.Problem
		unreachable := errors.As(err, &p) && p.Code == api.CodeServerUnreachable
		if _, missing := os.Stat(cfg.DataDir); !unreachable || missing != nil || !remote.Loopback(server) {
			return done, err
		}
	}
	if ui.First(a.Server, a.Getenv("BERTH_SERVER")) == "" {
		a.Server = listenURL(cfg)
	}
	return a.downHere(ctx, cfg)
}

// unlockTime is added to the drain timeout: the time after which a server that was asked to end has unlocked its data
// directory.
const unlockTime = 5 * time.Second

// downHere stops the sandboxes of the data directory, without a server or through the server that uses the directory. A
// server that has the directory and does not answer is most likely ending, so downHere waits for that.
func (a *app) downHere(ctx context.Context, cfg *config.Loaded) (api.Down, error) {
	patient, cancel := context.WithTimeout(ctx, cfg.DrainTimeout+unlockTime)
	defer cancel()
	for {
		done, locked := a.Down(ctx, cfg)
		if fault.CodeOf(locked) != api.CodeDataDirLocked {
			return done, locked
		}
		done, err := a.requestDown(ctx)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.CodeServerUnreachable {
			return done, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return done, context.Cause(ctx)
		case <-patient.Done():
			return done, ui.Hint(fmt.Errorf("%w, and a server uses %s", err, cfg.DataDir), "If that server listens elsewhere, name it with --server.")
		}
	}
}

// listenURL returns the address of a server with this configuration, for clients on this machine.
func listenURL(cfg *config.Loaded) string {
	scheme := "http://"
	if cfg.TLSCert != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return remote.DefaultServer
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// requestDown asks the running server to stop the sandboxes.
func (a *app) requestDown(ctx context.Context) (api.Down, error) {
	c, err := a.Connect()
	if err != nil {
		return api.Down{}, err
	}
	done, err := c.Down(ctx)
	return done, c.Explain(err)
}

func (a *app) printDown(done api.Down) error {
	if a.JSON {
		if err := ui.WriteJSON(a.Out, done); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(a.Out, ui.Plural(done.Stopped, "sandbox", "sandboxes")+" stopped"); err != nil {
		return err
	}
	if done.Failed > 0 {
		return ui.Hint(fmt.Errorf("%s could not be stopped", ui.Plural(done.Failed, "sandbox", "sandboxes")), "The server's log, or the lines above, say why; 'berth ls' shows which still run.")
	}
	return nil
}
