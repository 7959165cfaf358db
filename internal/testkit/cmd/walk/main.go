// Command walk counts the server's functions, files and packages that take part in one command in a running sandbox,
// in one call of a project's tool, or in one turn. It builds the server with coverage counters and compares a run with
// few uses and a run with many: a function takes part if it ran at least once for each additional use. A second count
// leaves out the functions that also run while the server is idle, such as those of the background scans.
//
//	go run ./internal/testkit/cmd/walk [-list] [-source DIR]
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	module = "github.com/berthdev/berth/"
	few    = 2  // number of uses in the shorter run
	many   = 12 // number of uses in the longer run

	idleFor = 20 * time.Second // difference between the two idle runs
)

// walks holds the arguments of berth for each measured use.
var walks = map[string][]string{
	"exec": {"project", "exec", "walk", "--", "echo", "hi"},
	"tool": {"project", "tool", "walk", "bash", "command=echo hi"},
	"turn": {"chat", "--continue", "write a.txt: hello"},
}

func main() {
	list := flag.Bool("list", false, "print the functions")
	source := flag.String("source", ".", "the source tree to measure")
	flag.Parse()
	if err := run(*source, *list); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(source string, list bool) error {
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	berth := filepath.Join(dir, "berth")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-buildvcs=false", "-o", berth, "./cmd/berth")
	build.Dir, build.Env, build.Stderr = source, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	idle, err := idleBlocks(dir, berth)
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	for _, name := range []string{"exec", "tool", "turn"} {
		begun := time.Now()
		after, err := counted(dir, berth, name, many, time.Time{})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		before, err := counted(dir, berth, name, few, time.Now().Add(time.Since(begun)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := report(source, name, taking(before, after, many-few), idle, list); err != nil {
			return err
		}
	}
	return nil
}

// idleBlocks returns the blocks that run again and again while nothing uses the server.
func idleBlocks(dir, berth string) (map[string]bool, error) {
	begun := time.Now()
	before, err := counted(dir, berth, "tool", 0, time.Time{})
	if err != nil {
		return nil, err
	}
	after, err := counted(dir, berth, "tool", 0, time.Now().Add(time.Since(begun)+idleFor))
	if err != nil {
		return nil, err
	}
	return taking(before, after, 1), nil
}

// taking returns the blocks that ran at least n times more often in the second run.
func taking(before, after map[string]int, n int) map[string]bool {
	blocks := map[string]bool{}
	for block := range after {
		if after[block]-before[block] >= n {
			blocks[block] = true
		}
	}
	return blocks
}

// counted runs a server with the given number of uses and returns how often each block of its code ran. The server runs
// at least until the given time, because background work is the same only in two runs of the same length.
func counted(dir, berth, name string, times int, until time.Time) (map[string]int, error) {
	data, err := os.MkdirTemp(dir, name)
	if err != nil {
		return nil, err
	}
	covers := filepath.Join(data, "covers")
	if err := os.Mkdir(covers, 0o700); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	server := exec.Command(berth, "serve", "--data-dir", filepath.Join(data, "data"), "--listen", address)
	server.Env = append(os.Environ(), "GOCOVERDIR="+covers)
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		return nil, err
	}
	err = do(berth, data, address, name, times, until)
	server.Process.Signal(os.Interrupt)
	if ended := server.Wait(); err == nil && ended != nil {
		err = ended
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said.String())
	}
	return read(covers)
}

func do(berth, data, address, name string, times int, until time.Time) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		if err == nil && res.StatusCode == http.StatusOK {
			break
		}
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("the server is not ready: %v", err)
		}
	}
	ignored := filepath.Join(data, "ignored")
	env := append(os.Environ(), "BERTH_SERVER=http://"+address, "BERTH_DATA_DIR="+filepath.Join(data, "data"), "GOCOVERDIR="+ignored, "XDG_STATE_HOME="+data)
	if err := os.Mkdir(ignored, 0o700); err != nil {
		return err
	}
	first := []string{"project", "ensure", "walk"}
	if name == "turn" {
		first = []string{"chat", "write a.txt: hello"}
	}
	call := func(args ...string) error {
		cmd := exec.Command(berth, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("berth %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	for _, args := range append([][]string{first}, slices.Repeat([][]string{walks[name]}, times)...) {
		if err := call(args...); err != nil {
			return errors.Join(err, call("down"))
		}
	}
	time.Sleep(time.Until(until))
	return call("down") // otherwise sandboxes would keep running after the server's end
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// read returns the coverage counters by block. A block has the form file:line.column,line.column.
func read(covers string) (map[string]int, error) {
	text := filepath.Join(covers, "..", "covers.txt")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+covers, "-o="+text).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("covdata: %w\n%s", err, out)
	}
	f, err := os.Open(text)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	counts := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil && len(fields) == 3 {
			counts[fields[0]] = n
		}
	}
	return counts, nil
}

// report prints the numbers of functions, files and packages with one of the blocks.
func report(source, name string, blocks, idle map[string]bool, list bool) error {
	functions, err := functionsOf(source, blocks)
	if err != nil {
		return err
	}
	background, err := functionsOf(source, idle)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(functions), func(f string) bool { return slices.Contains(background, f) })
	fmt.Printf("functions / files / packages of one %s\t%s\n", name, sizes(functions))
	fmt.Printf("… without those that run while idle\t%s\n", sizes(own))
	if list {
		fmt.Println("  " + strings.Join(own, "\n  "))
	}
	return nil
}

// sizes counts functions, their files and their packages.
func sizes(functions []string) string {
	files, packages := map[string]bool{}, map[string]bool{}
	for _, f := range functions {
		file, _, _ := strings.Cut(f, " ")
		files[file], packages[filepath.Dir(file)] = true, true
	}
	return fmt.Sprintf("%d / %d / %d", len(functions), len(files), len(packages))
}

// functionsOf returns the functions that contain one of the blocks, as file and name, sorted.
func functionsOf(source string, blocks map[string]bool) (functions []string, err error) {
	lines := map[string][]int{} // by file
	for block := range blocks {
		file, rest, _ := strings.Cut(block, ":")
		line, _, _ := strings.Cut(rest, ".")
		at, _ := strconv.Atoi(line)
		file = strings.TrimPrefix(file, module)
		lines[file] = append(lines[file], at)
	}
	for file, at := range lines {
		found, err := functionsAt(filepath.Join(source, file), at)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			functions = append(functions, file+" "+f)
		}
	}
	slices.Sort(functions)
	return functions, nil
}

// functionsAt returns the names of the functions in a file that contain one of the lines.
func functionsAt(path string, lines []int) (names []string, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
		if slices.ContainsFunc(lines, func(line int) bool { return from <= line && line <= to }) {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}
