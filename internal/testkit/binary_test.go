package testkit

import (
	"os/exec"
	"strings"
	"testing"
)

func TestBinaryIsBuiltOnce(t *testing.T) {
	path := Binary(t)
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "berth") {
		t.Errorf("%s: %v", out, err)
	}
	if again := Binary(t); again != path {
		t.Errorf("%s, then %s", path, again)
	}
}

func TestBinaryWithASeededBugIsApart(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                      "",
		"-mod=mod":                              "",
		"-mod=mod -overlay=/tmp/o/overlay.json": "/tmp/o",
	} {
		if got := overlayDir(flags); got != want {
			t.Errorf("%q: %q, want %q", flags, got, want)
		}
	}
}
