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
// accepted, for unread answers of the kernel on a netlink socket, and for unread errors of datagrams, in both versions of
// cgroups. In version 1 each socket can have one segment also beyond the limit for all sockets. The driver finds
// instances with much of this memory and ends their processes. The kernel also charges none for the times of sent
// messages, which it queues on the sender's socket; their memory cannot be seen, so the kernel is made to refuse them.

const (
	// unchargedEvery is the interval of the checks for up to 50 instances. It is longer with more instances.
	unchargedEvery = time.Second

	// An instance's TCP sockets are listed if it has fewSockets of them, or if the machine has manySockets or manyBytes in
	// their buffers. Listing them is expensive.
	fewSockets  = 16
	manySockets = 1000
	manyBytes   = 4 << 20

	// fewDatagrams is the number of UDP sockets from which on they are listed.
	fewDatagrams = 4

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
	held, datagrams, err := uncharged("/proc/" + strconv.Itoa(alive.pid) + "/net")
	if err != nil {
		return err
	}
	if g := alive.group.Load(); g != nil {
		held += g.excessSocketBytes()
	}
	if held+datagrams < socketBytes(0) {
		return nil
	}
	p, err := gov.d.dirs.find(id)
	if err != nil {
		return err
	}
	defer p.Close()
	r, err := p.record()
	limit := socketBytes(r.Limits.MemoryBytes)
	held += max(datagrams-limit, 0)
	if err != nil || r.Limits.MemoryBytes <= 0 || held <= limit || !alive.alive() {
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

// uncharged returns the size of the uncharged buffers of a network namespace, and of all data and errors that its UDP
// sockets have received. The data is charged, the errors are not. net is the directory with the kernel's tables of the
// namespace, such as /proc/1/net.
func uncharged(net string) (bytes, datagrams int64, err error) {
	err = readTable(net+"/netlink", func(fields []string) {
		const received = 4
		if len(fields) > received {
			n, _ := strconv.ParseInt(fields[received], 10, 64)
			bytes += n
		}
	})
	if err != nil {
		return 0, 0, err
	}
	sockets, sockets6 := readShort(net, "sockstat"), readShort(net, "sockstat6")
	if counted(sockets, "UDP:", "inuse")+counted(sockets6, "UDP6:", "inuse") >= fewDatagrams {
		if datagrams, err = receivedDatagrams(net); err != nil {
			return 0, 0, err
		}
	}
	inUse := counted(sockets, "TCP:", "inuse") + counted(sockets6, "TCP6:", "inuse")
	machine, buffers := counted(sockets, "TCP:", "alloc"), counted(sockets, "TCP:", "mem")*int64(os.Getpagesize())
	if inUse == 0 || inUse < fewSockets && machine < manySockets && buffers < manyBytes {
		return bytes, datagrams, nil
	}
	var q queues
	for _, table := range []string{"/tcp", "/tcp6"} {
		if err := readTable(net+table, q.add); err != nil {
			return 0, 0, err
		}
	}
	return bytes + q.bytes(largestReceiveBuffer(), buffers), datagrams, nil
}

// receivedDatagrams returns the memory of all data and errors that the UDP sockets of a network namespace have received.
func receivedDatagrams(net string) (bytes int64, err error) {
	for _, table := range []string{"/udp", "/udp6"} {
		err := readTable(net+table, func(fields []string) {
			received, _ := receivedBytes(fields)
			bytes += received
		})
		if err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

// receivedBytes returns the size of the receive queue of a socket. fields are those of its line in the kernel's table.
// It returns false for another line.
func receivedBytes(fields []string) (int64, bool) {
	const sizes = 4
	if len(fields) <= sizes {
		return 0, false
	}
	_, size, _ := strings.Cut(fields[sizes], ":")
	n, err := strconv.ParseInt(size, 16, 64)
	return n, err == nil
}

// queues holds data about the connections of a network namespace that no process has accepted.
type queues struct {
	data    int64 // received bytes
	visible int64 // connections in the kernel's table
	queued  int64 // connections in the queues of the listening sockets
}

// add adds a socket. fields are those of its line in the kernel's table.
func (q *queues) add(fields []string) {
	const state, inode = 3, 9
	received, ok := receivedBytes(fields)
	if !ok || len(fields) <= inode {
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

// sendTimes is the kernel's setting that lets ordinary users have the times of sent messages together with the messages.
// Kernels before 6.13 have it only for the whole machine; in others the helper sets it for its instance.
const sendTimes = "/proc/sys/net/core/tstamp_allow_data"

// refuseSendTimes makes the kernel refuse the times of sent messages to ordinary users.
func (d *Driver) refuseSendTimes() {
	if d.opts.Tier != TierRoot || !givesSendTimes() {
		return
	}
	if err := writeFile("/", sendTimes, "0"); err != nil {
		d.opts.Log.Warn("refuse the times of sent messages, which take memory without a limit", "error", err)
	}
}

func givesSendTimes() bool {
	n, known := kernelNumber("/", sendTimes)
	return known && n != 0
}
