package base

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSourcesOfApt(t *testing.T) {
	etc := t.TempDir()
	put(t, filepath.Join(etc, "sources.list"), `
# deb http://commented.test/a sloth main
deb http://one.test/a sloth main contrib # why
deb-src http://source.test/a sloth main
  deb  [ arch=amd64 signed-by=/keys/one.gpg ]  https://two.test/a  sloth-security  main
deb [trusted=yes signed-by=/keys/one.asc] http://three.test/a flat/
deb [broken http://four.test/a sloth main
deb cdrom:[Disc]/ sloth main
deb http://user:hunter2@five.test/a sloth main
deb http://six.test/a
`, 0o600)
	put(t, filepath.Join(etc, "sources.list.d", "a.sources"), `# A comment
Types: deb deb-src
URIs: http://seven.test/a http://eight.test/a
Suites: sloth
 sloth-updates
# within
Components: main
Signed-By: /keys/two.gpg

Types: deb-src
URIs: http://source.test/a
Suites: sloth

Enabled: no
Types: deb
URIs: http://off.test/a
Suites: sloth


types: deb
uris: file:///srv/mirror
suites: tiger
trusted: true
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
nonsense
`, 0o600)
	put(t, filepath.Join(etc, "sources.list.d", "b.list"), "deb http://nine.test/a tiger main\n", 0o600)
	put(t, filepath.Join(etc, "sources.list.d", "c.list.save"), "deb http://saved.test/a tiger main\n", 0o600)
	got := Sources(etc)
	both := []string{"sloth", "sloth-updates"}
	if diff := cmp.Diff([]Source{
		{URI: "http://one.test/a", Suites: []string{"sloth"}},
		{URI: "https://two.test/a", Suites: []string{"sloth-security"}, Keyring: "/keys/one.gpg"},
		{URI: "http://three.test/a", Suites: []string{"flat/"}, Trusted: true},
		{URI: "http://seven.test/a", Suites: both, Keyring: "/keys/two.gpg"},
		{URI: "http://eight.test/a", Suites: both, Keyring: "/keys/two.gpg"},
		{URI: "file:///srv/mirror", Suites: []string{"tiger"}, Trusted: true},
		{URI: "http://nine.test/a", Suites: []string{"tiger"}},
	}, got); diff != "" {
		t.Error(diff)
	}
	for suite, want := range map[string]string{"sloth": "http://one.test/a", "tiger": "file:///srv/mirror", "unlisted": "http://one.test/a"} {
		if s, ok := findSource(got, suite, "sloth"); !ok || s.URI != want {
			t.Errorf("%s comes from %q, want %q", suite, s.URI, want)
		}
	}
	if s, ok := findSource(got, "unlisted", ""); ok {
		t.Errorf("an unlisted release comes from %q", s.URI)
	}
	if got := Sources(filepath.Join(etc, "nowhere")); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
