package local

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest/wire"
)

// HostBase is the base that is made of this machine's programs.
const HostBase = "host"

// base is what the root of an instance is made of.
type base struct {
	dir  string // the lower layer
	mask string // with usr: what hides parts of it
	usr  string // the host's programs; empty for an image
}

// layers of the base. The host's own programs may stay unmapped where their file system cannot be mapped:
// they are read only, and that they belong to nobody does no harm.
func (b base) layers() []layer {
	layers := []layer{{role: wire.RoleBase, dir: unix.AT_FDCWD, path: b.dir}}
	if b.usr != "" {
		layers = append(layers,
			layer{role: wire.RoleUsr, dir: unix.AT_FDCWD, path: b.usr, loose: true},
			layer{role: wire.RoleMask, dir: unix.AT_FDCWD, path: b.mask})
	}
	return layers
}

// base finds a base by its name: host, an absolute path, or what Options.Bases knows.
func (d *Driver) base(name string) (base, error) {
	switch {
	case name == "" || name == HostBase:
		return d.hostBase()
	case filepath.IsAbs(name):
		return imageBase(name)
	case d.opts.Bases == nil:
		return base{}, fmt.Errorf("%w: unknown base %q: it is neither %q nor an absolute path", driver.ErrInvalid, name, HostBase)
	}
	dir, err := d.opts.Bases(name)
	if err != nil {
		return base{}, fmt.Errorf("%w: unknown base %q: %w", driver.ErrInvalid, name, err)
	}
	return imageBase(dir)
}

func imageBase(dir string) (base, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return base{}, fmt.Errorf("%w: base %s: %w", driver.ErrInvalid, dir, err)
	}
	if !info.IsDir() {
		return base{}, fmt.Errorf("%w: base %s is no directory", driver.ErrInvalid, dir)
	}
	return base{dir: dir}, nil
}

// hostBase makes the skeleton once. A failure is not kept: the disk may have been full.
func (d *Driver) hostBase() (base, error) {
	d.skeletonMu.Lock()
	defer d.skeletonMu.Unlock()
	if d.skeleton == nil {
		made, err := buildSkeleton(filepath.Join(d.dir, baseDir))
		if err != nil {
			return base{}, full(err)
		}
		d.skeleton = &made
	}
	return base{dir: d.skeleton.root, mask: d.skeleton.mask, usr: "/usr"}, nil
}
