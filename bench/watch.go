package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// watch measures the cost of many unused sandboxes: the server's CPU time in a minute, with all probes at their default
// intervals, and the time of its answers. The peer is a server with few sandboxes in the same minute.
func watch(ctx context.Context, p places, print func(figure) error) error {
	for _, engine := range []string{"sqlite", "postgres"} {
		if err := watchOn(ctx, p, engine, print); err != nil {
			return fmt.Errorf("watch, %s: %w", engine, err)
		}
	}
	return nil
}

func watchOn(ctx context.Context, p places, engine string, print func(figure) error) (err error) {
	var servers [2]*process
	var homes [2]home
	for i, c := range []crowd{{p.crowd, true}, {0, true}} {
		if homes[i], err = p.makeHome(ctx, engine, fmt.Sprintf("watch_%d_%s", c.n, engine), c); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, homes[i].remove()) }()
		if servers[i], err = serve(ctx, p.berth, homes[i].dir, homes[i].url); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, servers[i].end()) }()
		if err := servers[i].makeFew(ctx); err != nil {
			return err
		}
	}
	// By then each sandbox was probed once, and the next probes are spread over time.
	if err := pause(ctx, p.minute+p.minute/4); err != nil {
		return err
	}
	used, err := usedBy(ctx, servers, p.minute)
	if err != nil {
		return err
	}
	late, err := homes[0].countLate(ctx, 2*p.minute)
	if err != nil {
		return err
	}
	times, err := interleave(ctx, p.samples/4, timed(servers[0].ensureOne), timed(servers[1].ensureOne))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s, %d idle sandboxes to %d:", engine, p.crowd, few)
	return errors.Join(
		print(figure{name: name + " CPU per minute", ours: used[0], peer: used[1], unit: "s", n: p.crowd,
			note: fmt.Sprintf("the server's own; %d looked at late", late)}),
		print(figure{name: name + " ensure, p50", ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: len(times[0])}),
		print(figure{name: name + " ensure, p99", ours: quantile(times[0], .99), peer: quantile(times[1], .99), unit: "s", n: len(times[0])}))
}

// usedBy returns the CPU time of each process per minute, in seconds. It measures both in the same window.
func usedBy(ctx context.Context, servers [2]*process, window time.Duration) (used [2]float64, err error) {
	var before [2]time.Duration
	for i, s := range servers {
		if before[i], err = s.cpu(); err != nil {
			return used, err
		}
	}
	if err := pause(ctx, window); err != nil {
		return used, err
	}
	for i, s := range servers {
		after, err := s.cpu()
		if err != nil {
			return used, err
		}
		// The value is at least one tick, because a figure needs a peer above zero.
		used[i] = max(after-before[i], time.Second/ticks).Seconds() * time.Minute.Seconds() / window.Seconds()
	}
	return used, nil
}

// countLate counts the sandboxes whose last probe is older than since.
func (h home) countLate(ctx context.Context, since time.Duration) (n int, err error) {
	db, err := sql.Open(h.source())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, `select count(*) from sandboxes where probed_at < `+h.at(time.Now().Add(-since))).Scan(&n)
	return n, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
