package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a network with faults, between the servers of a fleet and their database.
type Proxy struct {
	URL string // of the database, through the proxy

	proxy *toxiproxy.Proxy
}

// NewProxy puts a proxy without any fault before the database.
func NewProxy(t testing.TB, database string) *Proxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(api, "database", "127.0.0.1:0", u.Host)}
	if err := p.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.proxy.Stop)
	u.Host = p.proxy.Listen
	p.URL = u.String()
	return p
}

// Cut ends every connection and takes no new one until Heal: a database that is down.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Heal ends all faults.
func (p *Proxy) Heal() error {
	p.proxy.Toxics.ResetToxics(context.Background())
	if p.proxy.Enabled {
		return nil
	}
	return p.proxy.Start()
}

// Slow makes every answer take so long, give or take the jitter.
func (p *Proxy) Slow(latency, jitter time.Duration) error {
	return p.add("latency", 1, map[string]any{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Reset breaks the given share of connections, when they have been open for so long.
func (p *Proxy) Reset(share float32, after time.Duration) error {
	return p.add("reset_peer", share, map[string]any{"timeout": after.Milliseconds()})
}

// Swallow lets connections stand and nothing through: a network that drops packets.
func (p *Proxy) Swallow() error { return p.add("timeout", 1, map[string]any{"timeout": 0}) }

func (p *Proxy) add(kind string, share float32, attributes map[string]any) error {
	toxic, err := json.Marshal(map[string]any{"type": kind, "toxicity": share, "attributes": attributes})
	if err == nil {
		_, err = p.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic)))
	}
	if err != nil {
		return fmt.Errorf("add the fault %s: %w", kind, err)
	}
	return nil
}
