package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// few is the number of sandboxes that are requested again and again.
const few = 10

// ensure measures requests for a running sandbox through HTTP, on a server with few sandboxes and on one with many. The
// peer is a direct query of the same row, in turn with the requests. The difference is the cost of Berth.
func ensure(ctx context.Context, p places, print func(figure) error) error {
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, rows := range []int{few, p.crowd} {
			if err := ensureAmong(ctx, p, engine, rows, print); err != nil {
				return fmt.Errorf("ensure, %s, %d sandboxes: %w", engine, rows, err)
			}
		}
	}
	return nil
}

func ensureAmong(ctx context.Context, p places, engine string, rows int, print func(figure) error) (err error) {
	h, err := p.makeHome(ctx, engine, fmt.Sprintf("ensure_%d_%s", rows, engine), crowd{n: max(0, rows-few)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.remove()) }()
	server, err := serve(ctx, p.berth, h.dir, h.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	if err := server.makeFew(ctx); err != nil {
		return err
	}
	bare, err := openBare(ctx, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	if err := ensureAtOnce(ctx, p.sizes, fmt.Sprintf("ensure, %d connections to %d, %s, %d sandboxes: time each", manyCallers, callers, engine, rows), print, server); err != nil {
		return err
	}
	return measureEnsure(ctx, p.sizes, fmt.Sprintf("ensure through HTTP to a bare query, %s, %d sandboxes:", engine, rows), engine, print,
		server.ensureOne, func(ctx context.Context) error { return bare.one(ctx, rand.IntN(few)) })
}

// manyCallers is the number of concurrent callers in the measurement of queues.
const manyCallers = 64

// ensureAtOnce measures a server's throughput with many connections. The peer is the same server with few connections,
// in turn: queues in the server must not reduce the throughput. The figure is the time divided by the number of
// requests, so that less is better, as in other figures.
func ensureAtOnce(ctx context.Context, size sizes, name string, print func(figure) error, server *process) error {
	const rounds = 9
	many, few := newCaller(server.base, manyCallers), newCaller(server.base, callers)
	each := func(c caller, n int) contender {
		do := (&process{caller: c}).ensureOne
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			done, err := flat(ctx, n, do, size.flatOut/3)
			return time.Since(began) / time.Duration(max(done, 1)), err
		}
	}
	f, err := compare(ctx, name, rounds, each(many, manyCallers), each(few, callers), goal{ratio: 1})
	if err != nil {
		return err
	}
	f.note = fmt.Sprintf("%.0f/s to %.0f/s", 1/f.ours, 1/f.peer)
	return print(f)
}

func measureEnsure(ctx context.Context, size sizes, name, engine string, print func(figure) error, ours, peer func(context.Context) error) error {
	times, err := interleave(ctx, size.samples, timed(ours), timed(peer))
	if err != nil {
		return err
	}
	rates, err := flatRates(ctx, size.flatOut, ours, peer)
	if err != nil {
		return err
	}
	var goals []goal
	if engine == "sqlite" {
		goals = []goal{{ours: 0.005}}
	}
	return errors.Join(
		print(figure{name: name + " p50", ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: size.samples}),
		print(figure{name: name + " p99", ours: quantile(times[0], .99), peer: quantile(times[1], .99), unit: "s", n: size.samples, goals: goals}),
		print(figure{name: fmt.Sprintf("%s %d at once", name, callers), ours: rates[0], peer: rates[1], unit: "/s", n: callers, note: "more is better"}))
}

// makeFew makes the few sandboxes that the benchmarks request.
func (p *process) makeFew(ctx context.Context) error {
	for i := range few {
		if err := p.ensure(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// ensureOne requests a random one of the few sandboxes.
func (p *process) ensureOne(ctx context.Context) error { return p.ensure(ctx, rand.IntN(few)) }

// ensured returns the name of the i-th of the few sandboxes.
func ensured(i int) string { return fmt.Sprint("ensured-", i) }

// ensure requests the i-th of the few sandboxes. It returns an error if the sandbox is not running.
func (p *process) ensure(ctx context.Context, i int) error {
	var got struct {
		State string `json:"state"`
	}
	if err := p.call(ctx, "POST", "", map[string]any{"name": ensured(i)}, &got); err != nil {
		return err
	}
	if got.State != "running" {
		return fmt.Errorf("%s is %s", ensured(i), got.State)
	}
	return nil
}

// bare reads rows of sandboxes with plain SQL.
type bare struct {
	*sql.DB
	query *sql.Stmt
}

func openBare(ctx context.Context, h home) (*bare, error) {
	db, err := sql.Open(h.source())
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(callers)
	query, err := db.PrepareContext(ctx, `select * from sandboxes where tenant = '`+defaultTenant+`' and owner_kind = 'sandbox' and owner_id = $1 and deleted_at is null`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bare{db, query}, nil
}

func (b *bare) one(ctx context.Context, i int) error {
	rows, err := b.query.QueryContext(ctx, ensured(i))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	row := make([]any, len(columns))
	for i := range row {
		row[i] = new(any)
	}
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(row...); err != nil {
			return err
		}
	}
	if n != 1 {
		return fmt.Errorf("%s has %d rows", ensured(i), n)
	}
	return rows.Err()
}
