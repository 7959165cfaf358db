package drivertest

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

func runFiles(run runner) {
	run("FilesRunning", testFilesRunning)
	run("FilesRoots", testFilesRoots)
	run("FilesUnknown", testFilesUnknown)
}

func (s *suite) filer() driver.Filer {
	filer, ok := driver.As[driver.Filer](s.d)
	s.check(ok, "the ability to get at files comes and goes")
	return filer
}

// files opens a root for one use of it.
func (s *suite) files(id driver.ID, root string, use func(context.Context, files.FS) error) {
	s.Helper()
	fs, err := s.filer().Files(s.ctx(), id, root)
	s.check(err == nil, "Files: %v", err)
	err = use(s.ctx(), fs)
	s.check(err == nil, "use of the %s: %v", root, err)
	err = fs.Close()
	s.check(err == nil, "close the %s: %v", root, err)
}

func (s *suite) put(id driver.ID, root, name, text string) {
	s.Helper()
	s.files(id, root, func(ctx context.Context, fs files.FS) error {
		_, _, err := fs.Write(ctx, name, strings.NewReader(text), files.WriteOptions{})
		return err
	})
}

func (s *suite) has(id driver.ID, root, name, want string) {
	s.Helper()
	s.files(id, root, func(ctx context.Context, fs files.FS) error {
		f, err := fs.Open(ctx, name)
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if err == nil && string(got) != want {
			err = fmt.Errorf("%s has %q, not %q", name, got, want)
		}
		return err
	})
}

// What commands write is there to be read, and the other way round.
func testFilesRunning(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.has(id, files.WorkingDir, "inside", "inside\n")
	s.put(id, files.WorkingDir, "deep/outside", "outside\n")
	s.output(id, sh("cat deep/outside && echo more >>deep/outside"), "outside\n")
	s.has(id, files.WorkingDir, "deep/outside", "outside\nmore\n")
}

// The roots are apart from each other.
func testFilesRoots(s *suite) {
	id := s.create(s.spec()).ID
	s.put(id, files.WorkingDir, "mark", "workspace")
	s.put(id, files.HomeDir, "mark", "home")
	s.has(id, files.WorkingDir, "mark", "workspace")
	s.has(id, files.HomeDir, "mark", "home")
	s.output(id, guest.Cmd{Argv: []string{"cat", "mark"}}, "workspace")
	_, err := s.filer().Files(s.ctx(), id, "elsewhere")
	s.is(err, driver.ErrInvalid, "Files of a root that there is not")
}

func testFilesUnknown(s *suite) {
	st := s.create(s.spec())
	s.destroy(st.ID)
	s.gone(st.ID)
	for _, id := range append(unknownIDs(st.ID), st.ID) {
		_, err := s.filer().Files(s.ctx(), id, files.WorkingDir)
		s.is(err, driver.ErrNotFound, "Files where nothing is")
	}
}

// Files can be had while nothing runs, and what was changed meanwhile is there when it runs again.
func testFilesStopped(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.stop(id)
	s.phase(id, driver.PhaseStopped)
	s.has(id, files.WorkingDir, "inside", "inside\n")
	s.put(id, files.WorkingDir, "outside", "outside\n")
	s.put(id, files.HomeDir, "outside", "at home\n")
	s.phase(id, driver.PhaseStopped)
	s.start(id)
	s.output(id, sh("cat outside; echo more >>outside"), "outside\n")
	s.has(id, files.HomeDir, "outside", "at home\n")
}

func testFilesFrozen(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.freeze(id)
	s.phase(id, driver.PhaseFrozen)
	s.has(id, files.WorkingDir, "inside", "inside\n")
	s.put(id, files.WorkingDir, "outside", "outside\n")
	s.phase(id, driver.PhaseFrozen)
	s.thaw(id)
	s.output(id, sh("cat outside"), "outside\n")
}
