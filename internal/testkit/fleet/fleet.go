package fleet

import (
	"cmp"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"golang.org/x/sync/errgroup"
)

// Key is the admin key of every fleet.
const Key = "fleet-key-of-thirty-two-characters"

// patience is the maximum time to wait for a server on a busy machine.
const patience = time.Minute

// Options configures a fleet.
type Options struct {
	Replicas int           // number of servers; zero: one
	SQLite   bool          // use SQLite in the data directory, for a fleet of one server
	Apart    bool          // give each replica a separate data directory
	Here     bool          // run the servers in this process: faster, but they cannot be killed or paused
	Faulty   bool          // put Fleet.Database between the replicas and PostgreSQL
	Files    bool          // give the fake driver's instances files, which are saved to an S3 server
	LeaseTTL time.Duration // zero: the server's default
	Local    string        // templates of real sandboxes, as TOML; empty: use the fake driver
	Exe      string        // path of the servers' program; empty: Berth built from this tree
	Env      []string      // additional settings, as NAME=value
}

// Fleet is a set of servers that share a database and a fake driver. Its methods are safe for concurrent use, except
// that only one goroutine at a time may start, stop or kill a given replica.
type Fleet struct {
	Driver   *fake.Driver // access to the fake driver's state without a server
	Dir      string       // the fake driver's directory, for fake.SetFaults
	Database *Proxy       // proxy in front of PostgreSQL; nil unless Options.Faulty

	Objects *s3test.FaultProxy // proxy in front of the S3 server; nil unless Options.Files

	t         testing.TB
	exe       string
	settings  []string
	inProcess bool
	transport http.RoundTripper
	data      func(replica int) string
	replicas  []*replica
}

// New starts all servers at once and waits until each is ready. When the test ends, the servers are killed, and if the
// test failed, their logs are printed.
func New(t testing.TB, o Options) *Fleet {
	t.Helper()
	f := &Fleet{t: t, exe: cmp.Or(o.Exe, testkit.Binary(t)), Dir: dir(t), transport: transport(t), inProcess: o.Here}
	var err error
	if f.Driver, err = fake.New(f.Dir); err != nil {
		t.Fatal(err)
	}
	f.place(o)
	f.settings = append(f.settings,
		"BERTH_API_KEY="+Key, "BERTH_LISTEN=127.0.0.1:0",
		"BERTH_DEFAULT_DRIVER=fake", "BERTH_FAKE_DRIVER_DIR="+f.Dir)
	if o.Files {
		f.useFiles()
	}
	if o.LeaseTTL > 0 {
		f.settings = append(f.settings, "BERTH_LEASE_TTL="+o.LeaseTTL.String())
	}
	if o.Local != "" {
		f.useLocal(o.Local)
	}
	f.settings = append(f.settings, o.Env...)
	for i := range max(o.Replicas, 1) {
		f.replicas = append(f.replicas, f.newReplica(i))
	}
	if err := f.startAll(); err != nil {
		t.Fatal(err)
	}
	return f
}

// place chooses the data directories and the database.
func (f *Fleet) place(o Options) {
	shared := dir(f.t)
	f.data = func(int) string { return shared }
	if o.Apart {
		f.data = func(i int) string { return filepath.Join(shared, string(rune('a'+i))) }
		f.settings = append(f.settings, "BERTH_SECRET_KEY=secret-of-all-machines-of-a-fleet")
	}
	if o.SQLite {
		return
	}
	database := storetest.Postgres(f.t)
	if o.Exe != "" { // another version of Berth needs another schema
		database = pgtest.New(f.t).URL
	}
	if o.Faulty {
		f.Database = NewProxy(f.t, database)
		database = f.Database.URL
	}
	f.settings = append(f.settings, "DATABASE_URL="+bounded(database))
}

// useFiles gives the fake driver's instances files. The servers save the files to an S3 server behind a proxy.
func (f *Fleet) useFiles() {
	if err := fake.MakeFiles(f.Dir); err != nil {
		f.t.Fatal(err)
	}
	bucket := s3test.New(f.t)
	f.Objects = s3test.Proxy(f.t, bucket.Endpoint)
	bucket.Endpoint = f.Objects.Endpoint
	f.settings = append(f.settings, "BERTH_OBJECT_STORE="+bucket.URL("fleet"))
	for name, value := range s3test.Env() {
		f.settings = append(f.settings, name+"="+value)
	}
}

// dir makes a directory that is removed when the test ends. The directory is in memory if the machine has /dev/shm,
// because these tests do not measure the disk.
func dir(t testing.TB) string {
	path, err := os.MkdirTemp("/dev/shm", "berth-fleet-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// bounded limits the connections of each server, so that many fleets can use one PostgreSQL at once.
func bounded(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // pgtest made the URL
	}
	q := u.Query()
	q.Set("pool_max_conns", "12")
	u.RawQuery = q.Encode()
	return u.String()
}

// startAll starts all servers at once, as a machine does at boot.
func (f *Fleet) startAll() error {
	var g errgroup.Group
	for i := range f.replicas {
		g.Go(func() error { return f.Start(i) })
	}
	return g.Wait()
}
