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

// patience is for whatever a server does at its own pace, on a machine that is busy.
const patience = time.Minute

// Options says what a fleet is made of.
type Options struct {
	Replicas int           // zero: one
	SQLite   bool          // one server, with the database in its data directory
	Apart    bool          // each replica has a data directory of its own
	Here     bool          // servers in this process: faster, and nobody can kill or pause them
	Faulty   bool          // Fleet.Database stands between the replicas and PostgreSQL
	Files    bool          // the fake driver's instances have files, which are saved to an S3 server
	LeaseTTL time.Duration // zero: the server's default
	Local    string        // templates of real sandboxes, as TOML; empty: they are the fake driver's
	Exe      string        // the servers' program; empty: Berth as it is in this tree
	Env      []string      // further settings, as NAME=value
}

// Fleet is a set of servers that share a database and a fake driver. Its methods may be called from
// several goroutines, those on one replica from one at a time.
type Fleet struct {
	Driver   *fake.Driver // the driver's directory, seen past the servers
	Dir      string       // where it is, for fake.SetFaults
	Database *Proxy       // nil unless Options.Faulty

	Objects *s3test.FaultProxy // before the S3 server; nil unless Options.Files

	t         testing.TB
	exe       string
	settings  []string
	inProcess bool
	transport http.RoundTripper
	data      func(replica int) string
	replicas  []*replica
}

// New starts the servers, all at once, and waits until each is ready. They end with the test; their
// logs are printed if it failed.
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

// place decides where the servers keep what they share.
func (f *Fleet) place(o Options) {
	shared := dir(f.t)
	f.data = func(int) string { return shared }
	if o.Apart {
		f.data = func(i int) string { return filepath.Join(shared, string(rune('a'+i))) }
	}
	if o.SQLite {
		return
	}
	database := storetest.Postgres(f.t)
	if o.Exe != "" { // another Berth's schema
		database = pgtest.New(f.t).URL
	}
	if o.Faulty {
		f.Database = NewProxy(f.t, database)
		database = f.Database.URL
	}
	f.settings = append(f.settings, "DATABASE_URL="+bounded(database))
}

// useFiles gives instances files, and an S3 server behind a proxy to save them to.
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

// dir makes a directory that goes with the test, in memory where there is one: how long a disk takes is not
// what these experiments are about.
func dir(t testing.TB) string {
	path, err := os.MkdirTemp("/dev/shm", "berth-fleet-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// bounded keeps the connections of many fleets at once within what one PostgreSQL allows.
func bounded(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err) // it is pgtest's own
	}
	q := u.Query()
	q.Set("pool_max_conns", "12")
	u.RawQuery = q.Encode()
	return u.String()
}

// startAll starts every server at once, as a machine that boots does.
func (f *Fleet) startAll() error {
	var g errgroup.Group
	for i := range f.replicas {
		g.Go(func() error { return f.Start(i) })
	}
	return g.Wait()
}
