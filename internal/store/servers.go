package store

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Servers that share PostgreSQL record which secrets they know, so that a new secret is used only when all of them
// can decrypt with it.

const (
	// serverAlive is the time that a server counts as running after its last renewal.
	serverAlive = time.Minute
	renewEvery  = 5 * time.Second
)

// liveServer is a row of the table servers.
type liveServer struct {
	id, name string
	secrets  []string
	writes   string
}

func (s *Secrets) liveServers(ctx context.Context) ([]liveServer, error) {
	return all(ctx, s.db.write, func(row scanner) (s liveServer, err error) {
		err = row.Scan(&s.id, &s.name, document{&s.secrets}, &s.writes)
		return s, err
	}, `select id, name, secrets, writes from servers where seen_at > {now-$1} order by id`, serverAlive.Microseconds())
}

// join adds this server's row.
func (s *Secrets) join(ctx context.Context) error {
	s.mu.Lock()
	s.server = NewID()
	s.mu.Unlock()
	if err := s.renew(ctx); err != nil {
		return err
	}
	return s.promote(ctx)
}

func (s *Secrets) renew(ctx context.Context) error {
	s.mu.RLock()
	id, known, writes := s.server, s.ring.Fingerprints(), s.writes
	s.mu.RUnlock()
	machine, _ := os.Hostname()
	begun := time.Now()
	_, err := s.db.write.exec(ctx, `
		insert into servers (id, name, secrets, writes, seen_at) values ($1, $2, $3, $4, {now})
		on conflict (id) do update set writes = excluded.writes, seen_at = excluded.seen_at`,
		id, fmt.Sprintf("%s, process %d", machine, os.Getpid()), listArg(known), writes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.renewed = begun
	s.mu.Unlock()
	_, err = s.db.write.exec(ctx, `delete from servers where seen_at < {now-$1}`, (10 * serverAlive).Microseconds())
	return err
}

// leave removes this server's row, so that other servers need not wait until it expires.
func (s *Secrets) leave() {
	s.mu.RLock()
	id := s.server
	s.mu.RUnlock()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := s.db.write.exec(ctx, `delete from servers where id = $1`, id); err != nil {
		s.db.log.Debug("the server's row is left to become old", "error", err)
	}
}
