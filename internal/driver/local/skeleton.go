package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// skeleton is the root directory of instances whose base is the host, without /usr, which is mounted into it. It
// contains the files of the host's /etc that programs need to run, and no data about the host.
type skeleton struct {
	root string
	mask string // a layer over /usr that hides /usr/local
}

// skeletonVersion is part of the digest of a skeleton. Change it when buildSkeleton makes other files.
const skeletonVersion = "2"

// fromHost are the files and directories that are copied from the host's /etc.
var fromHost = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "mime.types", "pki/tls/certs", "pki/ca-trust/extracted", "protocols", "services", "ssl/certs", "ssl/openssl.cnf",
}

var skeletonDirs = []struct {
	path string
	mode fs.FileMode
}{
	{"dev", 0o755}, {"etc", 0o755}, {"home", 0o755}, {"opt", 0o755}, {"proc", 0o555}, {"root", 0o700}, {"run", 0o755},
	{"tmp", 0o1777}, {"usr", 0o755}, {"var", 0o755}, {"var/cache", 0o755}, {"var/lib", 0o755}, {"var/log", 0o755},
	{"var/tmp", 0o1777}, {"workspace", 0o755},
}

var skeletonFiles = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n" +
		"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
		"agent:x:1000:1000:agent:/home/agent:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"etc/group":         "root:x:0:\ndaemon:x:1:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n",
	"etc/resolv.conf":   resolvConf,
	"etc/gitconfig":     gitConfig,
	gitIgnore[1:]:       gitIgnored,
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"etc/shells":        "/bin/sh\n/bin/bash\n",
	"etc/profile":       "export PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}\n",
}

// linked are the directories that are made as links into /usr if the host has them.
var linked = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// skeletonPrefix returns the prefix for the names of skeletons, which contains the id of the present boot. A skeleton
// is not synced and may be incomplete after a power loss, so each boot makes its own.
func skeletonPrefix() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) < 8 {
		return "host-"
	}
	return "host-" + string(boot[:8]) + "-"
}

// skeletonForm matches the name of a skeleton: the prefix with the id of the boot, and the digest of the host's files.
var skeletonForm = regexp.MustCompile(`^host-[0-9a-f]{8}-[0-9a-f]{16}$`)

// sweepSkeletons discards the skeletons of earlier boots. No running instance uses them.
func (sw sweeper) sweepSkeletons() {
	entries, err := os.ReadDir(filepath.Join(sw.d.dir, baseDir))
	for _, e := range entries {
		if skeletonForm.MatchString(e.Name()) && !strings.HasPrefix(e.Name(), skeletonPrefix()) {
			err = errors.Join(err, sw.d.trash.discard(filepath.Join(sw.d.dir, baseDir, e.Name())))
		}
	}
	if err != nil {
		sw.d.opts.Log.Warn("sweep bases of earlier boots", "error", err)
	}
}

// buildSkeleton returns the skeleton for the present files of the host. It makes the skeleton if it does not exist.
func buildSkeleton(dir string) (skeleton, error) {
	sum, err := hostDigest()
	if err != nil {
		return skeleton{}, err
	}
	path := filepath.Join(dir, skeletonPrefix()+sum)
	made := skeleton{root: filepath.Join(path, "root"), mask: filepath.Join(path, "mask")}
	if _, err := os.Stat(path); err == nil {
		return made, nil
	}
	temp, err := os.MkdirTemp(dir, ".host-")
	if err != nil {
		return skeleton{}, fmt.Errorf("make base of the host: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := fillSkeleton(temp); err != nil {
		return skeleton{}, fmt.Errorf("make base of the host: %w", err)
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return skeleton{}, err
	}
	if err := os.Rename(temp, path); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return skeleton{}, fmt.Errorf("make base of the host: %w", err)
	}
	return made, nil
}

