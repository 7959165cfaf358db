package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

const pageSize = 4096

// filledFile makes a database of many pages, closed, and returns its directory.
func filledFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{DataDir: dir, LeaseTTL: long})
	noError(t, err)
	raw := harness{"sqlite", store.Options{DataDir: dir}}.rawDB(t)
	_, err = raw.Exec(`
		with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000)
		insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host,
			state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes, created_at, active_at, due_at)
		select printf('box-%05d', i), 'acme', 'project', 'p' || i, '', 'default', 'fake', '', '{}', '{}', '',
			'pending', 'running', 0, 0, '', '', 0, 1, i, i, i from n`)
	noError(t, err)
	noError(t, raw.Close())
	noError(t, db.Close())
	return dir
}

// damage writes over pages in the middle of the file.
func damage(t *testing.T, dir string, pages ...int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "berth.db"), os.O_RDWR, 0)
	noError(t, err)
	defer f.Close()
	for _, page := range pages {
		_, err = f.WriteAt([]byte(strings.Repeat("\xa5lost", pageSize/5)), page*pageSize)
		noError(t, err)
	}
	noError(t, f.Sync())
}

func pagesOf(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "berth.db"))
	noError(t, err)
	return info.Size() / pageSize
}

func wantDamage(t *testing.T, dir string, err error) {
	t.Helper()
	wantCode(t, err, api.CodeDatabaseDamaged)
	var e *fault.Error
	errors.As(err, &e)
	for _, word := range []string{filepath.Join(dir, "berth.db") + " is damaged: "} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
	for _, word := range []string{"backup", ".recover", "berth doctor"} {
		if !strings.Contains(e.Hint, word) {
			t.Errorf("hint %q does not say %q", e.Hint, word)
		}
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	testkit.Proves(t, "X1")
	whole := filledFile(t)
	file, err := os.ReadFile(filepath.Join(whole, "berth.db"))
	noError(t, err)
	for part := range int64(6) {
		page := 40 + part*(pagesOf(t, whole)-45)/6
		t.Run(fmt.Sprint("page ", page), func(t *testing.T) {
			dir := t.TempDir()
			noError(t, os.WriteFile(filepath.Join(dir, "berth.db"), file, 0o600))
			damage(t, dir, page)
			for range 2 { // the first attempt freed the lock
				_, err := store.Open(t.Context(), store.Options{DataDir: dir})
				wantDamage(t, dir, err)
			}
			_, err := store.Status(t.Context(), store.Options{DataDir: dir})
			wantDamage(t, dir, err)
		})
	}
}

// An empty file is a damaged one if a server has used it: SQLite would begin a new database and remove the log.
func TestEmptiedFileIsRefused(t *testing.T) {
	testkit.Proves(t, "X1")
	for _, sign := range []string{"berth.db-wal", "host"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "berth.db")
		noError(t, os.WriteFile(path, nil, 0o600))
		noError(t, os.WriteFile(filepath.Join(dir, sign), []byte("rows"), 0o600))
		for range 2 {
			_, err := store.Open(t.Context(), store.Options{DataDir: dir})
			wantDamage(t, dir, err)
		}
		if left, err := os.ReadFile(filepath.Join(dir, sign)); string(left) != "rows" {
			t.Errorf("%s has %q now, %v", sign, left, err)
		}
	}
	dir := t.TempDir() // a first start was cut short
	noError(t, os.WriteFile(filepath.Join(dir, "berth.db"), nil, 0o600))
	db, err := store.Open(t.Context(), store.Options{DataDir: dir})
	noError(t, err)
	noError(t, db.Close())
}

// A file that takes longer to check opens, and is reported when the check has found something.
func TestDamageIsFoundInTheBackground(t *testing.T) {
	dir := filledFile(t)
	damage(t, dir, pagesOf(t, dir)/2)
	store.CheckFilesFor(t, time.Nanosecond)
	db, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if err != nil {
		wantDamage(t, dir, err) // the check was faster than that, or opening itself met the damage
		return
	}
	t.Cleanup(func() { _ = db.Close() })
	testkit.Eventually(t, time.Minute, func() error {
		if db.Health() == nil {
			return errors.New("no damage is reported")
		}
		return nil
	})
	wantDamage(t, dir, db.Health())
}

