package local

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
	"github.com/berthdev/berth/internal/sandbox"
)

var aLongTimeAgo = time.Unix(1, 0)

// layers returns the layers of the instance's root.
func (l *launch) layers() ([]layer, error) {
	base, err := l.d.base(l.record.Spec.Base)
	if err != nil {
		return nil, err
	}
	layers := base.layers()
	dir := int(l.dir.dir.Fd())
	upper := layer{role: wire.RoleUpper, dir: dir, path: fsDir, write: true}
	if l.disk != nil {
		upper.path, upper.image = imageName, l.disk
	}
	layers = append(layers, upper,
		layer{role: wire.RoleSpool, dir: dir, path: spoolDir, write: true})
	for _, m := range l.record.Spec.Mounts {
		layers = append(layers, layer{role: wire.RoleMount, dir: unix.AT_FDCWD, path: m.Source, target: m.Target})
	}
	return layers, nil
}

// trees adds the layers to t: as detached mounts in TierRoot, as paths for the helper in other tiers.
func (l *launch) trees(t *trees) error {
	layers, err := l.layers()
	if err != nil {
		return err
	}
	if l.d.opts.Tier != TierRoot {
		t.name(l.dir, layers)
		return nil
	}
	userns, err := userNamespace(l.child.pid)
	if err != nil {
		return fmt.Errorf("open the instance's user namespace: %w", err)
	}
	defer userns.Close()
	for _, layer := range layers {
		if layer.image != nil {
			l.disk = nil // t.add, or later t.close, closes its mount
		}
		if err := t.add(layer, int(userns.Fd())); err != nil {
			return err
		}
	}
	return t.devices(int(userns.Fd()))
}

// name adds the layers as paths, for the helper to mount. It skips the spools, which the helper already has open.
func (t *trees) name(p *instanceDir, layers []layer) {
	for _, l := range layers {
		if l.role == wire.RoleSpool {
			continue
		}
		path := l.path
		if l.dir != unix.AT_FDCWD {
			path = p.join(path)
		}
		t.specs = append(t.specs, wire.Tree{Role: l.role, Target: l.target, Path: path})
	}
}

// resolvConf is the same for all instances, so the skeleton contains it too.
const resolvConf = "# Names are resolved by the proxy outside.\n"

// Git never sees the files of Berth and of agents in a workspace. They are named for the whole system, because a
// workspace has no .git/info before its first git init. A base that has a gitconfig keeps it.
const (
	gitIgnore  = "/etc/berth-gitignore"
	gitConfig  = "[core]\n\texcludesFile = " + gitIgnore + "\n"
	gitIgnored = "/.berth/\n/.sandbox-state*\n"
)

// config returns the configuration of the helper, without the trees.
func (l *launch) config() wire.Config {
	limits := l.record.Limits
	name := hostname(l.record.Spec.Key.Sandbox)
	return wire.Config{
		Hostname: name,
		Single:   l.d.opts.Tier == TierUser,
		Limits: wire.Limits{
			FileSize:  uint64(limits.DiskBytes),
			NoFile:    noFile(limits.Processes, maxOpenFiles()),
			Processes: uint64(limits.Processes),
			TmpBytes:  min(512<<20, share(limits.MemoryBytes, 4, 512<<20)),
			ShmBytes:  min(64<<20, share(limits.MemoryBytes, 8, 64<<20)),
			// The output has its own limit, so that commands can still run when the instance's disk is full.
			SpoolBytes: min(512<<20, share(limits.DiskBytes, 4, 512<<20)),
		},
		Etc: []wire.EtcFile{
			{Path: "/etc/hostname", Mode: 0o644, Data: []byte(name + "\n")},
			{Path: "/etc/hosts", Mode: 0o644, Data: []byte("127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 " + name + "\n")},
			{Path: "/etc/resolv.conf", Mode: 0o644, Data: []byte(resolvConf)},
			{Path: "/etc/gitconfig", Mode: 0o644, Data: []byte(gitConfig)},
			{Path: gitIgnore, Mode: 0o644, Data: []byte(gitIgnored)},
		},
	}
}

// share returns the given part of a limit of n bytes, at least 1 MiB, for a file system inside the instance. It returns
// otherwise if there is no limit.
func share(n, part int64, otherwise uint64) uint64 {
	if n <= 0 {
		return otherwise
	}
	return max(uint64(n/part), 1<<20)
}

// hostname returns a short name by which people can distinguish instances.
func hostname(id string) string {
	id = sandbox.PublicID(id)
	return "berth-" + strings.Trim(id[max(0, len(id)-12):], "-")
}
