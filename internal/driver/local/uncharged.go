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

// The kernel does not bound some memory of sockets. No memory cgroup is charged for connections that no process has
// accepted, and for unread answers of the kernel on a netlink socket, in both versions of cgroups. In version 1 each
// socket can have one segment also beyond the limit for all sockets. The driver finds instances with much of this memory
// and ends their processes.

const (
	// unchargedEvery is the interval of the checks for up to 50 instances. It is longer with more instances.
	unchargedEvery = time.Second

	// An instance's TCP sockets are listed if it has fewSockets of them, or if the machine has manySockets or manyBytes in
	// their buffers. Listing them is expensive.
	fewSockets  = 16
	manySockets = 1000
	manyBytes   = 4 << 20

	// queuedBytes is the memory of a connection that no process has accepted, without its data.
	queuedBytes = 4 << 10
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

// checkUncharged ends the processes of an instance whose sockets hold more memory than the limit for socket buffers, in
// addition to the memory that the kernel bounds.
func (gov governor) checkUncharged(ctx context.Context, id driver.ID, alive *running) error {
	held, err := uncharged("/proc/" + strconv.Itoa(alive.pid) + "/net")
	if err != nil {
		return err
	}
	if g := alive.group.Load(); g != nil {
		held += g.excessSocketBytes()
	}
	if held < socketBytes(0) {
		return nil
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
	return gov.d.endProcesses(ctx, p, fmt.Sprintf("its sockets held %d MiB of the machine's memory beyond its limits, in data that it did not accept or read", held>>20))
}

// excessSocketBytes returns how far the buffers of sockets exceed their limit of cgroup version 1.
func (g group) excessSocketBytes() int64 {
	dir := g["memory"]
	if dir == "" {
		return 0
	}
	limit, limited := kernelNumber(dir, socketsFile)
	used, _ := kernelNumber(dir, socketsUsedFile)
	if !limited {
		return 0
	}
	return max(used-limit, 0)
}

func kernelNumber(dir, name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(readShort(dir, name)), 10, 64)
	return n, err == nil
}

// uncharged returns the size of the uncharged buffers of a network namespace. net is the directory with the kernel's
// tables of the namespace, such as /proc/1/net.
func uncharged(net string) (bytes int64, err error) {
	err = readTable(net+"/netlink", func(fields []string) {
		const received = 4
		if len(fields) > received {
			n, _ := strconv.ParseInt(fields[received], 10, 64)
			bytes += n
		}
	})
	if err != nil {
		return 0, err
	}
	sockets := readShort(net, "sockstat")
	inUse := counted(sockets, "TCP:", "inuse") + counted(readShort(net, "sockstat6"), "TCP6:", "inuse")
	machine, buffers := counted(sockets, "TCP:", "alloc"), counted(sockets, "TCP:", "mem")*int64(os.Getpagesize())
	if inUse == 0 || inUse < fewSockets && machine < manySockets && buffers < manyBytes {
		return bytes, nil
	}
	var q queues
	for _, table := range []string{"/tcp", "/tcp6"} {
		if err := readTable(net+table, q.add); err != nil {
			return 0, err
		}
	}
	return bytes + q.bytes(largestReceiveBuffer(), buffers), nil
}

// queues holds data about the connections of a network namespace that no process has accepted.
type queues struct {
	data    int64 // received bytes
	visible int64 // connections in the kernel's table
	queued  int64 // connections in the queues of the listening sockets
}

// add adds a socket. fields are those of its line in the kernel's table.
func (q *queues) add(fields []string) {
	const state, sizes, inode = 3, 4, 9
	if len(fields) <= inode {
		return
	}
	_, size, _ := strings.Cut(fields[sizes], ":")
	received, err := strconv.ParseInt(size, 16, 64)
	if err != nil {
		return
	}
	const established, closeWait, listen = "01", "08", "0A"
	switch {
	case fields[state] == listen:
		q.queued += received // the length of its queue
	case fields[inode] == "0":
		q.data += received
		if fields[state] == established || fields[state] == closeWait {
			q.visible++
		}
	}
}

// bytes estimates the memory of the connections. A connection that its client has reset is not in the kernel's table.
// It may hold a full receive buffer. All of them hold at most the buffers of the whole machine.
func (q *queues) bytes(receiveBuffer, machine int64) int64 {
	reset := max(q.queued-q.visible, 0)
	return q.data + q.queued*queuedBytes + min(reset*receiveBuffer, machine)
}

// largestReceiveBuffer returns the largest size that a process can give to the receive buffer of a socket.
func largestReceiveBuffer() int64 {
	n, _ := kernelNumber("/proc/sys/net/core", "rmem_max")
	return max(2*n, 1<<20)
}

// readTable calls add with the fields of every line of a kernel's table. It ignores a table that does not exist.
func readTable(path string, add func(fields []string)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		add(strings.Fields(lines.Text()))
	}
	return lines.Err()
}

// counted returns a number from the kernel's statistics of sockets: the one with the name in the line of a kind.
func counted(statistics, kind, name string) int64 {
	_, line, _ := strings.Cut(statistics, kind)
	line, _, _ = strings.Cut(line, "\n")
	_, rest, _ := strings.Cut(line, " "+name+" ")
	number, _, _ := strings.Cut(rest, " ")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}
