package cli

import (
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
	"github.com/berthdev/berth/internal/config"
)

const (
	defaultServer = "http://127.0.0.1:7070"
	mostKeyBytes  = 4096
)

// online adds the flags of a command that talks to a server. None of them holds a secret: arguments
// are visible to every user of the machine.
func (f *frame) online(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`URL` of the server (env BERTH_SERVER; default "+defaultServer+")")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` that holds the API key (default: env BERTH_API_KEY, else "+auth.AdminKeyFile+" in the data directory)")
	flags.StringVar(&f.dataDir, "data-dir", "", "data `DIRECTORY` of a server on this machine (env BERTH_DATA_DIR)")
	return cmd
}

// connection is a client and where its key came from.
type connection struct {
	*client.Client
	looked string // where no key was found; empty: there is one
}

func (f *frame) connect(opts ...client.Option) (*connection, error) {
	server := first(f.server, f.env("BERTH_SERVER"), defaultServer)
	found, err := f.findKey(server)
	if err != nil {
		return nil, err
	}
	opts = append([]client.Option{client.WithUserAgent("berth/" + f.version().Version), client.WithAttempts(3)}, opts...)
	if found.check != nil {
		opts = append(opts, client.WithPeerCheck(found.check))
	}
	c, err := client.New(server, found.key, opts...)
	if err != nil {
		return nil, &hinted{err, "--server and BERTH_SERVER take an address such as " + defaultServer + "."}
	}
	return &connection{c, found.looked}, nil
}

// explain adds to a refused key what was tried to find one.
func (c *connection) explain(err error) error {
	var p *api.Problem
	if c.looked == "" || !errors.As(err, &p) || p.Code != api.CodeUnauthenticated {
		return err
	}
	return &hinted{err, "No API key was found: " + c.looked + ". Set BERTH_API_KEY or give --key-file."}
}

// foundKey is a key and whom it may be sent to.
type foundKey struct {
	key    string
	looked string               // where no key was found
	check  func(net.Addr) error // who may have it; nil: whoever the person named
}

// findKey takes the key of --key-file, of the environment, or of a server's own data directory on
// this machine. The last one is offered to this machine alone: another server has no use for it but
// a bad one.
func (f *frame) findKey(server string) (foundKey, error) {
	if f.keyFile != "" {
		key, err := f.readKey(f.keyFile)
		return foundKey{key: key}, err
	}
	if key := f.env("BERTH_API_KEY"); key != "" {
		return foundKey{key: key}, nil
	}
	if !loopback(server) {
		return foundKey{looked: "BERTH_API_KEY is not set, and the key in the data directory is only for servers on this machine"}, nil
	}
	return f.keptKey(filepath.Join(f.localDataDir(), auth.AdminKeyFile))
}

// keptKey takes the key that a server of this machine keeps, for whoever could read it anyway.
func (f *frame) keptKey(path string) (foundKey, error) {
	key, err := f.readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundKey{looked: fmt.Sprintf("BERTH_API_KEY is not set and %s does not exist", path)}, nil
	}
	if err != nil {
		return foundKey{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return foundKey{}, err
	}
	return foundKey{key: key, check: trusted(info.Sys().(*syscall.Stat_t).Uid, socketTables...)}, nil
}

func (f *frame) localDataDir() string {
	return first(f.dataDir, f.env("BERTH_DATA_DIR"), config.DefaultDataDir(f.Env, os.Geteuid() == 0))
}

func (f *frame) readKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostKeyBytes) {
		err = fmt.Errorf("%s is not a file that holds a key", path)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", &hinted{fmt.Errorf("read the API key: %w", err), "Run as the user that owns it, set BERTH_API_KEY, or name another file with --key-file."}
	}
	if info.Mode().Perm()&0o077 != 0 {
		f.notef("berth: warning: other users can read %s; 'chmod 600 %s' ends that", path, path)
	}
	return strings.TrimSpace(string(data)), nil
}

// loopback says whether the address is this machine itself.
func loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
