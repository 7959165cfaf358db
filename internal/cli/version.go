package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says which Berth this is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (b build) String() string {
	return fmt.Sprintf("berth %s (commit %s, %s, %s/%s)", b.Version, b.Commit, b.Go, b.OS, b.Arch)
}

// version takes what the linker was told, else what the toolchain recorded.
func (f *frame) version() build {
	b := build{Version: f.Version, Commit: f.Commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.fill(info)
	}
	b.Version, b.Commit = first(b.Version, "dev"), first(b.Commit, "unknown")
	return b
}

func (b *build) fill(info *debug.BuildInfo) {
	if v := info.Main.Version; v != "(devel)" {
		b.Version = first(b.Version, v)
	}
	if b.Commit != "" {
		return
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value[:min(len(s.Value), 12)] + b.Commit
		case s.Key == "vcs.modified" && s.Value == "true":
			b.Commit += "+changes"
		}
	}
}

func (f *frame) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show which Berth this is",
		Long:    "Show the version, the commit it was built from, the Go release and the platform.",
		Example: "  berth version\n  berth version --json",
		Args:    takes(0, 0, ""),
		RunE:    run(func(context.Context, []string) error { return f.showVersion() }),
	}
}

func (f *frame) showVersion() error {
	if f.json {
		return writeJSON(f.out, f.version())
	}
	_, err := fmt.Fprintln(f.out, f.version())
	return err
}

// versionFlag lets --version do what the command does.
func (f *frame) versionFlag(root *cobra.Command) {
	asked := root.Flags().BoolP("version", "v", false, "show which Berth this is")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return f.showVersion()
		}
		return help(cmd, args)
	}
}
