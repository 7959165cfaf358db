package archtest

import "strings"

// layers is the order of the packages: an import goes down, or sideways where the table below says
// so. A package belongs to the longest entry that it equals or lies under.
var layers = [][]string{
	0: {"api", "internal/sandbox"},
	1: {
		"client",
		"internal/driver", "internal/files", "internal/guest", "internal/blob", "internal/transcript",
		"internal/workspace", "internal/agent", "internal/hook", "internal/template",
		"internal/auth", "internal/config", "internal/telemetry", "internal/store", "internal/egress", "internal/outbox", "internal/ahead", "internal/awsaddr",
	},
	2: {
		"internal/engine", "internal/keeper", "internal/turn",
		"internal/conversation", "internal/project", "internal/thread",
		"internal/preview", "internal/terminal", "internal/desktop", "internal/tool",
	},
	3: {"internal/httpapi", "internal/slack", "internal/mcp", "internal/cli", "internal/console"},
	4: {"internal/app"},
	5: {"cmd/berth", "bench", "internal/testkit"},
}

// sideways lists the imports allowed within one layer: who may import what. Packages below one
// entry of layers may always import that entry, as a driver imports the driver seam.
var sideways = map[string][]string{
	"internal/auth":         {"internal/store"},
	"internal/workspace":    {"internal/blob"},
	"internal/driver":       {"internal/files", "internal/guest", "internal/egress"},
	"internal/blob":         {"internal/blob", "internal/awsaddr"},
	"internal/guest":        {"internal/guest"},
	"internal/agent":        {"internal/guest", "internal/files"},
	"internal/transcript":   {"internal/store", "internal/transcript", "internal/awsaddr"},
	"internal/outbox":       {"internal/store"},
	"internal/hook":         {"internal/driver", "internal/guest", "internal/egress", "internal/store", "internal/outbox"},
	"internal/template":     {"internal/hook", "internal/egress", "internal/driver", "internal/guest", "internal/config"},
	"internal/turn":         {"internal/engine"},
	"internal/conversation": {"internal/engine", "internal/turn"},
	"internal/project":      {"internal/engine", "internal/turn"},
	"internal/thread":       {"internal/engine", "internal/turn"},
	"internal/preview":      {"internal/engine"},
	"internal/terminal":     {"internal/engine"},
	"internal/desktop":      {"internal/engine", "internal/terminal"},
	"internal/httpapi":      {"internal/mcp"},
	"internal/testkit":      {"internal/testkit"},
	"bench":                 {"internal/testkit"},
}

// everywhere may be imported by every package above layer 0.
var everywhere = []string{"internal/telemetry"}

// selfContained packages import the standard library and what is listed, nothing else.
var selfContained = map[string][]string{
	"api":              {},
	"client":           {"api", "github.com/coder/websocket"},
	"internal/sandbox": {"api"},
	"internal/egress":  {"api", "internal/telemetry"},
	"internal/testkit": {}, // the package itself; those below it may need more
}

// seams have their implementations in the folders below them, which only wirers may import.
var seams = []string{"internal/driver", "internal/blob", "internal/transcript", "internal/agent"}

// wirers put implementations together.
var wirers = []string{"internal/app", "internal/blob/open", "internal/transcript/open", "bench", "internal/testkit"}

// within reports whether path is root or lies under it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func withinAny(path string, roots []string) bool {
	for _, root := range roots {
		if within(path, root) {
			return true
		}
	}
	return false
}

// place finds a package's entry in layers. The level is -1 if it has none.
func place(path string) (entry string, level int) {
	level = -1
	for n, entries := range layers {
		for _, e := range entries {
			if within(path, e) && len(e) > len(entry) {
				entry, level = e, n
			}
		}
	}
	return entry, level
}

// isImplementation reports whether only wirers may import the package.
func isImplementation(path string) bool {
	for _, seam := range seams {
		if path != seam && within(path, seam) && !isSuite(path) {
			return true
		}
	}
	return false
}

// isSuite reports whether the package holds tests for others to run: drivertest, blobtest.
func isSuite(path string) bool {
	return within(path, "internal") && !within(path, "internal/testkit") && strings.HasSuffix(path, "test")
}
