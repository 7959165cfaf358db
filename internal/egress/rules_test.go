package egress_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/testkit"
)

func mustRules(t testing.TB, texts ...string) egress.Rules {
	t.Helper()
	rules, err := egress.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestRulesAllowWhatTheySayAndNothingElse(t *testing.T) {
	for rule, c := range map[string]struct{ yes, no []string }{
		"api.example.com:443": {
			yes: []string{"api.example.com 443", "API.Example.COM 443", "api.example.com. 443"},
			no:  []string{"api.example.com 80", "example.com 443", "x.api.example.com 443", "api.example.com.evil.test 443", "notapi.example.com 443", "api.example.com.. 443"},
		},
		"*.example.com:443": {
			yes: []string{"a.example.com 443", "a.b.example.com 443"},
			no:  []string{"example.com 443", "aexample.com 443", ".example.com 443", "a.example.com 80", "*.example.com 443"},
		},
		"example.com": {
			yes: []string{"example.com 80", "example.com 443"},
			no:  []string{"example.com 8080", "example.com 0"},
		},
		"Example.COM.:*": {
			yes: []string{"example.com 1", "example.com 65535"},
			no:  []string{"example.com 0", "a.example.com 1"},
		},
		"203.0.113.7:8080": {
			yes: []string{"203.0.113.7 8080"},
			no:  []string{"203.0.113.7 80", "203.0.113.70 8080", "3405803783 8080", "::ffff:203.0.113.7 8080", "0xcb007107 8080", "203.0.113.007 8080"},
		},
		"[2001:DB8:0::7]:443": {
			yes: []string{"2001:db8::7 443", "2001:db8:0:0:0:0:0:7 443"},
			no:  []string{"2001:db8::7%eth0 443", "2001:db8::70 443"},
		},
		"[2001:db8::7]": {
			yes: []string{"2001:db8::7 443", "2001:db8::7 80"},
			no:  []string{"2001:db8::7 22"},
		},
		"Bücher.example:443": {
			yes: []string{"bücher.example 443", "BÜCHER.example 443", "xn--bcher-kva.example 443"},
			no:  []string{"bucher.example 443", "bu\u0308cher.example 443"},
		},
		"_dns.example_1:53": {yes: []string{"_dns.example_1 53"}},
		" all ": {
			yes: []string{"anything.test 22", "8.8.8.8 53", "2606:4700::1 443"},
			no:  []string{"2130706433 80", "a b 80", " 80", "anything.test 0", "::ffff:8.8.8.8 443", "0x7f.1 80", "-a.test 80", "a..test 80", "a/b 80", "user@a.test 80"},
		},
		"ALL": {yes: []string{"anything.test 22"}},
	} {
		rules := mustRules(t, rule)
		check := func(want bool, cases []string) {
			for _, c := range cases {
				i := strings.LastIndexByte(c, ' ')
				port := netip.MustParseAddrPort("127.0.0.1:" + c[i+1:]).Port()
				if got := rules.Allow(c[:i], port); got != want {
					t.Errorf("%q allows %q: %v", rule, c, got)
				}
			}
		}
		check(true, c.yes)
		check(false, c.no)
	}
}

func TestNoRulesAllowNothing(t *testing.T) {
	testkit.Proves(t, "E3")
	for _, rules := range []egress.Rules{{}, mustRules(t)} {
		if rules.Allow("example.com", 443) {
			t.Error("something is allowed")
		}
	}
}

func TestBadRulesAreRefusedWithWords(t *testing.T) {
	for rule, want := range map[string]string{
		"":                           "it is empty",
		"  ":                         "it is empty",
		"*":                          "for everything write all",
		"*:443":                      "for everything write all",
		"*.*.example.com":            "a star stands for whole subdomains",
		"a*.example.com":             "a star stands for whole subdomains",
		"*.198.51.100.7":             "an address has no subdomains",
		"*.":                         "empty part",
		"all:443":                    "all stands alone",
		"https://example.com":        "without a scheme",
		"example.com/path":           "without a path",
		"10.0.0.0/8":                 "ranges of addresses cannot be given",
		"user@example.com":           "without a user",
		"example.com:":               "no port behind the colon",
		"example.com:0":              "1 to 65535",
		"example.com:65536":          "1 to 65535",
		"example.com:+443":           "1 to 65535",
		"example.com:0443":           "1 to 65535",
		"example.com:https":          "1 to 65535",
		"2001:db8::1":                "in brackets",
		"[2001:db8::1":               "brackets hold an IPv6 address",
		"[example.com]:443":          "brackets hold an IPv6 address",
		"[2001:db8::1]443":           "a colon and a port",
		"[2001:db8::1]:":             "a colon and a port",
		"[2001:db8:::1]:443":         "no IPv6 address",
		"[fe80::1%eth0]:443":         "zone",
		"[::ffff:198.51.100.7]:443":  "an IPv4 address is written as one",
		"2852039166:80":              "four decimal numbers",
		"0xa9fea9fe:80":              "four decimal numbers",
		"0251.0376.0251.0376:80":     "four decimal numbers",
		"169.254.43518:80":           "four decimal numbers",
		"example.0x:80":              "four decimal numbers",
		"exa mple.com":               "does not contain ' '",
		"example..com":               "empty part",
		".example.com":               "empty part",
		"-a.example.com":             "hyphen",
		"a-.example.com":             "hyphen",
		"a\x00.example.com":          "does not contain '\\x00'",
		"a\xff.example.com":          "not UTF-8",
		strings.Repeat("a", 64):      "at most 63",
		strings.Repeat("ü", 64):      "at most 63",
		strings.Repeat("ü", 60):      "at most 63", // more than that once in ASCII
		strings.Repeat("a.", 127):    "",           // 253 characters: the longest name
		strings.Repeat("a.", 128):    "at most 253",
		strings.Repeat("a", 1100):    "too long",
		"bu\u0308cher.example":       "xn-- form",
		"ｅxample.com":                "xn-- form",
		"example。com":                "xn-- form",
		"xn--ü.example":              "begins with xn--",
		"\u212aelvin.example":        "xn-- form",
		"☃.example":                  "xn-- form",
		"example.com:443 b.test:443": "in brackets",
	} {
		_, err := egress.ParseRules([]string{"good.example", rule})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", rule, err)
		case want != "" && err == nil:
			t.Errorf("%q is taken for a rule", rule)
		case want != "" && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v\nwant %q", rule, err, want)
		}
	}
}

