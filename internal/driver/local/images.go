package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

const (
	disksDir = ".disks"
	// spareImages is the number of images of one size that are kept ready. Each has a loop device and a mount.
	spareImages = 3
	// imageSizes is the number of sizes for which images are kept ready: the most recently used ones.
	imageSizes = 3
	// refillAfter is the time after which a used image is replaced if others are ready. Preparing one writes to the disk, for
	// which the instance that took the last one would wait.
	refillAfter = 100 * time.Millisecond
)

// image is a file that contains the file system of an instance. It is attached to a loop device and mounted at no path.
// When the mount is closed, the kernel detaches the device by itself, also after the server was killed.
type image struct {
	path   string
	device string // name of the loop device, for example loop0
	mount  int    // descriptor of the detached mount
}

// images makes the images of one driver and keeps some ready, in a directory that it has locked. If a driver ended
// without Close, the next driver removes the directory.
type images struct {
	d     *Driver
	spare int // number of images of a size to keep ready

	mu      sync.Mutex
	home    *instanceDir // the directory; nil: not made yet
	sizes   []*imageSize // every requested size, ordered by the last use
	refusal string       // why this machine cannot have images; empty: not known
	works   bool         // an image was mounted
	closed  bool
}

// imageSize holds the prepared images for one disk limit.
type imageSize struct {
	bytes   int64 // the limit
	ready   []image
	filling bool // the background prepares images

	mu       sync.Mutex // guards template, held while the template is made
	template string
}

// take returns an image for the given limit. It uses a prepared one if possible.
func (m *images) take(ctx context.Context, bytes int64) (image, error) {
	m.mu.Lock()
	s := m.size(bytes)
	defer m.refill(s)
	if n := len(s.ready); n > 0 {
		made := s.ready[n-1]
		s.ready = s.ready[:n-1]
		m.mu.Unlock()
		return made, nil
	}
	m.mu.Unlock()
	return m.prepare(ctx, s)
}

// size returns the images of a size and marks the size as used. The caller holds the lock.
func (m *images) size(bytes int64) *imageSize {
	i := slices.IndexFunc(m.sizes, func(s *imageSize) bool { return s.bytes == bytes })
	s := &imageSize{bytes: bytes}
	if i >= 0 {
		s = m.sizes[i]
		m.sizes = slices.Delete(m.sizes, i, i+1)
	}
	m.sizes = append(m.sizes, s)
	if n := len(m.sizes) - imageSizes; n > 0 {
		old := m.sizes[n-1]
		unused := old.ready
		old.ready = nil
		m.d.background(func() { discard(unused) })
	}
	return s
}

// recent reports whether images of a size are kept ready. The caller holds the lock.
func (m *images) recent(s *imageSize) bool {
	return slices.Contains(m.sizes[max(0, len(m.sizes)-imageSizes):], s)
}

// refill prepares images in the background until enough are ready.
func (m *images) refill(s *imageSize) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.filling || len(s.ready) >= m.spare || m.closed {
		return
	}
	s.filling = true
	pause := time.Duration(0)
	if len(s.ready) > 0 {
		pause = refillAfter
	}
	m.d.background(func() {
		select {
		case <-time.After(pause):
		case <-m.d.ctx.Done():
		}
		for m.fill(s) {
		}
	})
}

// fill prepares one image and reports whether more are needed.
func (m *images) fill(s *imageSize) bool {
	made, err := m.prepare(m.d.ctx, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		s.filling = false
		if m.d.ctx.Err() == nil {
			m.d.opts.Log.Warn("prepare a disk", "bytes", s.bytes, "error", err)
		}
		return false
	}
	if m.closed || !m.recent(s) {
		discard([]image{made})
		s.filling = false
		return false
	}
	s.ready = append(s.ready, made)
	s.filling = len(s.ready) < m.spare
	return s.filling
}

// prepare copies the template of a size and mounts the copy.
func (m *images) prepare(ctx context.Context, s *imageSize) (image, error) {
	template, err := m.template(ctx, s)
	if err != nil {
		return image{}, err
	}
	path := filepath.Join(filepath.Dir(template), strings.ToLower(rand.Text()[:12])+".img")
	if err := m.d.disk.copySparse(template, path); err != nil {
		_ = os.Remove(path)
		return image{}, fmt.Errorf("make disk: %w", err)
	}
	made, err := mountImage(path)
	if err != nil {
		_ = os.Remove(path)
		return image{}, err
	}
	m.mu.Lock()
	m.works = true
	m.mu.Unlock()
	return made, nil
}

