// Package config holds all settings of `berth serve`.
//
// One table of settings ([Settings]) is the source of the loader, the command-line flags, the output of `berth
// config` and the reference page ([Reference]). [Load] resolves each setting as default < TOML file < environment <
// flag and records where the value came from. An invalid tuning value falls back to its default with a warning; an
// invalid address, path, URL, key or choice is a [Problem], and all of them are reported together in one [Error].
package config

import (
	"log/slog"
	"net"
	"strings"
	"time"
)

// Config is the effective configuration of one server. Its zero value is not usable; [Load] makes one.
type Config struct {
	Listen        string
	DataDir       string // absolute path
	DatabaseURL   DSN    // empty: SQLite in DataDir
	ObjectStore   string // empty: a directory in DataDir; "none": no object store
	MessageStore  string // empty: the database
	AllowedHosts  []string
	SlackAPIURL   string // of the Web API; empty: Slack's
	AdvertiseURL  string // URL at which clients reach this server; empty: unknown
	PreviewDomain string // domain whose subdomains serve the ports of sandboxes; empty: none
	TLSCert       string // files of the certificate and its key; both empty: plain HTTP
	TLSKey        string

	APIKey    Secret // admin key of tenant "default"; empty: the server generates one
	SecretKey Secret // root of all encryption and signing keys; empty: the server generates one

	SecretKeyPrevious []Secret // former values of SecretKey, used to decrypt old data

	DefaultTemplate string
	DefaultDriver   string
	FakeDriverDir   string // absolute path

	LogFormat string // "auto", "text" or "json"
	LogLevel  slog.Level

	SyncStaleThreshold         time.Duration
	SaveAfter                  time.Duration
	SaveEvery                  time.Duration
	SaveSpoolBytes             int64
	DiskLowWater               int64
	VersionMaxBytes            int64
	VersionMaxStored           int64
	DeletedRetention           time.Duration // zero: deleted versions are kept for ever
	KeepLast, KeepDaily        int           // number of versions to keep; both zero: all
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
	MaxAttachmentBytes            int64
	MaxPromptAttachments          int
	MaxPromptAttachmentBytes      int64
	MaxWaitingAttachmentBytes     int64
	EventRetention                time.Duration // zero: events are kept for ever
	DeleteSandboxWithConversation bool
	Prices                        Prices

	LeaseTTL          time.Duration
	ReconcileInterval time.Duration
	SweepInterval     time.Duration
	OrphanGrace       time.Duration
	DrainTimeout      time.Duration

	// Templates are the [templates.NAME] sections. Package template decodes them.
	Templates map[string]Section
}

// Limit is a cap on the use by one tenant: a positive number, [Auto] or [Off].
type Limit int

const (
	// Auto means no cap for a server that listens on loopback, and the documented number for all others.
	Auto Limit = 0
	// Off means no cap, even if other machines can reach the server.
	Off Limit = -1
)

// The values of Auto on a server that other machines can reach.
const (
	autoRate      = 1000
	autoSandboxes = 1000
	autoTurns     = 200
)

// Caps are the effective limits: Auto and Off are replaced by numbers. Zero means no cap.
type Caps struct {
	RequestsPerSecond  int
	Burst              int
	SandboxesPerTenant int
	TurnsPerTenant     int
}

// Caps returns the effective limits. They depend on the address that the server listens on. The burst is twice the rate
// if it is Auto, and never less than the rate.
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

// Loopback reports whether the server listens on a loopback address only.
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
