package remote

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

// DefaultServer is the address of a server with default settings.
const (
	DefaultServer = "http://127.0.0.1:7070"
	maxKeyBytes   = 4096
)

// Online adds the flags of a command that talks to a server. No flag takes a secret, because all users of the machine
// can see arguments.
func (r *Remote) Online(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.StringVar(&r.Server, "server", "", "`URL` of the server (env BERTH_SERVER; default "+DefaultServer+")")
	flags.StringVar(&r.KeyFile, "key-file", "", "`FILE` that holds the API key (default: env BERTH_API_KEY, else "+auth.AdminKeyFile+" in the data directory)")
	flags.StringVar(&r.DataDir, "data-dir", "", "data `DIRECTORY` of a server on this machine (env BERTH_DATA_DIR)")
	return cmd
}

// Connection is a client with the address of its server.
type Connection struct {
	*client.Client
	Server      string // address of the server
	noKeyReason string // why no key was found, for the user; empty: a key was found
}

// Connect returns a client for the server in the flags or the environment.
func (r *Remote) Connect(opts ...client.Option) (*Connection, error) {
	server := ui.First(r.Server, r.Getenv("BERTH_SERVER"), DefaultServer)
	found, err := r.findKey(server)
	if err != nil {
		return nil, err
	}
	opts = append([]client.Option{client.WithUserAgent("berth/" + r.Version), client.WithAttempts(3), client.WithNotices(r.notice)}, opts...)
	if found.check != nil {
		opts = append(opts, client.WithPeerCheck(found.check))
	}
	if file := r.Getenv("BERTH_CA_FILE"); file != "" {
		pool, err := readCAs(file)
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.WithRootCAs(pool))
	}
	c, err := client.New(server, found.key, opts...)
	if err != nil {
		return nil, ui.Hint(err, "--server and BERTH_SERVER take an address such as "+DefaultServer+".")
	}
	return &Connection{c, server, found.noKeyReason}, nil
}

// notice prints what happened to a sandbox's files since its last use. The pages of a list repeat it.
func (r *Remote) notice(text string) {
	if old := r.noticed.Swap(&text); old == nil || *old != text {
		r.Notef("berth: note: %s", ui.Clean(text))
	}
}

// readCAs returns the CA certificates in a file.
func readCAs(file string) (*x509.CertPool, error) {
	const hint = "BERTH_CA_FILE names a PEM file with the certificate of the authority that signed the server's, or with the server's own."
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("read BERTH_CA_FILE: %w", err), hint)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, ui.Hint(fmt.Errorf("read BERTH_CA_FILE: %s holds no certificate", file), hint)
	}
	return pool, nil
}

// Explain adds the reason why no key was found to the error of a request without a key.
func (c *Connection) Explain(err error) error {
	var p *api.Problem
	if c.noKeyReason == "" || !errors.As(err, &p) || p.Code != api.CodeUnauthenticated {
		return err
	}
	return ui.Hint(err, "No API key was found: "+c.noKeyReason+". Set BERTH_API_KEY or give --key-file.")
}

// foundKey is a key and the peers it may be sent to.
type foundKey struct {
	key         string
	noKeyReason string               // why no key was found; empty: there is a key
	check       func(net.Addr) error // returns an error if the peer must not get the key; nil: any peer may
}

// findKey returns the key of --key-file, of the environment, or of the data directory on this machine. The last one is
// sent only to servers on this machine, because another server could steal it.
func (r *Remote) findKey(server string) (foundKey, error) {
	if r.KeyFile != "" {
		key, err := r.readKey(r.KeyFile)
		return foundKey{key: key}, err
	}
	if key := r.Getenv("BERTH_API_KEY"); key != "" {
		return foundKey{key: key}, nil
	}
	if !Loopback(server) {
		return foundKey{noKeyReason: "BERTH_API_KEY is not set, and the key in the data directory is only for servers on this machine"}, nil
	}
	return r.localKey(filepath.Join(r.localDataDir(), auth.AdminKeyFile))
}

// localKey returns the admin key of a server on this machine. It is sent only to a server that runs as the file's owner
// or as root.
func (r *Remote) localKey(path string) (foundKey, error) {
	key, err := r.readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundKey{noKeyReason: fmt.Sprintf("BERTH_API_KEY is not set and %s does not exist", path)}, nil
	}
	if err != nil {
		return foundKey{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return foundKey{}, err
	}
	return foundKey{key: key, check: peerCheck(info.Sys().(*syscall.Stat_t).Uid, socketTables...)}, nil
}

func (r *Remote) localDataDir() string {
	return ui.First(r.DataDir, r.Getenv("BERTH_DATA_DIR"), config.DefaultDataDir(r.Env, os.Geteuid() == 0))
}

func (r *Remote) readKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxKeyBytes) {
		err = fmt.Errorf("%s is not a file that holds a key", path)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", ui.Hint(fmt.Errorf("read the API key: %w", err), "Run as the user that owns it, set BERTH_API_KEY, or name another file with --key-file.")
	}
	if info.Mode().Perm()&0o077 != 0 {
		r.Notef("berth: warning: other users can read %s; 'chmod 600 %s' ends that", path, path)
	}
	return strings.TrimSpace(string(data)), nil
}

// Loopback reports whether the address of a server is on this machine.
func Loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}
