package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memory measures the memory of idle sandboxes, of one and of many, and checks that nothing is left after their delete.
func (r *rig) memory(ctx context.Context, print func(figure) error) error {
	docked, err := r.container(ctx)
	if err != nil {
		return err
	}
	pid, err := r.docker.Pid(ctx, docked)
	if err != nil {
		return err
	}
	peer, err := dockerPSS(pid)
	if err != nil {
		return err
	}
	before, err := helpers()
	if err != nil {
		return err
	}
	boxes, err := r.idlers(ctx)
	if err != nil {
		return err
	}
	all, err := helpers()
	if err != nil {
		return err
	}
	ours := without(all, before)
	if len(ours) != r.idle {
		return fmt.Errorf("%d sandboxes were made, and %d helpers run", r.idle, len(ours))
	}
	if err := waitIdle(ctx); err != nil {
		return err
	}
	each, sum, err := eachPSS(ours)
	if err != nil {
		return err
	}
	err = errors.Join(
		print(figure{name: fmt.Sprintf("memory of an idle sandbox, one of %d, to Docker's", r.idle), ours: quantile(each, .5), peer: peer,
			unit: "MiB", n: r.idle, goals: []goal{{ours: 1}}, note: "PSS; Docker's is process and shim"}),
		print(figure{name: fmt.Sprintf("memory of %d idle sandboxes to 1.5 MiB each", r.idle), ours: sum, peer: 1.5 * float64(r.idle),
			unit: "MiB", n: r.idle, goals: []goal{{ratio: 1}}, note: "PSS; all started"}),
	)
	if err != nil {
		return err
	}
	return r.nothingLeft(ctx, boxes, ours)
}

// idlers makes sandboxes that have each run one command and are now idle.
func (r *rig) idlers(ctx context.Context) (boxes []box, err error) {
	for range r.idle {
		b, err := r.ours.create(ctx)
		if err != nil {
			return boxes, err
		}
		boxes = append(boxes, b)
		if err := b.exec(ctx); err != nil {
			return boxes, err
		}
	}
	return boxes, nil
}

// waitIdle waits for three seconds, so that processes become idle.
func waitIdle(ctx context.Context) error { return pause(ctx, 3*time.Second) }

// nothingLeft deletes the sandboxes and returns an error if a trace of them stays on the host.
func (r *rig) nothingLeft(ctx context.Context, boxes []box, pids []int) error {
	t, err := traces(r.ours.dir, boxes, pids)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if err := r.ours.end(ctx, b); err != nil {
			return err
		}
	}
	return t.gone(ctx)
}

// helpers lists the process ids of the helpers that this process started. Other processes may have started more.
func helpers() (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range all {
		args, err := os.ReadFile(dir + "/cmdline")
		if err != nil || string(bytes.TrimRight(args, "\x00")) != "berth-guest" {
			continue
		}
		if parent, err := statusField(dir, "PPid"); err != nil || parent != os.Getpid() {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func without(all, some []int) (rest []int) {
	skip := map[int]bool{}
	for _, pid := range some {
		skip[pid] = true
	}
	for _, pid := range all {
		if !skip[pid] {
			rest = append(rest, pid)
		}
	}
	return rest
}

// statusField reads a number from the file status of a process's directory in /proc.
func statusField(dir, field string) (int, error) {
	return numberAfter(filepath.Join(dir, "status"), field+":")
}

// dockerPSS returns the memory, in MiB, of a container's process and of its parent, the containerd shim.
func dockerPSS(pid int) (float64, error) {
	shim, err := statusField(fmt.Sprint("/proc/", pid), "PPid")
	if err != nil {
		return 0, err
	}
	_, sum, err := eachPSS([]int{pid, shim})
	return sum, err
}

// eachPSS returns the proportional set size of each process and their sum, in MiB.
func eachPSS(pids []int) (each []float64, sum float64, err error) {
	for _, pid := range pids {
		kib, err := numberAfter(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if err != nil {
			return nil, 0, err
		}
		each = append(each, float64(kib)/1024)
		sum += float64(kib) / 1024
	}
	return each, sum, nil
}

// numberAfter returns the number after word in the line of the file that begins with word.
func numberAfter(path, word string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == word {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, word)
}
