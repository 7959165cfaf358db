package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
)

// superuser owns every database of a test server.
const superuser = "berth"

// Options changes how a [Cluster] runs. The zero value is right for most tests.
type Options struct {
	// Durable makes commits wait for the disk, as in production. Without it commits are fast, and a crash of the
	// machine loses them.
	Durable bool
	// Settings adds lines to postgresql.conf: {"max_connections": "20"}.
	Settings map[string]string
}

// Cluster is one PostgreSQL server with a private folder, socket and loopback port. It is safe for concurrent use.
type Cluster struct {
	bin, dir, password string
	who                account
	guard              *guard
	freePort           func() (int, error)

	mu     sync.Mutex
	port   int
	server *server // nil while stopped
}

// Start makes a new cluster and starts its server. [Cluster.Close] or the end of the process ends the server.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	bin, err := findBinaries(debianBins, exec.LookPath)
	if err != nil {
		return nil, err
	}
	who, err := serverAccount(os.Geteuid(), user.Lookup)
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(who, os.TempDir(), "/tmp")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, password: rand.Text(), who: who, freePort: freePort}
	if c.guard, err = c.startGuard(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.init(ctx, opts); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) init(ctx context.Context, opts Options) error {
	if err := c.initdb(ctx); err != nil {
		return err
	}
	if err := c.configure(opts); err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	return c.startOnFreePort(ctx)
}

// startOnFreePort starts the server on a free port. It tries again if another process takes the port before the
// server binds it.
func (c *Cluster) startOnFreePort(ctx context.Context) error {
	for try := 1; ; try++ {
		err := c.choosePort()
		if err == nil {
			err = c.Start(ctx)
		}
		if !errors.Is(err, errPortTaken) || try == 5 {
			return err
		}
	}
}

func (c *Cluster) initdb(ctx context.Context) error {
	pwfile := filepath.Join(c.dir, "password")
	if err := c.writeFile(pwfile, c.password); err != nil {
		return fmt.Errorf("write password file: %w", err)
	}
	// The socket needs no password: it is inside a private folder. The port is open to every local user and needs
	// one. The method is md5, because scram costs milliseconds for each of a test's many connections.
	cmd := c.as(exec.CommandContext(ctx, filepath.Join(c.bin, "initdb"), "--pgdata="+c.dataDir(),
		"--username="+superuser, "--pwfile="+pwfile, "--auth-local=trust", "--auth-host=md5",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run initdb: %w\n%s", err, out)
	}
	return nil
}

func (c *Cluster) configure(opts Options) error {
	settings := map[string]string{
		"unix_socket_directories": c.dir,
		"listen_addresses":        "127.0.0.1",
		"max_connections":         "300",
		"jit":                     "off",
	}
	if !opts.Durable {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	for name, value := range opts.Settings {
		settings[name] = value
	}
	var lines []string
	for name, value := range settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'\n", name, value))
	}
	slices.Sort(lines)
	text := ""
	for _, line := range lines {
		text += line
	}
	return c.writeFile(filepath.Join(c.dataDir(), "postgresql.auto.conf"), text)
}

// writeFile writes a file that the server's account can read and change.
func (c *Cluster) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if c.who == nil {
		return nil
	}
	return os.Chown(path, int(c.who.Uid), int(c.who.Gid))
}

func (c *Cluster) choosePort() error {
	port, err := c.freePort()
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.port = port
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr returns the server's loopback address as host:port. Stop and Start do not change it.
func (c *Cluster) Addr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
}

// URL returns the address of a database of this server. The empty name means the database postgres, which every
// server has. Stop and Start do not change the address.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     c.Addr(),
		Path:     "/" + cmp.Or(database, "postgres"),
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Exec runs one statement as the superuser. It connects through the socket, so that it also works when a test
// breaks connections to the port.
func (c *Cluster) Exec(ctx context.Context, sql string) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

func (c *Cluster) connect(ctx context.Context) (*pgx.Conn, error) {
	c.mu.Lock()
	port := c.port
	c.mu.Unlock()
	return pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", c.dir, port, superuser))
}

// Close kills the server and removes its files.
func (c *Cluster) Close() error {
	err := c.Kill()
	return errors.Join(err, c.guard.finish())
}

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) logFile() string { return filepath.Join(c.dir, "log") }
