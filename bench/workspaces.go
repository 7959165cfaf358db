package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// workspaceFigures prints the figures of saving and restoring trees of files, in comparison with other tools.
func workspaceFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	s, err := openTreeBench(ctx, size)
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

// show runs the contest of each row and prints its figure.
func (s *treeBench) show(ctx context.Context, print func(figure) error, rows ...row) error {
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

// small measures a tree of many small files.
func (s *treeBench) small(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := makeTree(s.tree(t), s.files, smallFile, s.files*folderShare/10_000); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d files of 4 KiB", s.files)
	perFile := []tool{s.tools[0], &copying{rclone: rclone{s, "copying"}}}
	if err := makeTree(s.tree(perFile[1]), s.files, smallFile, s.files*folderShare/10_000); err != nil {
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
	farAway = 20 * time.Millisecond  // round trip to a distant store
	apart   = 500 * time.Millisecond // delay that shows which requests wait for others, also on a busy machine
)

// far counts the requests of a new version, and measures a save to a distant store.
func (s *treeBench) far(ctx context.Context, print func(figure) error) error {
	p, err := openTrips(s.endpoint)
	if err != nil {
		return err
	}
	near := s.endpoint
	s.endpoint = p.endpoint
	defer func() { s.endpoint = near; p.close() }()
	ours, restic := s.tools[0], s.tools[1]
	peers := []tool{restic, &copying{rclone: rclone{s, "copying"}}} // the tools that make versions
	for _, t := range s.tools {                                     // requests that a tool makes once per address do not count
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

// trips counts the requests with which a tool saves one new version.
func (s *treeBench) trips(ctx context.Context, p *trips, t tool) (tripCounts, error) {
	p.slow(0)
	if err := s.changedPush(t).prepare(ctx); err != nil {
		return tripCounts{}, err
	}
	if _, each := t.(*copying); !each { // copying makes tens of thousands of requests, too many for a delay
		p.slow(apart)
	}
	p.reset()
	_, err := s.run(ctx, t.push())
	return p.taken(), err
}

// large measures a tree of few large files.
func (s *treeBench) large(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := s.forget(t); err != nil {
			return err
		}
		if err := makeTree(s.tree(t), largeFiles, s.big/largeFiles, 0); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d MiB in %d files", s.big>>20, largeFiles)
	return s.show(ctx, print,
		row{"first push, " + what, s.tools, (s.turns + 1) / 2, s.firstPush, []goal{{ratio: 1 / 1.5}}},
		row{"restore, " + what, s.tools, (s.turns + 1) / 2, s.restore, []goal{{ratio: 1 / 1.3}}},
	)
}

// grown measures a push without changes of a very large tree, and its memory. The peer is a push of a smaller tree.
func (s *treeBench) grown(ctx context.Context, print func(figure) error) error {
	for _, t := range s.tools {
		if err := s.forget(t); err != nil {
			return err
		}
	}
	few, many := &berth{s, "few"}, &berth{s, "many"}
	for t, files := range map[tool]int{few: s.files, many: s.grow} {
		if err := makeTree(s.tree(t), files, tinyFile, files*folderShare/10_000); err != nil {
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
