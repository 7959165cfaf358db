package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 3 * time.Second

// connect connects to an address, sends a word, and prints the answer.
func connect(args []string) error {
	w, err := words(args, 2)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout(w[0], w[1], patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	fmt.Printf("%s\n", buf[:n])
	return err
}

// interfaces prints the name of a network interface that is up and not the loopback.
func interfaces([]string) error {
	all, err := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			fmt.Println(i.Name)
			return nil
		}
	}
	return errors.Join(err, errors.New("only the loopback is up"))
}

func hostname([]string) error {
	name, err := os.Hostname()
	fmt.Printf("name %s.\n", name)
	return err
}

// segment prints the contents of a shared memory segment.
func segment(args []string) error {
	n, err := number(args, 1)
	if err != nil {
		return err
	}
	id, err := unix.SysvShmGet(n[0], 0, 0)
	if err != nil {
		return err
	}
	data, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(string(data), "\x00")
	fmt.Println(text)
	return nil
}

// queue opens a message queue.
func queue(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	name, err := unix.BytePtrFromString(w[0])
	if err != nil {
		return errUsage
	}
	return rawSyscall(unix.SYS_MQ_OPEN, pointer(name), unix.O_RDONLY, 0)
}
