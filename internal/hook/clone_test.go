package hook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// gitServer serves repositories over HTTP, the private one only to who has the token.
func gitServer(t *testing.T) (url, root string) {
	t.Helper()
	root = t.TempDir()
	libexec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Stderr: io.Discard,
		Path:   filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/private") && (user != "x-access-token" || password != canary) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	git(t, root, "init", "--quiet", "--bare", "--initial-branch=main", "private.git")
	git(t, root, "init", "--quiet", "--bare", "--initial-branch=main", "hollow.git")
	git(t, root, "init", "--quiet", "--initial-branch=main", "work")
	work := filepath.Join(root, "work")
	for _, step := range []string{"one", "two"} {
		for path, text := range map[string]string{"file": step, ".hidden": step, "dir/a b": step, ".berth/mine": step, ".sandbox-state": "{}"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(work, path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(work, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git(t, work, "add", "-A")
		git(t, work, "commit", "--quiet", "-m", step)
		git(t, work, "tag", step)
	}
	git(t, work, "branch", "feature/x", "one")
	git(t, work, "push", "--quiet", "../private.git", "--all")
	git(t, work, "push", "--quiet", "../private.git", "--tags")
	git(t, work, "push", "--quiet", "../private.git", "one:refs/pull/1/head")
	if err := os.CopyFS(filepath.Join(root, "public.git"), os.DirFS(filepath.Join(root, "private.git"))); err != nil {
		t.Fatal(err)
	}
	return srv.URL, root
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// cloner is a runner with the clone hook and a sandbox.
func cloner(t *testing.T, env ...string) (*testRunner, *staffed) {
	r, _ := runner(hook.Spec{Phase: hook.OnColdStart, Builtin: hook.Clone})
	r.Builtins = map[string]hook.Func{hook.Clone: hook.CloneRepository}
	return r, inBox(t, r, append(env, "no_proxy=*", "GITHUB_TOKEN="+canary)...)
}

func TestRepositoryAtARef(t *testing.T) {
	testkit.Proves(t, "H7")
	url, root := gitServer(t)
	commit := git(t, filepath.Join(root, "work"), "rev-parse", "one")
	for _, c := range []struct{ repository, ref, file, head string }{
		{url + "/private.git", "", "two", "refs/heads/main"},
		{url + "/private.git", "main", "two", "refs/heads/main"},
		{url + "/private.git", "refs/heads/feature/x", "one", "refs/heads/feature/x"},
		{url + "/private.git", "one", "one", ""},
		{url + "/private.git", commit, "one", ""},
		{url + "/private.git", "refs/pull/1/head", "one", ""},
		{url + "/public.git", "two", "two", ""},
		{url + "/hollow.git", "", "", "refs/heads/main"},
	} {
		t.Run(c.repository[strings.LastIndex(c.repository, "/")+1:]+"@"+strings.ReplaceAll(c.ref, "/", "-"), func(t *testing.T) {
			if c.repository == url+"/hollow.git" {
				t.Log("a repository without a commit")
			}
			r, s := cloner(t, "GITHUB_REPOSITORY="+c.repository, "GITHUB_REF="+c.ref)
			if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err != nil {
				t.Fatal(err)
			}
			if s.read("file") != c.file || s.read(".hidden") != c.file || s.read("dir/a b") != c.file || s.read(".berth/mine") != "" || s.read(".sandbox-state") != "" {
				t.Errorf("file %q", s.read("file"))
			}
			head := s.read(".git/HEAD")
			if c.head != "" && head != "ref: "+c.head+"\n" || c.head == "" && len(head) != 41 {
				t.Errorf("HEAD is %q", head)
			}
			// The token is nowhere on disk.
			if out, err := exec.Command("grep", "-r", "-l", "-e", canary, s.helper.Dir).CombinedOutput(); err == nil {
				t.Errorf("the token is in %s", out)
			}
			if left, _ := filepath.Glob(s.helper.Dir + "/home/.berth-clone*"); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestCloneLeavesWorkAlone(t *testing.T) {
	url, _ := gitServer(t)
	r, s := cloner(t, "GITHUB_REPOSITORY="+url+"/public.git")
	place := filepath.Join(s.helper.Dir, "workspace")
	if err := os.WriteFile(filepath.Join(place, "..mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err != nil || s.read("file") != "" {
		t.Errorf("%v, file %q", err, s.read("file"))
	}
}

// What was cut off while it was moved in is finished by the next start.
func TestCloneThatWasCutOff(t *testing.T) {
	url, root := gitServer(t)
	r, s := cloner(t, "GITHUB_REPOSITORY="+url+"/public.git")
	git(t, s.helper.Dir+"/home", "clone", "--quiet", filepath.Join(root, "public.git"), ".berth-clone.complete")
	if err := os.Rename(s.helper.Dir+"/home/.berth-clone.complete/file", s.helper.Dir+"/workspace/file"); err != nil {
		t.Fatal(err)
	}
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err != nil || s.read("dir/a b") != "two" || s.read(".git/HEAD") == "" {
		t.Error(err)
	}
}

func TestCloneThatCannotBe(t *testing.T) {
	url, _ := gitServer(t)
	for _, c := range []struct{ repository, ref, said string }{
		{"", "", "no repository is named"},
		{"file:///etc", "", "is neither owner/name nor an address"},
		{"--upload-pack=x", "", "is neither owner/name nor an address"},
		{"https://joe:pass@a.test/x", "", "has a user or a password in it"},
		{url + "/public.git", "--detach", "is neither a branch"},
		{url + "/public.git", "nosuch", "no branch, tag or commit nosuch"},
		{url + "/nosuch.git", "", "git failed"},
	} {
		r, s := cloner(t, "GITHUB_REPOSITORY="+c.repository, "GITHUB_REF="+c.ref)
		err := r.ColdStart(t.Context(), someSandbox(), "i-1")
		if err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s at %s: %v", c.repository, c.ref, err)
		}
		if entries, _ := os.ReadDir(s.helper.Dir + "/workspace"); len(entries) > 0 {
			t.Errorf("something is left: %v", entries)
		}
	}
	r, _ := cloner(t, "GITHUB_REPOSITORY="+url+"/private.git")
	r.env["GITHUB_TOKEN"] = "wrong-token"
	if err := r.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), "git failed") || strings.Contains(err.Error(), "wrong-token") {
		t.Error(err)
	}
	r.env["GITHUB_REPOSITORY"], r.env["PATH"] = url+"/public.git", t.TempDir()
	if err := r.ColdStart(t.Context(), again(), "i-1"); err == nil || !strings.Contains(err.Error(), "git is not in the template's base; build one that has it: berth template build-base") {
		t.Error(err)
	}
}

// again is the same sandbox in another life.
func again() sandbox.Sandbox {
	s := someSandbox()
	s.ID = "0198-other"
	return s
}

func TestRepositoryOfTheMetadata(t *testing.T) {
	r, s := cloner(t)
	url, _ := gitServer(t)
	sb := someSandbox()
	sb.Spec.Metadata = map[string]string{"GITHUB_REPOSITORY": url + "/public.git", "GITHUB_REF": "one"}
	if err := r.ColdStart(t.Context(), sb, "i-1"); err != nil || s.read("file") != "one" {
		t.Errorf("%v, %q", err, s.read("file"))
	}
	// A name alone is a repository of GitHub's.
	short, _ := runner(hook.Spec{Phase: hook.OnColdStart, Run: func(ctx context.Context, d *hook.Data) error {
		d.Record.Spec.Metadata = map[string]string{"GITHUB_REPOSITORY": "berthdev/berth", "GITHUB_REF": "bad ref"}
		return hook.CloneRepository(ctx, d)
	}})
	if err := short.ColdStart(t.Context(), someSandbox(), "i-1"); err == nil || !strings.Contains(err.Error(), `GITHUB_REF is "bad ref"`) {
		t.Error(err)
	}
}
