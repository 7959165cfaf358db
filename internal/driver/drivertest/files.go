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

// files opens a directory of an instance, calls use with it and closes it.
func (s *suite) files(id driver.ID, root string, use func(context.Context, files.FS) error) {
	s.Helper()
	fs, err := s.filer().Files(s.ctx(), id, root)
	s.check(err == nil, "Files: %v", err)
	err = use(s.ctx(), fs)
	s.check(err == nil, "use of the %s: %v", root, err)
	err = fs.Close()
	s.check(err == nil, "close the %s: %v", root, err)
}

func (s *suite) writeFile(id driver.ID, root, name, text string) {
	s.Helper()
	s.files(id, root, func(ctx context.Context, fs files.FS) error {
		_, _, err := fs.Write(ctx, name, strings.NewReader(text), files.WriteOptions{})
		return err
	})
}

func (s *suite) checkFile(id driver.ID, root, name, want string) {
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

// The suite can read files that commands write, and commands can read files that the suite writes.
func testFilesRunning(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.checkFile(id, files.WorkingDir, "inside", "inside\n")
	s.writeFile(id, files.WorkingDir, "deep/outside", "outside\n")
	s.output(id, sh("cat deep/outside && echo more >>deep/outside"), "outside\n")
	s.checkFile(id, files.WorkingDir, "deep/outside", "outside\nmore\n")
}

// The working directory and the home directory are separate.
func testFilesRoots(s *suite) {
	id := s.create(s.spec()).ID
	s.writeFile(id, files.WorkingDir, "mark", "workspace")
	s.writeFile(id, files.HomeDir, "mark", "home")
	s.checkFile(id, files.WorkingDir, "mark", "workspace")
	s.checkFile(id, files.HomeDir, "mark", "home")
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

// Files can be changed while the instance is stopped. The changes are visible when it runs again.
func testFilesStopped(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.stop(id)
	s.phase(id, driver.PhaseStopped)
	s.checkFile(id, files.WorkingDir, "inside", "inside\n")
	s.writeFile(id, files.WorkingDir, "outside", "outside\n")
	s.writeFile(id, files.HomeDir, "outside", "at home\n")
	s.phase(id, driver.PhaseStopped)
	s.start(id)
	s.output(id, sh("cat outside; echo more >>outside"), "outside\n")
	s.checkFile(id, files.HomeDir, "outside", "at home\n")
}

func testFilesFrozen(s *suite) {
	id := s.create(s.spec()).ID
	s.output(id, sh("echo inside >inside"), "")
	s.freeze(id)
	s.phase(id, driver.PhaseFrozen)
	s.checkFile(id, files.WorkingDir, "inside", "inside\n")
	s.writeFile(id, files.WorkingDir, "outside", "outside\n")
	s.phase(id, driver.PhaseFrozen)
	s.thaw(id)
	s.output(id, sh("cat outside"), "outside\n")
}
