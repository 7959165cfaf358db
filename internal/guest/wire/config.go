package wire

// Config is the message on the setup socket from which the helper sets up its instance. The message carries one
// descriptor for each of the Trees without a Path, in the same order. The helper answers with a Reply: OK when it is
// ready to serve, or the error.
type Config struct {
	Hostname string
	Workdir  string // the default directory of commands; empty: /workspace
	Home     string // the agent's home directory; empty: /home/agent
	Single   bool   // only one uid is mapped: every command runs as this uid, and there is no root user
	Trees    []Tree
	Limits   Limits
	Etc      []EtcFile
}

// Tree is a directory tree for the instance. The server sends it as a detached mount, or as a path on the host.
type Tree struct {
	Role   Role
	Target string // the path of a RoleMount inside; empty for other roles
	Path   string // the path at which the helper opens the tree, if the server may not clone mounts
}

// Role is the purpose of a tree.
type Role uint8

// The directory trees that an instance is made of.
const (
	RoleBase  Role = iota + 1 // the lower layer of the root, read only
	RoleUsr                   // the host's /usr, for a base that is built from it
	RoleMask                  // the layer over RoleUsr that hides parts of it
	RoleUpper                 // a directory with upper, the root's upper layer, and work, overlayfs's work directory
	RoleMount                 // an additional tree, read only, at Target
	RoleSpool                 // the directory of the spools, instead of the inherited descriptor
	RoleDev                   // the instance's /dev, with its nodes
	roleEnd
)

// Limits are the limits that the helper sets itself; those of the cgroup are not among them. Zero means no limit, or
// the helper's default size for the file systems.
type Limits struct {
	FileSize  uint64 // RLIMIT_FSIZE, in bytes
	NoFile    uint64 // RLIMIT_NOFILE
	Processes uint64 // RLIMIT_NPROC
	TmpBytes  uint64 // the size of /tmp
	ShmBytes  uint64 // the size of /dev/shm

	SpoolBytes uint64 // the bytes of output that the spools of all processes keep together
}

// EtcFile is a small configuration file that the helper writes before it serves.
type EtcFile struct {
	Path   string // absolute
	Mode   uint32
	Data   []byte
	Always bool // replace an existing file; otherwise the helper keeps it
}

// Encode returns c as a message.
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
	for _, v := range []uint64{l.FileSize, l.NoFile, l.Processes, l.TmpBytes, l.ShmBytes, l.SpoolBytes} {
		e.uint(v)
	}
}

func (l *Limits) decode(d *decoder) {
	for _, v := range []*uint64{&l.FileSize, &l.NoFile, &l.Processes, &l.TmpBytes, &l.ShmBytes, &l.SpoolBytes} {
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