func TestEveryBadRuleIsNamed(t *testing.T) {
	rules, err := egress.ParseRules([]string{"good.example", "bad one", "*"})
	if err == nil || !strings.Contains(err.Error(), `egress rule "bad one": `) || !strings.Contains(err.Error(), `egress rule "*": `) {
		t.Errorf("error %v", err)
	}
	if rules.Allow("good.example", 443) {
		t.Error("half of the rules are used")
	}
}

// The samples are those of RFC 3492, section 7.1, in lower case, and names in use.
func TestInternationalNames(t *testing.T) {
	for name, want := range map[string]string{
		"他们为什么不说中文":                    "xn--ihqwcrb4cv8a8dqg056pqjye",
		"なぜみんな日本語を話してくれないのか":           "xn--n8jok5ay5dzabd5bym9f0cm5685rrjetr6pdxa",
		"почемужеонинеговорятпорусски": "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l",
		"3年b組金八先生":                     "xn--3b-ww4c5e180e575a65lsy2b",
		"münchen":                      "xn--mnchen-3ya",
		"हिन्दी":                       "xn--j2bd4cyah0f",
		"ΒΌΛΟΣ":                        "xn--nxasmq6b",
		"faß":                          "xn--fa-hia",
		"ไทย":                          "xn--o3cw4h",
	} {
		if !mustRules(t, name+".example:443").Allow(want+".example", 443) {
			t.Errorf("%s is not %s", name, want)
		}
	}
}

func TestEnvNamesTheProxyOnlyWhereThereIsOne(t *testing.T) {
	if got := egress.Env(nil); len(got) != 0 {
		t.Errorf("without rules: %v", got)
	}
	env := egress.Env([]string{"all"})
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if env[name] != "http://127.0.0.1:3128" || env[strings.ToLower(name)] != env[name] {
			t.Errorf("%s is %q, in lower case %q", name, env[name], env[strings.ToLower(name)])
		}
	}
	if env["NO_PROXY"] != "localhost,127.0.0.1,::1" || env["no_proxy"] != env["NO_PROXY"] {
		t.Errorf("NO_PROXY is %q", env["NO_PROXY"])
	}
	if len(env) != 8 {
		t.Errorf("names %q", slices.Sorted(maps.Keys(env)))
	}
}

func FuzzParseRules(f *testing.F) {
	for _, seed := range []string{"api.example.com:443", "*.example.com", "[2001:db8::1]:443", "203.0.113.7:*", "all", "bücher.example", "0x7f.1:80", "[fe80::1%25a]", "*.:1", "xn--:1", "a.\u0130:1"} {
		f.Add(seed, "a.example.com", uint16(443))
	}
	f.Fuzz(func(t *testing.T, rule, host string, port uint16) {
		rules, err := egress.ParseRules([]string{rule})
		if err != nil {
			if rules.Allow(host, port) {
				t.Errorf("the bad rule %q allows %q", rule, host)
			}
			return
		}
		if !rules.Allow(host, port) || strings.EqualFold(strings.TrimSpace(rule), "all") {
			return
		}
		// What is allowed ends like the rule does, and its port is one the rule can mean.
		name, wanted, _ := strings.Cut(rule, ":")
		if wanted == "" && port != 80 && port != 443 {
			t.Errorf("%q allows port %d", rule, port)
		}
		ascii := strings.ToLower(strings.Trim(strings.TrimPrefix(strings.TrimSpace(name), "*."), "."))
		if plain(ascii) && plain(host) && !strings.HasPrefix(rule, "[") &&
			!strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ascii) {
			t.Errorf("%q allows %q", rule, host)
		}
	})
}

func plain(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
