package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// port says whether the server could listen, or who does in its place.
func port(ctx context.Context, s Subject) finding {
	address := s.Config.Listen
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
		return fine("%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE):
		return whoServes(ctx, s)
	case errors.Is(err, syscall.EACCES):
		return fail("take a port above 1023 with --listen (BERTH_LISTEN), or give the binary CAP_NET_BIND_SERVICE", "%v", err)
	}
	return fail("give an address of this machine with --listen (BERTH_LISTEN)", "%v", err)
}

func whoServes(ctx context.Context, s Subject) finding {
	address := s.Config.Listen
	ready, err := ask(ctx, address)
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

// complaints is what the server itself has found.
func complaints(checks []api.Check) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Status != OK {
			fmt.Fprintf(&b, "; %s: %s", c.Name, c.Detail)
		}
	}
	return b.String()
}

func ask(ctx context.Context, address string) (ready api.Ready, err error) {
	c, err := client.New("http://"+reachable(address), "", client.WithAttempts(1))
	if err != nil {
		return ready, err
	}
	return c.Ready(ctx)
}

// reachable turns an address to listen on into one to call: all of them into loopback.
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
