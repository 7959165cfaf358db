package files

import (
	"container/heap"
	"context"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadDir lists part of one directory.
func (d *Dir) ReadDir(ctx context.Context, path, after string, limit int) (out []Info, err error) {
	err = d.at(ctx, "list folder", path, func(root int) error {
		fd, err := open(root, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		out, err = readDir(ctx, fd, path, after, limit)
		return err
	})
	return out, err
}

// readDir lists names and their attributes until it has limit entries. It lists again if files vanished in between.
func readDir(ctx context.Context, fd int, path, after string, limit int) (out []Info, err error) {
	for {
		names, more, err := firstNames(ctx, fd, after, limit-len(out))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			info, err := statAt(fd, name, join(path, name))
			if err == unix.ENOENT || err == nil && info.Mode.IsRegular() && IsUpload(name) {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, info)
		}
		if !more || len(out) == limit {
			return out, nil
		}
		after = names[len(names)-1]
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func statAt(dir int, name, path string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	info := infoOf(path, &st)
	if info.Mode&fs.ModeSymlink == 0 {
		return info, nil
	}
	target, err := readlink(dir, name)
	if err == unix.EINVAL { // not a link any more: treat it as vanished
		err = unix.ENOENT
	}
	info.Target = target
	return info, err
}

// firstNames returns the first limit names that are greater than after, sorted, and reports whether there are more. It
// reads the whole directory but keeps only limit names in memory.
func firstNames(ctx context.Context, fd int, after string, limit int) (names []string, more bool, err error) {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, false, err
	}
	var kept largest
	err = eachName(ctx, fd, func(name string) error {
		switch {
		case name <= after:
		case len(kept) < limit:
			heap.Push(&kept, name)
		default:
			more = true
			if limit > 0 && name < kept[0] {
				kept[0] = name
				heap.Fix(&kept, 0)
			}
		}
		return nil
	})
	slices.Sort(kept)
	return slices.Compact(kept), more, err
}

// eachName calls do for each name in a directory, from the descriptor's position.
func eachName(ctx context.Context, fd int, do func(name string) error) error {
	buf, names := make([]byte, 32<<10), make([]string, 0, 1024)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
	}
}

// largest is a heap with the largest name on top.
type largest []string

func (h largest) Len() int           { return len(h) }
func (h largest) Less(i, j int) bool { return h[i] > h[j] }
func (h largest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *largest) Push(x any)        { *h = append(*h, x.(string)) }
func (h *largest) Pop() any          { panic("never asked for") }
