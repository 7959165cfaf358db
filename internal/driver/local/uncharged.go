package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

// The kernel charges two kinds of buffers to no memory cgroup, in both versions: data that a connection receives before a
// process accepts it, and unread answers of the kernel on a netlink socket. The driver finds instances with much data in
// such buffers and ends their processes.

const (
	// unchargedEvery is the interval of the checks for up to 50 instances. It is longer with more instances.
	unchargedEvery = time.Second
	// fewSockets is the number of TCP sockets from which on they are checked. Fewer sockets hold little data, and
	// listing them is expensive.
	fewSockets = 16
)

// watchUncharged regularly checks the sockets of all instances, until Close.
func (gov governor) watchUncharged() {
	gov.watchRunning(unchargedEvery, 20*time.Millisecond, func(all map[driver.ID]*running) { // an instance takes about 0.1 ms
		for id, r := range all {
			if err := gov.checkUncharged(gov.d.ctx, id, r); err != nil && gov.d.ctx.Err() == nil {
				gov.d.opts.Log.Debug("look at an instance's sockets", "instance", id, "error", err)
			}
		}
	})
}

// checkUncharged ends the processes of an instance whose uncharged buffers exceed the limit for socket buffers.
func (gov governor) checkUncharged(ctx context.Context, id driver.ID, alive *running) error {
	held, err := uncharged("/proc/" + strconv.Itoa(alive.pid) + "/net")
	if err != nil || held < socketBytes(0) {
		return err
	}
	p, err := gov.d.dirs.find(id)
	if err != nil {
		return err
	}
	defer p.Close()
	r, err := p.record()
	if limit := socketBytes(r.Limits.MemoryBytes); err != nil || r.Limits.MemoryBytes <= 0 || held <= limit || !alive.alive() {
		return err
	}
	return gov.d.endProcesses(ctx, p, fmt.Sprintf("its sockets held %d MiB of the machine's memory in data that it did not accept or read", held>>20))
}

// uncharged returns the size of the uncharged buffers of a network namespace. net is the directory with the kernel's
// tables of the namespace, such as /proc/1/net.
func uncharged(net string) (bytes int64, err error) {
	tables := map[string]func([]string) string{"netlink": netlinkQueue}
	if socketsInUse(readShort(net, "sockstat"), "TCP:")+socketsInUse(readShort(net, "sockstat6"), "TCP6:") >= fewSockets {
		tables["tcp"], tables["tcp6"] = unaccepted, unaccepted
	}
	for name, queue := range tables {
		n, err := sumQueues(net+"/"+name, queue)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// sumQueues adds up the bytes of all sockets in a table. queue returns the bytes of one socket in hexadecimal, from the
// fields of its line.
func sumQueues(path string, queue func(fields []string) string) (bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if n, err := strconv.ParseInt(queue(strings.Fields(lines.Text())), 16, 64); err == nil {
			bytes += n
		}
	}
	return bytes, lines.Err()
}

// unaccepted returns the received bytes of a connection that no process has accepted, in hexadecimal. Such a connection
// has no inode. It returns an empty string for other sockets.
func unaccepted(fields []string) string {
	const queues, inode = 4, 9
	if len(fields) <= inode || fields[inode] != "0" {
		return ""
	}
	_, received, _ := strings.Cut(fields[queues], ":")
	return received
}

// netlinkQueue returns the received bytes of a netlink socket, in hexadecimal. The table has them in decimal.
func netlinkQueue(fields []string) string {
	const received = 4
	if len(fields) <= received {
		return ""
	}
	n, _ := strconv.ParseInt(fields[received], 10, 64)
	return strconv.FormatInt(n, 16)
}

// socketsInUse returns the number of sockets of a kind from a table of the kernel.
func socketsInUse(table, kind string) int {
	_, rest, _ := strings.Cut(table, kind+" inuse ")
	number, _, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(strings.TrimSpace(number))
	return n
}
