package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// workspaceFigures prints what it costs to save trees of files and to bring them back, ours and that of the
// tools which people would use instead.
func workspaceFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	s, err := openShed(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, bench := range []func(context.Context, func(figure) error) error{s.small, s.large, s.grown} {
		if err := bench(ctx, print); err != nil {
			return err
		}
	}
	return nil
}

// row is one comparison of tools.
type row struct {
	name  string
	tools []tool
	n     int
	step  func(tool) entrant
	goals []goal
}

// show runs the rows, each as interleaved rounds of its tools.
func (s *shed) show(ctx context.Context, print func(figure) error, rows ...row) error {
	for _, r := range rows {
		entrants := make([]entrant, len(r.tools))
		for i, t := range r.tools {
			entrants[i] = r.step(t)
		}
		f, err := contest(ctx, r.name, r.n, entrants)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		f.goals = r.goals
		if err := print(f); err != nil {
			return err
		}
	}
	return nil
}

// small is the rows about many small files.
func (s *shed) small(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := plant(s.tree(t), s.files, smallFile, s.files*folderShare/10_000); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d files of 4 KiB", s.files)
	perFile := []tool{s.tools[0], &copying{rclone: rclone{s, "copying"}}}
	if err := plant(s.tree(perFile[1]), s.files, smallFile, s.files*folderShare/10_000); err != nil {
		return err
	}
	err := s.show(ctx, print,
		row{"first push, " + what, s.tools, s.turns, s.firstPush, []goal{{ratio: 1. / 4}}},
		row{"push, nothing changed", s.tools, 2 * s.turns, s.push, []goal{{ratio: 1. / 12}}},
		row{"push, 1 % changed", s.tools, 2 * s.turns, s.changedPush, []goal{{ratio: 1. / 7}}},
		row{"new version after 1 %, to a tool that stores files", perFile, (s.turns + 1) / 2, s.changedPush, []goal{{ratio: 1. / 60}}},
		row{"restore into an empty folder", s.tools, s.turns, s.restore, []goal{{ratio: 1. / 7}}},
		row{"pull, nothing changed", s.tools, 2 * s.turns, s.pull, []goal{{ratio: 1. / 15}}},
	)
	if err != nil {
		return err
	}
	return s.far(ctx, print)
}

const (
	farAway = 20 * time.Millisecond  // the round trip to a store that is not near
	apart   = 500 * time.Millisecond // one that is long enough to tell what waits for it, on a busy machine too
)

// far is the rows about the requests of a version, and about a store that is far away.
func (s *shed) far(ctx context.Context, print func(figure) error) error {
	p, err := openTrips(s.endpoint)
	if err != nil {
		return err
	}
	near := s.endpoint
	s.endpoint = p.endpoint
	defer func() { s.endpoint = near; p.close() }()
	ours, restic := s.tools[0], s.tools[1]
	peers := []tool{restic, &copying{rclone: rclone{s, "copying"}}} // those that make versions
	for _, t := range s.tools {                                     // what is asked once of a new address is asked now
		if _, err := s.changedPush(t).do(ctx); err != nil {
			return err
		}
	}
	mine, err := s.trips(ctx, p, ours)
	if err != nil {
		return err
	}
	requests := figure{name: "requests of a new version after 1 %", ours: float64(mine.requests), n: 1, goals: []goal{{ours: 5}}}
	chain := figure{name: "round trips one after another, the same", ours: float64(mine.chain), n: 1, goals: []goal{{ours: 3}}}
	for _, t := range peers {
		theirs, err := s.trips(ctx, p, t)
		if err != nil {
			return err
		}
		requests.least(t.name(), float64(theirs.requests))
		chain.least(t.name(), float64(theirs.chain))
	}
	for _, f := range []figure{requests, chain} {
		if err := print(f); err != nil {
			return err
		}
	}
	p.slow(farAway)
	return s.show(ctx, print, row{"push, 1 % changed, round trips of 20 ms", s.tools, s.turns, s.changedPush, nil})
}

// trips is what one version takes.
func (s *shed) trips(ctx context.Context, p *trips, t tool) (taken, error) {
	p.slow(0)
	if err := s.changedPush(t).prepare(ctx); err != nil {
		return taken{}, err
	}
	if _, each := t.(*copying); !each { // tens of thousands of trips need not be long
		p.slow(apart)
	}
	p.reset()
	_, err := s.run(ctx, t.push())
	return p.taken(), err
}

// large is the rows about few large files.
func (s *shed) large(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := s.forget(t); err != nil {
			return err
		}
		if err := plant(s.tree(t), largeFiles, s.big/largeFiles, 0); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d MiB in %d files", s.big>>20, largeFiles)
	return s.show(ctx, print,
		row{"first push, " + what, s.tools, (s.turns + 1) / 2, s.firstPush, []goal{{ratio: 1 / 1.5}}},
		row{"restore, " + what, s.tools, (s.turns + 1) / 2, s.restore, []goal{{ratio: 1 / 1.3}}},
	)
}

// grown is how a push of nothing grows with the tree, and what memory it takes.
func (s *shed) grown(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := s.forget(t); err != nil {
			return err
		}
	}
	few, many := &berth{s, "few"}, &berth{s, "many"}
	for t, files := range map[tool]int{few: s.files, many: s.grow} {
		if err := plant(s.tree(t), files, tinyFile, files*folderShare/10_000); err != nil {
			return err
		}
		if _, err := s.firstPush(t).do(ctx); err != nil {
			return err
		}
	}
	entrants := []entrant{s.push(many), s.push(few)}
	f, err := contest(ctx, fmt.Sprintf("push, nothing changed, %d files to %d", s.grow, s.files), s.turns, entrants)
	if err != nil {
		return err
	}
	f.note, f.goals = fmt.Sprintf("at most %d MiB of memory", f.rss>>20), []goal{{ratio: 25}}
	return print(f)
}
