// Package config holds everything `berth serve` can be told.
//
// One table of settings ([Settings]) is the source of the loader, of the
// command-line flags, of what `berth config` prints and of the reference page
// ([Reference]). [Load] resolves each setting as default < TOML file <
// environment < flag and remembers where the value came from. A tuning value
// that makes no sense falls back to its default with a warning; an address,
// path, URL, key or choice that makes no sense is a [Problem], and all of them
// are reported together in one [Error].
package config

import (
	"log/slog"
	"net"
	"strings"
	"time"
)

// Config is the effective configuration of one server. Its zero value is not
// usable; [Load] makes one.
type Config struct {
	Listen       string
	DataDir      string // absolute
	DatabaseURL  DSN    // empty: SQLite in DataDir
	ObjectStore  string // empty: a directory in DataDir; "none": no object store
	MessageStore string // empty: the database
	AllowedHosts []string
	AdvertiseURL string // where clients reach this server; empty: not said

	APIKey    Secret // admin key of tenant "default"; empty: one is made
	SecretKey Secret // root of tokens and signed URLs; empty: one is made

	DefaultTemplate string
	DefaultDriver   string
	FakeDriverDir   string // absolute

	LogFormat string // "text" or "json"
	LogLevel  slog.Level

	SyncStaleThreshold         time.Duration
	SaveAfter                  time.Duration
	SaveEvery                  time.Duration
	SaveSpoolBytes             int64
	DiskLowWater               int64
	DeletedRetention           time.Duration // zero: for ever
	KeepLast, KeepDaily        int           // versions that are kept; both zero: all
	PruneInterval              time.Duration
	S3BucketAgentDocs          string
	SandboxProfileType         string // "lite", "standard" or "full"
	SandboxAutoRecover         bool
	SandboxHealthCheckInterval time.Duration
	SandboxRuntimeEnabled      bool
	SandboxAgentToken          Secret
	SandboxHackclubAPIKey      Secret

	ModalTokenID     string
	ModalTokenSecret Secret
	DaytonaAPIKey    Secret
	DaytonaAPIURL    string
	DaytonaTarget    string

	MaxBodyBytes          int64
	RequestTimeout        time.Duration
	RateLimit             Limit // requests per second and tenant
	RateBurst             Limit
	MaxSandboxesPerTenant Limit
	MaxTurnsPerTenant     Limit

	TurnTimeout                   time.Duration
	MaxTurnBytes                  int64
	EventRetention                time.Duration // zero: for ever
	DeleteSandboxWithConversation bool
	Prices                        Prices

	LeaseTTL          time.Duration
	ReconcileInterval time.Duration
	SweepInterval     time.Duration
	OrphanGrace       time.Duration
	DrainTimeout      time.Duration

	// Templates are the [templates.NAME] sections, still undecoded.
	Templates map[string]Section
}

// Limit is a cap on what one tenant may use: a positive number, [Auto] or [Off].
type Limit int

const (
	// Auto means no cap for a server that listens on loopback, and the
	// documented number for one that others can reach.
	Auto Limit = 0
	// Off means no cap, wherever the server listens.
	Off Limit = -1
)

// The numbers Auto stands for on a server that others can reach.
const (
	autoRate      = 1000
	autoSandboxes = 1000
	autoTurns     = 200
)

// Caps are the limits in force, with Auto resolved. Zero means no cap.
type Caps struct {
	RequestsPerSecond  int
	Burst              int
	SandboxesPerTenant int
	TurnsPerTenant     int
}

// Caps resolves the limits for the address this server listens on. A burst
// left to itself is twice the rate.
func (c *Config) Caps() Caps {
	caps := Caps{
		RequestsPerSecond:  c.resolve(c.RateLimit, autoRate),
		SandboxesPerTenant: c.resolve(c.MaxSandboxesPerTenant, autoSandboxes),
		TurnsPerTenant:     c.resolve(c.MaxTurnsPerTenant, autoTurns),
	}
	if caps.RequestsPerSecond > 0 {
		caps.Burst = max(int(c.RateBurst), caps.RequestsPerSecond)
		if c.RateBurst == Auto {
			caps.Burst = 2 * caps.RequestsPerSecond
		}
	}
	return caps
}

func (c *Config) resolve(l Limit, auto int) int {
	switch {
	case l > 0:
		return int(l)
	case l == Auto && !c.Loopback():
		return auto
	}
	return 0
}

// Loopback reports whether only this machine can reach the server.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
