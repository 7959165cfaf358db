package files

import (
	"context"
	"path"
	"strings"
)

// TreeOptions say how much of a tree to read.
type TreeOptions struct {
	Path   string // a directory, as Clean returns it
	Depth  int    // how many levels; zero is three
	Hidden bool   // names that begin with a dot, too
	Limit  int    // how many nodes at most, besides the root; zero is 1,000
}

// Node is one file in a tree.
type Node struct {
	Info
	Children  []*Node // of a directory that was looked into
	Truncated bool    // it has more children than these
}

// Tree reads a tree level by level, so that a limit cuts off what is deep before what is near.
func Tree(ctx context.Context, fsys FS, o TreeOptions) (root *Node, truncated bool, err error) {
	if o.Depth <= 0 {
		o.Depth = 3
	}
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	info, err := fsys.Stat(ctx, o.Path)
	if err != nil {
		return nil, false, err
	}
	root = &Node{Info: info}
	t := &grower{TreeOptions: o, ctx: ctx, fs: fsys, left: o.Limit}
	if err := t.children(root); err != nil {
		return nil, false, err
	}
	for level, depth := root.Children, 1; len(level) > 0 && depth < o.Depth; depth++ {
		if level, err = t.grow(level); err != nil {
			return nil, false, err
		}
	}
	return root, t.cut, nil
}

// grower reads children while it may.
type grower struct {
	TreeOptions
	ctx  context.Context
	fs   FS
	left int
	cut  bool
}

// grow reads the children of one level and returns them all.
func (t *grower) grow(level []*Node) (next []*Node, err error) {
	for _, n := range level {
		if !n.Mode.IsDir() || len(n.Path) > MaxPath {
			continue
		}
		if err := passable(t.children(n)); err != nil {
			return nil, err
		}
		next = append(next, n.Children...)
	}
	return next, nil
}

func (t *grower) children(n *Node) error {
	n.Children = []*Node{}
	for after := ""; ; {
		size := min(t.left+1, 1000)
		entries, err := t.fs.ReadDir(t.ctx, n.Path, after, size)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !t.Hidden && strings.HasPrefix(path.Base(e.Path), ".") {
				continue
			}
			if t.left == 0 {
				n.Truncated, t.cut = true, true
				return nil
			}
			n.Children = append(n.Children, &Node{Info: e})
			t.left--
		}
		if len(entries) < size {
			return nil
		}
		after = path.Base(entries[len(entries)-1].Path)
	}
}