// template returns the path of the formatted file from which images of a size are copied. Each driver makes its own, so
// that it never copies a file that was damaged by a power loss.
func (m *images) template(ctx context.Context, s *imageSize) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	home, err := m.directory()
	if err != nil {
		return "", err
	}
	path := filepath.Join(home, fmt.Sprintf("template-%d", s.bytes))
	if err := format(ctx, path, s.bytes); err != nil {
		_ = os.Remove(path)
		return "", err
	}
	s.template = path
	return path, nil
}

// directory returns the directory of this driver's images. It makes it in the first call.
func (m *images) directory() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", fmt.Errorf("make disk: the driver is closed: %w", context.Canceled)
	}
	if m.home != nil {
		return m.home.path, nil
	}
	path := filepath.Join(m.d.dir, disksDir, strings.ToLower(rand.Text()[:12]))
	if err := m.d.disk.mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("make directory of disks: %w", err)
	}
	home, err := openInstanceDir("", path)
	if err != nil {
		return "", fmt.Errorf("make directory of disks: %w", err)
	}
	if err := home.tryLock(unix.LOCK_EX); err != nil {
		home.Close()
		return "", fmt.Errorf("make directory of disks: %w", err)
	}
	m.home = home
	return path, nil
}

// supported returns why instances of this driver cannot have hard disk limits, or an empty string if they can. It
// mounts an image to find out. An error means that the answer is not known, for example because the disk is full.
func (m *images) supported(ctx context.Context) (why string, err error) {
	if m.d.opts.Tier != TierRoot {
		return "this server does not run as root", nil
	}
	m.mu.Lock()
	works, refusal := m.works, m.refusal
	m.mu.Unlock()
	if works || refusal != "" {
		return refusal, nil
	}
	made, err := m.take(ctx, m.d.opts.Defaults.DiskBytes)
	if err == nil {
		m.put(made)
		return "", nil
	}
	unsupported, ok := errors.AsType[*noImageError](err)
	if !ok {
		return "", err
	}
	m.mu.Lock()
	m.refusal = unsupported.Error()
	m.mu.Unlock()
	return unsupported.Error(), nil
}

// put adds an unused image of the default size to the ready ones.
func (m *images) put(i image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.size(m.d.opts.Defaults.DiskBytes)
	if m.closed || len(s.ready) >= max(m.spare, 1) {
		discard([]image{i})
		return
	}
	s.ready = append(s.ready, i)
}

// close releases all images that no instance took. The caller has waited for the background work.
func (m *images) close() {
	m.mu.Lock()
	m.closed = true
	sizes, home := m.sizes, m.home
	m.mu.Unlock()
	for _, s := range sizes {
		discard(s.ready)
	}
	if home == nil {
		return
	}
	_ = removeTree(context.Background(), home.path)
	home.Close()
}

// shut prevents that further images are prepared.
func (m *images) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// discard removes images that no instance uses.
func discard(unused []image) {
	for _, i := range unused {
		unix.Close(i.mount)
		_ = os.Remove(i.path)
	}
}

// claimImage moves a new image into the directory of an instance. The caller closes its mount.
func (ds disks) claimImage(ctx context.Context, p *instanceDir, bytes int64) (image, error) {
	made, err := ds.d.images.take(ctx, bytes)
	if err != nil {
		return image{}, err
	}
	to := p.join(imageName)
	if err := ds.d.disk.rename(made.path, to, unix.RENAME_NOREPLACE); err != nil {
		discard([]image{made})
		return image{}, fmt.Errorf("make disk: %w", err)
	}
	made.path = to
	return made, nil
}

// withDisk decides whether the disk limit of a new instance is hard, if the limits leave it open. It is hard if this
// machine supports that and the limit is large enough for an image.
func (ds disks) withDisk(ctx context.Context, l driver.Limits) (driver.Limits, error) {
	if l.DiskHard || l.DiskSoft || l.DiskBytes < minImage {
		return l, nil
	}
	why, err := ds.d.images.supported(ctx)
	l.DiskHard = err == nil && why == ""
	return l, err
}

// describeLimit describes, for people, the disk limit of one instance.
func describeLimit(l driver.Limits) string {
	if l.DiskHard {
		return fmt.Sprintf("hard limit of %d MiB and %d files: writes beyond it fail", l.DiskBytes>>20, inodesFor(l.DiskBytes))
	}
	return fmt.Sprintf("watched limit of %d MiB and %d files: processes are ended beyond it", l.DiskBytes>>20, inodesFor(l.DiskBytes))
}

// describe describes, for people, whether the disk limits of this driver are hard, and why not.
func (ds disks) describe(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	why, err := ds.d.images.supported(ctx)
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		return "disk limits are watched, not hard: " + why
	}
	return "disk limits are hard: each instance has a file system in a file of its own"
}
