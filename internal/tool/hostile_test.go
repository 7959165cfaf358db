package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// everyTool are calls of all tools that take a path, on one.
func everyTool(path string) map[string]args {
	return map[string]args{
		"read":  {"file_path": path},
		"write": {"file_path": path, "content": "overwritten"},
		"edit":  {"file_path": path, "old_string": "canary", "new_string": "overwritten"},
		"glob":  {"pattern": "*", "path": path},
		"grep":  {"pattern": "canary", "path": path, "output_mode": "content"},
		"list":  {"path": path, "hidden": true, "depth": 3},
	}
}

// No tool on files leads out of the sandbox's own, however it is asked.
func TestNothingLeadsOut(t *testing.T) {
	testkit.Proves(t, "P3", "V4")
	w := newWorld(t)
	w.tree("inside/file")
	for link, target := range map[string]string{
		"file-out": filepath.Join(w.outside, "secret"), "folder-out": w.outside, "up": "../../../../../..", "proc": "/proc/self/root",
		"inside/deep": w.outside, "loop": "loop",
	} {
		if err := os.Symlink(target, w.at(link)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{
		"file-out", "folder-out", "folder-out/secret", "inside/deep", "inside/deep/secret", "loop", "proc", "proc/etc/passwd",
		"up" + w.outside + "/secret", "..", "../outside", "inside/../../x", w.outside, w.outside + "/secret", "/etc/passwd", "/", "/workspacex",
		"/workspace/..", "/workspace/../etc/passwd", "/home/agent/../../etc", "~root/x", "%2e%2e/x", `..\x`, "/workspace//etc/passwd",
		"nul\x00", "line\nend", "\x1b[31m", strings.Repeat("x/", 2400), strings.Repeat("x", 300),
	}
	for _, path := range paths {
		for name, in := range everyTool(path) {
			r := w.call(name, in)
			if !r.IsError || strings.Contains(r.Text(), canary) || strings.ContainsAny(r.Text(), "\x1b") {
				t.Errorf("%s %q: %s", name, path, r.Text())
			}
		}
	}
	for _, in := range []args{{"pattern": "canary"}, {"pattern": "canary", "output_mode": "content", "glob": "**"}} {
		is(t, "grep", w.ok("grep", in), "No matches.\n")
	}
	for _, pattern := range []string{"**/secret", "folder-out/*", "../**", "{..,x}/**", "up/**/passwd"} {
		if r := w.call("glob", args{"pattern": pattern}); !r.IsError && words(r.Text()) != "No files match." {
			t.Errorf("%s: %s", pattern, r.Text())
		}
	}
	if text := w.ok("list", args{"depth": 5}); strings.Contains(text, "secret  ") {
		t.Errorf("a link was followed: %s", text)
	}
	w.untouched()
}

// Pipes and devices are named and never opened: that could wait for ever, or do something.
func TestSpecialFilesAreNeverOpened(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	if err := errors.Join(unix.Mkfifo(w.at("pipe"), 0o666), unix.Mknod(w.at("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))),
		unix.Mknod(w.at("socket"), unix.S_IFSOCK|0o666, 0)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pipe", "zero", "socket"} {
		for _, name := range []string{"read", "write", "edit", "grep"} {
			w.no(name, everyTool(path)[name], "special_file")
		}
		for _, name := range []string{"glob", "list"} {
			w.no(name, everyTool(path)[name], "not_a_directory")
		}
	}
	is(t, "grep", w.ok("grep", args{"pattern": "."}), "No matches.\n")
	has(t, w.ok("glob", args{"pattern": "*"}), "pipe\n", "socket\n", "zero\n")
	is(t, "list", w.ok("list", args{}), "/workspace/\n  pipe  (pipe)\n  socket  (socket)\n  zero  (device)\n")
}

// A name is one line of an answer, whatever is in it.
func TestHostileNamesStayOnTheirLine(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a\nb:1:forged", "\x1b[2Jclear", "bad\xff", `"quoted"`, "\u202etxt.exe", "tab\there"} {
		w.put(name, "needle\nx\x1b\n")
	}
	for _, text := range []string{
		w.ok("glob", args{"pattern": "*"}), w.ok("grep", args{"pattern": "needle"}),
		w.ok("grep", args{"pattern": "needle", "output_mode": "content"}), w.ok("list", args{}),
	} {
		if n := strings.Count(text, "\n"); n != 6 && n != 7 || strings.ContainsAny(text, "\x1b\t\u202e") {
			t.Errorf("%q", text)
		}
		has(t, text, `"a\nb:1:forged"`, `"\x1b[2Jclear"`, `"bad\xff"`, `"\"quoted\""`, `"\u202etxt.exe"`, `"tab\there"`)
	}
}

func TestHugeFilesAreReadInPart(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put("sparse", "")
	w.put("text", "needle\n")
	w.put("lines", strings.Repeat("a line\n", 1000))
	for name, size := range map[string]int64{"sparse": 1 << 30, "text": 1 << 30} {
		if err := os.Truncate(w.at(name), size); err != nil {
			t.Fatal(err)
		}
	}
	// Beginning as text: a line of a gigabyte.
	f, err := os.OpenFile(w.at("text"), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strings.Repeat("needle\n", 2000))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.no("read", args{"file_path": "sparse"}, "not text", "1073741824 bytes")
	r := w.call("read", args{"file_path": "text", "offset": 2001})
	if r.IsError || !r.Truncated {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "64 MiB")
	w.no("edit", args{"file_path": "sparse", "old_string": "x", "new_string": "y"}, "too large")
	r = w.call("grep", args{"pattern": "needle", "output_mode": "count"})
	if !r.Truncated {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "text:2000\n", "1 files were searched only in their first 64 MiB")
	is(t, "end", w.ok("read", args{"file_path": "lines", "offset": 1000}), "  1000\ta line\n")
}

// An edit cannot make of a small file one that fills memory or disk.
func TestEditCannotExplode(t *testing.T) {
	w := newWorld(t)
	w.put("a", strings.Repeat("a", 1<<20))
	w.no("edit", args{"file_path": "a", "old_string": "a", "new_string": strings.Repeat("b", 1<<20), "replace_all": true}, "too large")
	w.holds("a", strings.Repeat("a", 1<<20))
}

func TestManyFilesAreSearchedAndCut(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	n := testkit.Size(t, "files.entries")
	if err := os.Mkdir(w.at("many"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := unix.Open(w.at("many"), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	for i := range n {
		fd, err := unix.Openat(dir, fmt.Sprintf("file-%07d", i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	w.put("many/file-0000077", "needle\n")
	for name, in := range map[string]args{"glob": {"pattern": "**/file-*"}, "list": {"path": "many"}} {
		r := w.call(name, in, 600)
		if !r.Truncated || r.IsError {
			t.Errorf("%s of %d files: %.500s", name, n, r.Text())
		}
		has(t, r.Text(), "Not everything")
	}
	if r := w.call("grep", args{"pattern": "needle"}, 600); !strings.HasPrefix(r.Text(), "many/file-0000077\n") {
		t.Errorf("%.500s", r.Text())
	}
	r := w.call("grep", args{"pattern": "needle|^$"}, 0.000001)
	if !r.Truncated {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "the time was over")
	w.no("list", args{"path": strings.Repeat("x/", 100)}, "file_not_found")
}

// Deep trees are walked only so far.
func TestDeepTreesAreCut(t *testing.T) {
	w := newWorld(t)
	deep := strings.Repeat("d/", 100)
	w.put(deep+"file", "needle\n")
	for name, in := range map[string]args{"glob": {"pattern": "file"}, "grep": {"pattern": "needle"}} {
		r := w.call(name, in)
		if !r.Truncated {
			t.Errorf("%+v", r)
		}
		has(t, r.Text(), "nested deeper than 64")
	}
	is(t, "glob", w.ok("glob", args{"pattern": deep + "*"}), deep+"file\n")
	is(t, "grep", w.ok("grep", args{"pattern": "needle", "path": deep}), deep+"file\n")
}

// Patterns that take other engines for ever, or all memory.
func TestPatternsThatExplodeDoNot(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put(strings.Repeat("a", 200), strings.Repeat("a", 100_000)+"\n")
	for _, pattern := range []string{
		strings.Repeat("{a,a}", 190) + "b", strings.Repeat("**/", 300) + "b", strings.Repeat("*a", 300) + "b", strings.Repeat("{a,*}", 190) + "b",
		strings.Repeat("{", 300) + "a" + strings.Repeat("}", 300) + "b",
	} {
		is(t, "glob", words(w.ok("glob", args{"pattern": pattern})), "No files match.")
	}
	for _, pattern := range []string{`(a+)+$b`, `(a|a)*b`, `(a|aa)+b`, `(.*)*b`, `(a*)*(a*)*(a*)*b`} {
		is(t, pattern, w.ok("grep", args{"pattern": pattern}), "No matches.\n")
	}
	for _, pattern := range []string{`((a{10}){10}){10}{10}`, `(` + strings.Repeat("ab", 100) + `){1000}`, strings.Repeat(`(a{1000})`, 100), `(((a{30}){30}){30}){30}`} {
		_, err := w.try("grep", args{"pattern": pattern})
		isCode(t, pattern, err, api.CodeInvalidRequest)
	}
	// A long line and an expression as large as they get: it is interrupted.
	w.put("long", strings.Repeat("ab", 100_000)+"\n")
	r := w.call("grep", args{"pattern": `(a|b|ab){400}c{400}`, "path": "long"}, 0.01)
	if !r.Truncated {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "the time was over")
}

// A command that writes without end is neither ended by it nor does it fill memory.
func TestFloodOfOutputIsCut(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	r := w.call("bash", args{"command": "echo first; yes | head -c 100000000; echo last; echo problem >&2"})
	if r.IsError || !r.Truncated {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(r.Text(), "first\ny\n") {
		t.Errorf("begins %.30q", r.Text())
	}
	has(t, r.Text(), "bytes left out here", "\nlast\n[stderr]\nproblem\n", "Redirect it to a file")
	r = w.call("bash", args{"command": "yes ü | head -c 1000001 >&2 & yes äö | head -c 1000001; wait"})
	if n := len(r.Text()); n < 25_000 || !r.Truncated {
		t.Errorf("%d bytes", n)
	}
	if n := strings.Count(r.Text(), "\uFFFD"); n > 2 { // where the commands themselves cut
		t.Errorf("%d broken characters", n)
	}
	r = w.call("bash", args{"command": "yes", "timeout": 1})
	if *r.ExitCode != 124 {
		t.Errorf("%+v", r)
	}
	has(t, w.ok("bash", args{"command": `head -c 1000 /dev/zero; printf '\xff\xfe'`}), "\x00\x00", "\uFFFD")
}

func TestHugeArgumentsAreTakenOrRefused(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	big := strings.Repeat("x", 1<<20)
	is(t, "write", w.ok("write", args{"file_path": "big", "content": big}), "Created big (1048576 bytes).")
	is(t, "edit", w.ok("edit", args{"file_path": "big", "old_string": big, "new_string": "small"}), "Replaced 1 occurrence in big.")
	w.holds("big", "small")
	for name, in := range map[string]args{
		"bash": {"command": "true #" + big}, "read": {"file_path": big}, "write": {"file_path": big, "content": ""},
		"edit": {"file_path": big, "old_string": "a", "new_string": "b"}, "glob": {"pattern": big}, "grep": {"pattern": big}, "list": {"path": big},
	} {
		_, err := w.try(name, in)
		isCode(t, name, err, api.CodeInvalidRequest)
		if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	w.ok("bash", args{"command": "true #" + strings.Repeat("x", 99_000)})
	if r := w.call("bash", args{"command": "true #" + strings.Repeat("ü", 99_000)}); *r.ExitCode != 126 { // more than the kernel takes
		t.Errorf("%+v", r)
	}
	for _, in := range []args{{"command": "echo a\x00b"}, {"command": "true", "cwd": "/\x00"}} {
		_, err := w.try("bash", in)
		isCode(t, "NUL", err, api.CodeInvalidRequest)
	}
	is(t, "grep", w.ok("grep", args{"pattern": "\x00"}), "No matches.\n")
	is(t, "glob", words(w.ok("glob", args{"pattern": "\x00*"})), "No files match.")
}

// A command that runs for long keeps timers away from its sandbox.
func TestLongCommandHoldsItsSandbox(t *testing.T) {
	w := newWorld(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = builtin.Call(t.Context(), w.Handle(), api.ExecuteTool{ToolName: "bash", Arguments: json.RawMessage(`{"command":"until [ -e stop ]; do sleep 0.1; done","timeout":3000}`)})
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if w.Held.Load() != 1 {
			return fmt.Errorf("held %d times", w.Held.Load())
		}
		return nil
	})
	w.put("stop", "")
	<-done
	w.ok("bash", args{"command": "true"})
	if n := w.Held.Load(); n != 1 {
		t.Errorf("held %d times", n)
	}
}
