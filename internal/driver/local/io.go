package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Each instance with a hard disk limit has a block device, so that the kernel can limit its writes per second. Without
// these limits, an instance that writes and syncs all the time would block the machine's disk, and the journal of the
// file system below, for all others.
const (
	diskWriteRate  = 200 << 20 // bytes per second
	diskWriteCalls = 2000      // requests per second; to write and sync a small file takes about four
)

// ioBounds limits the writes to the devices of instances. With cgroup version 2 the limit is set in each instance's
// cgroup. With version 1 it is set in the root cgroup, to which the kernel's threads belong that do most of the writes,
// and in the server's cgroup, to which the instances belong for this controller.
type ioBounds struct {
	dirs []string // cgroups of version 1's controller blkio: the root and the server's; empty in version 2
}

// blkioFiles holds the files of version 1 and the limits that are written to them.
var blkioFiles = map[string]int64{
	"blkio.throttle.write_bps_device":  diskWriteRate,
	"blkio.throttle.write_iops_device": diskWriteCalls,
}

// findIOBounds finds the cgroups of version 1's controller blkio that this process may change.
func findIOBounds(h host) (b ioBounds) {
	mounts, err := h.mounts()
	if err != nil {
		return b
	}
	m, ok := mounts["blkio"]
	if !ok {
		return b
	}
	for _, dir := range []string{m.mount, filepath.Join(m.mount, m.own)} {
		if !slices.Contains(b.dirs, dir) && writable(dir, "blkio.throttle.write_bps_device") {
			b.dirs = append(b.dirs, dir)
		}
	}
	return b
}

func writable(dir, name string) bool {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

// bound limits the writes to the device of an instance's disk.
func (b ioBounds) bound(g group, device string) error {
	number, err := deviceNumber(device)
	if err != nil {
		return err
	}
	if dir := g[unified]; dir != "" {
		if !writable(dir, "io.max") {
			return nil // the controller is not enabled for instances
		}
		return writeFile(dir, "io.max", fmt.Sprintf("%s wbps=%d wiops=%d", number, int64(diskWriteRate), diskWriteCalls))
	}
	return b.write(number, false)
}

// removeLimits removes the limits of a device. The last writes of an ending instance are then fast, and the next user of
// the device is not limited. In version 2 the limits also end with the instance's cgroup.
func (b ioBounds) removeLimits(g group, device string) {
	if device == "" {
		return
	}
	number, err := deviceNumber(device)
	if err != nil {
		return
	}
	if dir := g[unified]; dir != "" {
		_ = writeFile(dir, "io.max", number+" wbps=max wiops=max")
	}
	_ = b.write(number, true)
}

func (b ioBounds) write(number string, remove bool) error {
	for _, dir := range b.dirs {
		for file, value := range blkioFiles {
			if remove {
				value = 0
			}
			if err := writeFile(dir, file, number+" "+strconv.FormatInt(value, 10)); err != nil {
				return fmt.Errorf("bound writes to the disk: %w", err)
			}
		}
	}
	return nil
}

// sweep removes the limits of loop devices without a file. Their instances ended while no driver ran.
func (b ioBounds) sweep() {
	for _, dir := range b.dirs {
		data, err := os.ReadFile(filepath.Join(dir, "blkio.throttle.write_bps_device"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			number, _, _ := strings.Cut(line, " ")
			minor, isLoop := strings.CutPrefix(number, "7:")
			if !isLoop {
				continue
			}
			if _, err := os.Stat("/sys/dev/block/7:" + minor + "/loop"); os.IsNotExist(err) {
				_ = b.write(number, true)
			}
		}
	}
}

// describe describes, for people, whether writes are limited.
func (b ioBounds) describe(groups cgroups) string {
	parent, one := groups[unified]
	if len(b.dirs) == 0 && !(one && strings.Contains(readShort(parent.dir, "cgroup.subtree_control"), "io")) {
		return "how much an instance writes to its disk in a second is not limited: this process may not use the cgroup controller for disks"
	}
	return fmt.Sprintf("an instance writes at most %d MiB and %d requests to its disk in a second", diskWriteRate>>20, diskWriteCalls)
}

// deviceNumber returns the number of a block device in the form that cgroups use, for example 7:0.
func deviceNumber(device string) (string, error) {
	data, err := os.ReadFile("/sys/block/" + device + "/dev")
	if err != nil {
		return "", fmt.Errorf("find the disk's device: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
