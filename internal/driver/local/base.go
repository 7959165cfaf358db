package local

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest/wire"
)

// HostBase is the name of the base that consists of this machine's programs.
const HostBase = "host"

// base holds the directories that an instance's root is made of.
type base struct {
	dir  string // the lowest layer of the root
	mask string // a layer over usr that hides parts of it; empty for an image
	usr  string // the host's programs; empty for an image
}

// layers returns the layers of the base. The layer of the host's programs may stay without an idmap, because not every
// file system supports one. It is read only, so an unmapped owner does no harm.
func (b base) layers() []layer {
	layers := []layer{{role: wire.RoleBase, dir: unix.AT_FDCWD, path: b.dir}}
	if b.usr != "" {
		layers = append(layers,
			layer{role: wire.RoleUsr, dir: unix.AT_FDCWD, path: b.usr, idmapOptional: true},
			layer{role: wire.RoleMask, dir: unix.AT_FDCWD, path: b.mask})
	}
	return layers
}

// base finds a base by its name: "host", an absolute path, or a name for Options.Bases.
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

// hostBase returns the base of the host. It makes the skeleton once, and tries again after an error, such as a full
// disk.
func (d *Driver) hostBase() (base, error) {
	d.skeletonMu.Lock()
	defer d.skeletonMu.Unlock()
	if d.skeleton == nil {
		made, err := buildSkeleton(filepath.Join(d.dir, baseDir))
		if err != nil {
			return base{}, asQuotaError(err)
		}
		d.skeleton = &made
	}
	return base{dir: d.skeleton.root, mask: d.skeleton.mask, usr: "/usr"}, nil
}
