package local

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

var aLongTimeAgo = time.Unix(1, 0)

// layers are the directories that the instance's root is made of.
func (l *launch) layers() ([]layer, error) {
	base, err := l.d.base(l.record.Spec.Base)
	if err != nil {
		return nil, err
	}
	layers := base.layers()
	dir := int(l.place.dir.Fd())
	upper := layer{role: wire.RoleUpper, dir: dir, path: fsDir, write: true}
	if l.record.Limits.DiskHard {
		upper.path, upper.image = imageName, l.place
	}
	layers = append(layers, upper,
		layer{role: wire.RoleSpool, dir: dir, path: spoolDir, write: true})
	for _, m := range l.record.Spec.Mounts {
		layers = append(layers, layer{role: wire.RoleMount, dir: unix.AT_FDCWD, path: m.Source, target: m.Target})
	}
	return layers, nil
}

// trees clones the layers for the helper, or tells it where they are if this process may not.
func (l *launch) trees(t *trees) error {
	layers, err := l.layers()
	if err != nil {
		return err
	}
	if l.d.opts.Tier == TierUser {
		t.name(l.place, layers)
		return nil
	}
	userns, err := userNamespace(l.child.pid)
	if err != nil {
		return fmt.Errorf("open the instance's user namespace: %w", err)
	}
	defer userns.Close()
	for _, layer := range layers {
		if err := t.add(layer, int(userns.Fd())); err != nil {
			return err
		}
	}
	return nil
}

// name leaves the cloning to the helper. It has its spools already, as the user who owns them.
func (t *trees) name(p *place, layers []layer) {
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

// resolvConf is the same everywhere, so that the host's base has it already.
const resolvConf = "# Names are resolved by the proxy outside.\n"

// config is what the helper is told about its limits and names.
func (l *launch) config() wire.Config {
	limits := l.record.Limits
	name := hostname(l.record.Spec.Key.Sandbox)
	return wire.Config{
		Hostname: name,
		Single:   l.d.opts.Tier == TierUser,
		Limits: wire.Limits{
			FileSize:  uint64(limits.DiskBytes),
			Processes: uint64(limits.Processes),
			TmpBytes:  min(512<<20, share(limits.MemoryBytes, 4, 512<<20)),
			ShmBytes:  min(64<<20, share(limits.MemoryBytes, 8, 64<<20)),
		},
		Etc: []wire.EtcFile{
			{Path: "/etc/hostname", Mode: 0o644, Data: []byte(name + "\n")},
			{Path: "/etc/hosts", Mode: 0o644, Data: []byte("127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 " + name + "\n")},
			{Path: "/etc/resolv.conf", Mode: 0o644, Data: []byte(resolvConf)},
		},
	}
}

// share is a part of the memory, so that full file systems in it leave room for the processes.
func share(n, part int64, otherwise uint64) uint64 {
	if n <= 0 {
		return otherwise
	}
	return max(uint64(n/part), 1<<20)
}

// hostname is a short name for people to tell instances apart.
func hostname(sandbox string) string {
	if len(sandbox) > 12 {
		sandbox = sandbox[len(sandbox)-12:]
	}
	return "berth-" + strings.Trim(sandbox, "-")
}
