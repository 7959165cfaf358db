package files

import (
	"context"
	"path"
	"strings"
)

// TreeOptions configure how much of a tree is read.
type TreeOptions struct {
	Path   string // a directory, as Clean returns it
	Depth  int    // levels; zero means three
	Hidden bool   // include names that begin with a dot
	Limit  int    // maximum number of nodes besides the root; zero means 1,000
}

// Node is one file in a tree.
type Node struct {
	Info
	Children  []*Node // nil if the directory was not read
	Truncated bool    // the directory has more children
}

// Tree reads a tree level by level, so that a limit cuts off the deepest levels.
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
	t := &treeReader{TreeOptions: o, ctx: ctx, fs: fsys, left: o.Limit}
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

// treeReader reads children until it has read as many as the limit.
type treeReader struct {
	TreeOptions
	ctx  context.Context
	fs   FS
	left int
	cut  bool
}

// grow reads the children of all directories of one level and returns them.
func (t *treeReader) grow(level []*Node) (next []*Node, err error) {
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

func (t *treeReader) children(n *Node) error {
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
