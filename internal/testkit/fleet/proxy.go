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

// Proxy is a proxy with network faults between the servers of a fleet and their database.
type Proxy struct {
	URL string // URL of the database through the proxy

	proxy *toxiproxy.Proxy
}

// NewProxy starts a proxy in front of the database. It has no faults yet.
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

// Cut closes all connections and refuses new ones until Heal, as if the database were down.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Heal removes all faults.
func (p *Proxy) Heal() error {
	p.proxy.Toxics.ResetToxics(context.Background())
	if p.proxy.Enabled {
		return nil
	}
	return p.proxy.Start()
}

// Slow delays every answer by the latency, plus or minus the jitter.
func (p *Proxy) Slow(latency, jitter time.Duration) error {
	return p.add("latency", 1, map[string]any{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Reset breaks the given share of connections after each has been open for the given time.
func (p *Proxy) Reset(share float32, after time.Duration) error {
	return p.add("reset_peer", share, map[string]any{"timeout": after.Milliseconds()})
}

// Swallow keeps connections open but passes no data, as a network does that drops packets.
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