// A file that is damaged while it is open makes the scans fail, and the reason is kept.
func TestDamageUnderAnOpenDatabase(t *testing.T) {
	dir := filledFile(t)
	db, err := store.Open(t.Context(), store.Options{DataDir: dir, LeaseTTL: long})
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	noError(t, db.Health())
	var all []int64
	for page := int64(40); page < pagesOf(t, dir); page++ {
		all = append(all, page)
	}
	damage(t, dir, all...)
	_, err = db.Due(t.Context(), "", 1000)
	wantCode(t, err, api.CodeDatabaseDamaged)
	wantDamage(t, dir, db.Health())
	testkit.Eventually(t, time.Minute, func() error {
		if err := db.Health(); err == nil || !strings.Contains(err.Error(), "age ") { // the check names pages
			return fmt.Errorf("health is %v", err)
		}
		return nil
	})
}

// Scans that go on failing are reported by name and cause; the first that succeeds ends that.
func TestFailingScansAreReported(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		raw := h.rawDB(t)
		for _, scan := range backgroundScans(t.Context(), db) {
			noError(t, scan.run())
			_, err := raw.Exec(`alter table ` + scan.table + ` rename to away`)
			noError(t, err)
			for i := range 3 {
				if scan.run() == nil {
					t.Fatalf("%s succeeds without %s", scan.name, scan.table)
				}
				if reported := db.Health() != nil; reported != (i > 0) {
					t.Errorf("%s, after %d failures: %v", scan.name, i+1, db.Health())
				}
			}
			wantCode(t, db.Health(), api.CodeStoreUnavailable)
			for _, word := range []string{scan.name + " has failed 3 times in a row", scan.table} {
				if err := db.Health(); err != nil && !strings.Contains(err.Error(), word) {
					t.Errorf("health %q does not say %q", err, word)
				}
			}
			_, err = raw.Exec(`alter table away rename to ` + scan.table)
			noError(t, err)
			noError(t, scan.run())
			noError(t, db.Health())
		}
	})
}

// backgroundScan is a statement that a server repeats by itself, and a table that it reads.
type backgroundScan struct {
	name, table string
	run         func() error
}

func backgroundScans(ctx context.Context, db *store.DB) []backgroundScan {
	return []backgroundScan{
		{"claim due sandboxes", "leases", func() error { _, err := db.Due(ctx, "", 10); return err }},
		{"claim turns", "hosts", func() error { _, err := db.TurnRuns().ListDue(ctx, "h", 10); return err }},
		{"list waiting turns", "turns", func() error { _, err := db.TurnRuns().WaitingSandboxes(ctx, 10); return err }},
		{"forget events", "turn_log", func() error { _, err := db.TurnRuns().Forget(ctx, time.Hour, 10); return err }},
		{"claim messages of kind k", "outbox", func() error {
			_, err := db.Outbox().ClaimMessages(ctx, store.Claiming{Kind: "k", TTL: time.Hour})
			return err
		}},
		{"list saves", "saves", func() error { _, err := db.Saves().Due(ctx, "h", time.Hour, 10); return err }},
		{"count saves", "saves", func() error { _, _, err := db.Saves().CountOwed(ctx); return err }},
		{"record host", "hosts", func() error { _, err := db.Hosts().RenewHost(ctx, "h", "", time.Now()); return err }},
		{"list instances", "sandboxes", func() error { _, err := db.ListInstances(ctx, "fake", "h", "", 10); return err }},
		{"count unsaved sandboxes", "sandboxes", func() error { _, _, err := db.Syncs().CountUnsaved(ctx); return err }},
		{"list workspaces with versions", "sandboxes", func() error { _, err := db.Versions().ListSaved(ctx, "", 10); return err }},
		{"list versions to remove", "sandboxes", func() error { _, err := db.Versions().ListPurgeable(ctx, time.Hour, "", 10); return err }},
		{"expire idempotency keys", "idempotency_keys", func() error { _, err := db.ExpireKeys(ctx, time.Now(), 10); return err }},
		{"expire holds", "holds", func() error { _, err := db.Holds().ExpireHolds(ctx, 10); return err }},
		{"expire places", "reservations", func() error { _, err := db.ExpireReservations(ctx, 10); return err }},
	}
}
