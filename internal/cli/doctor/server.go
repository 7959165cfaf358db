package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// port checks whether the server could listen on its address. If a program already does, port reports which one.
func port(ctx context.Context, s Subject) finding {
	address := s.Config.Listen
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
		return fine("%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE):
		return portUser(ctx, s)
	case errors.Is(err, syscall.EACCES):
		return fail("take a port above 1023 with --listen (BERTH_LISTEN), or give the binary CAP_NET_BIND_SERVICE", "%v", err)
	}
	return fail("give an address of this machine with --listen (BERTH_LISTEN)", "%v", err)
}

func portUser(ctx context.Context, s Subject) finding {
	address := s.Config.Listen
	ready, err := ask(ctx, address, s.Config.TLSCert != "")
	switch {
	case err != nil || ready.Status == "":
		return fail("stop it, or take another port with --listen (BERTH_LISTEN)", "%s is taken by a program that is not Berth", address)
	case !servesFrom(s):
		return fail("stop it or take another port with --listen (BERTH_LISTEN), or name its data directory with --data-dir (BERTH_DATA_DIR)",
			"Berth %s serves on %s, but not from %s", ready.Version, address, s.Config.DataDir)
	case ready.Status != "ready":
		return warn("look at the server's log", "Berth %s serves on %s and says it is %s%s", ready.Version, address, ready.Status, complaints(ready.Checks))
	}
	return fine("Berth %s serves on %s and is ready", ready.Version, address)
}

// server checks the server that commands use, which may be on another machine.
func server(ctx context.Context, s Subject) finding {
	c, err := client.New(s.Server, "", client.WithAttempts(1))
	if err != nil {
		return fail("correct BERTH_SERVER", "BERTH_SERVER: %v", err)
	}
	ready, err := c.Ready(ctx)
	switch {
	case err != nil || ready.Status == "":
		return warn("start that server, or correct or unset BERTH_SERVER; the other checks are of this machine", "BERTH_SERVER names %s, where no Berth answers", s.Server)
	case ready.Status != "ready":
		return warn("look at that server's log", "Berth %s at %s (BERTH_SERVER) is %s%s", ready.Version, s.Server, ready.Status, complaints(ready.Checks))
	}
	return fine("Berth %s at %s (BERTH_SERVER) is ready; the other checks are of this machine", ready.Version, s.Server)
}

// complaints returns the problems that the server's own checks report.
func complaints(checks []api.Check) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Status != OK {
			fmt.Fprintf(&b, "; %s: %s", c.Name, c.Detail)
		}
	}
	return b.String()
}

func ask(ctx context.Context, address string, encrypted bool) (ready api.Ready, err error) {
	base, opts := "http://"+reachable(address), []client.Option{client.WithAttempts(1)}
	if encrypted {
		// No key is sent, so the server need not be verified. Its certificate has another name than the loopback
		// address.
		base = "https://" + reachable(address)
		opts = append(opts, client.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}))
	}
	c, err := client.New(base, "", opts...)
	if err != nil {
		return ready, err
	}
	return c.Ready(ctx)
}

// reachable converts a listen address to an address for clients. It replaces an unspecified host by loopback.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