func fillSkeleton(dir string) error {
	root, mask := filepath.Join(dir, "root"), filepath.Join(dir, "mask")
	if err := makeMask(mask); err != nil {
		return err
	}
	if err := mkdirMode(root, 0o755); err != nil {
		return err
	}
	for _, d := range skeletonDirs {
		if err := mkdirMode(filepath.Join(root, d.path), d.mode); err != nil {
			return err
		}
	}
	if err := linkUsr(root); err != nil {
		return err
	}
	for path, text := range skeletonFiles {
		if err := writeMode(filepath.Join(root, path), text, 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/usr/lib/os-release"); err == nil {
		if err := os.Symlink("../usr/lib/os-release", filepath.Join(root, "etc/os-release")); err != nil {
			return err
		}
	}
	return copyEtc(filepath.Join(root, "etc"))
}

// makeMask makes the layer that hides /usr/local behind empty directories. The files there do not belong to the host's
// distribution.
func makeMask(mask string) error {
	local := filepath.Join(mask, "local")
	for _, dir := range []string{mask, local, filepath.Join(local, "bin"), filepath.Join(local, "lib"), filepath.Join(local, "sbin")} {
		if err := mkdirMode(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Setxattr(local, "user.overlay.opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("hide /usr/local: set attribute: %w", err)
	}
	return nil
}

// linkUsr makes the links in linked. It returns driver.ErrInvalid if the host's /usr is not merged, so that /bin is a
// directory.
func linkUsr(root string) error {
	for _, name := range linked {
		target, err := os.Readlink("/" + name)
		if errors.Is(err, fs.ErrNotExist) && name != "bin" {
			continue
		}
		if err != nil || strings.Trim(target, "/") != "usr/"+name {
			return fmt.Errorf("%w: base %q needs a host whose /%s is a link to /usr/%s", driver.ErrInvalid, HostBase, name, name)
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// mkdirMode makes a directory with exactly this mode, whatever the umask.
func mkdirMode(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return unix.Chmod(path, uint32(mode))
}

func writeMode(path, text string, mode fs.FileMode) error {
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func copyEtc(to string) error {
	for _, name := range fromHost {
		src := filepath.Join("/etc", name)
		if _, err := os.Lstat(src); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		err := filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // the file was removed or cannot be read
			}
			return copyOne(path, filepath.Join(to, strings.TrimPrefix(path, "/etc/")), e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyOne copies a directory entry. It skips files that not every user of the host may read. It keeps a link if its
// target exists in the instance too; otherwise it copies the target.
func copyOne(src, dst string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return nil
	}
	switch {
	case e.IsDir():
		return mkdirMode(dst, 0o755)
	case info.Mode().IsRegular() && info.Mode()&0o004 != 0:
		return copyFile(src, dst)
	case info.Mode()&fs.ModeSymlink != 0:
		return copyLink(src, dst)
	}
	return nil
}

func copyLink(src, dst string) error {
	target, err := os.Readlink(src)
	if err != nil {
		return nil
	}
	full := target
	if !filepath.IsAbs(full) {
		full = filepath.Join(filepath.Dir(src), full)
	}
	if inside(full) {
		return os.Symlink(target, dst)
	}
	info, err := os.Stat(src)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o004 == 0 {
		return nil
	}
	return copyFile(src, dst)
}

// inside reports whether a path of the host is the same file in the instance: under /usr but not /usr/local, or one of
// the files that are copied from /etc.
func inside(path string) bool {
	if strings.HasPrefix(path, "/usr/") {
		return !strings.HasPrefix(path, "/usr/local/")
	}
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/ssl/certs/", "/etc/alternatives/", "/etc/pki/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}

func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return nil
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o644), out.Close())
}

// hostDigest returns a digest of the names, sizes, modes and times of the files that are copied from the host.
func hostDigest() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, skeletonVersion, skeletonFiles, skeletonDirs, linked, os.Geteuid())
	for _, name := range fromHost {
		filepath.WalkDir(filepath.Join("/etc", name), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := e.Info(); err == nil {
				fmt.Fprintln(h, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
