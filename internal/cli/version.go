package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

// build describes the version of this program.
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

// build returns the linker's values, or those that the toolchain recorded.
func (d Deps) build() build {
	b := build{Version: d.Version, Commit: d.Commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.fill(info)
	}
	b.Version, b.Commit = ui.First(b.Version, "dev"), ui.First(b.Commit, "unknown")
	return b
}

func (b *build) fill(info *debug.BuildInfo) {
	if v := info.Main.Version; v != "(devel)" {
		b.Version = ui.First(b.Version, v)
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

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version",
		Long:    "Show the version, the commit it was built from, the Go release and the platform.",
		Example: "  berth version\n  berth version --json",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(context.Context, []string) error { return a.showVersion() }),
	}
}

func (a *app) showVersion() error {
	if a.JSON {
		return ui.WriteJSON(a.Out, a.deps.build())
	}
	_, err := fmt.Fprintln(a.Out, a.deps.build())
	return err
}

// versionFlag adds the flag --version, which does the same as the command version.
func (a *app) versionFlag(root *cobra.Command) {
	asked := root.Flags().BoolP("version", "v", false, "show the version")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return a.showVersion()
		}
		return help(cmd, args)
	}
}
