package wire

// Config is what the helper is told on the setup line before it makes its world. With it come the
// descriptors of those Trees that have no Path, in their order. The helper answers with a Reply: OK when
// it is ready to serve, or the reason why it is not.
type Config struct {
	Hostname string
	Workdir  string // where commands run that do not say; empty: /workspace
	Home     string // the agent's; empty: /home/agent
	Single   bool   // only one uid is mapped: every command runs as it, and nobody is root
	Trees    []Tree
	Limits   Limits
	Etc      []EtcFile
}

// Tree says what a detached mount is for.
type Tree struct {
	Role   Role
	Target string // where RoleMount goes inside; for the others, empty
	Path   string // where the helper finds it itself, for a server that may not clone mounts
}

// Role is what a tree is for.
type Role uint8

// The trees of an instance.
const (
	RoleBase  Role = iota + 1 // the lower layer of the root, read only
	RoleUsr                   // the host's /usr, where the base is made of it
	RoleMask                  // the layer over RoleUsr that hides parts of it
	RoleUpper                 // a directory with upper, the root's upper layer, and work, overlayfs's own
	RoleMount                 // a further tree, read only, at Target
	RoleSpool                 // the directory of the spools, in place of the inherited descriptor
	roleEnd
)

// Limits that are no part of a cgroup. Zero is no limit, or the helper's default for the file systems.
type Limits struct {
	FileSize  uint64 // RLIMIT_FSIZE, in bytes
	NoFile    uint64 // RLIMIT_NOFILE
	Processes uint64 // RLIMIT_NPROC
	TmpBytes  uint64 // the size of /tmp
	ShmBytes  uint64 // the size of /dev/shm
}

// EtcFile is a small file that the helper writes before it serves.
type EtcFile struct {
	Path   string // absolute
	Mode   uint32
	Data   []byte
	Always bool // otherwise only where there is none
}

// Encode is the message for c.
func (c *Config) Encode() []byte {
	var e encoder
	e.string(c.Hostname)
	e.string(c.Workdir)
	e.string(c.Home)
	e.bool(c.Single)
	e.uint(uint64(len(c.Trees)))
	for i := range c.Trees {
		e.nested(c.Trees[i].encode)
	}
	e.nested(c.Limits.encode)
	e.uint(uint64(len(c.Etc)))
	for i := range c.Etc {
		e.nested(c.Etc[i].encode)
	}
	return e.b
}

// DecodeConfig reads a Config.
func DecodeConfig(b []byte) (Config, error) {
	d := decoder{b: b}
	c := Config{Hostname: d.string(), Workdir: d.string(), Home: d.string(), Single: d.bool()}
	for n := d.count(); n > 0 && !d.bad; n-- {
		var t Tree
		d.nested(t.decode)
		c.Trees = append(c.Trees, t)
	}
	d.nested(c.Limits.decode)
	for n := d.count(); n > 0 && !d.bad; n-- {
		var f EtcFile
		d.nested(f.decode)
		c.Etc = append(c.Etc, f)
	}
	return c, d.err()
}

func (t *Tree) encode(e *encoder) {
	e.uint(uint64(t.Role))
	e.string(t.Target)
	e.string(t.Path)
}

func (t *Tree) decode(d *decoder) {
	t.Role = Role(d.small(uint64(roleEnd)))
	t.Target = d.string()
	t.Path = d.string()
	if t.Role == 0 {
		d.fail()
	}
}

func (l *Limits) encode(e *encoder) {
	for _, v := range []uint64{l.FileSize, l.NoFile, l.Processes, l.TmpBytes, l.ShmBytes} {
		e.uint(v)
	}
}

func (l *Limits) decode(d *decoder) {
	for _, v := range []*uint64{&l.FileSize, &l.NoFile, &l.Processes, &l.TmpBytes, &l.ShmBytes} {
		*v = d.uint()
	}
}

func (f *EtcFile) encode(e *encoder) {
	e.string(f.Path)
	e.uint(uint64(f.Mode))
	e.string(string(f.Data))
	e.bool(f.Always)
}

func (f *EtcFile) decode(d *decoder) {
	f.Path = d.string()
	f.Mode = uint32(d.small(0o10000))
	f.Data = append([]byte(nil), d.bytes()...)
	f.Always = d.bool()
}
