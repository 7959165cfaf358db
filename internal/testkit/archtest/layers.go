package archtest

import "strings"

// layers is the order of the packages. A package may import lower layers, and packages of its own layer that the
// table sideways allows. A package belongs to the longest entry that equals its path or a parent of it.
var layers = [][]string{
	0: {"api", "internal/fault", "internal/sandbox"},
	1: {
		"internal/blob", "internal/driver", "internal/transcript", "client",
		"internal/files", "internal/guest", "internal/workspace",
		"internal/auth", "internal/config", "internal/telemetry", "internal/store", "internal/egress", "internal/outbox", "internal/readahead", "internal/awsaddr", "internal/seal", "internal/acp", "web",
	},
	2: {
		"internal/engine", "internal/workspacesync", "internal/agent", "internal/hook", "internal/template", "internal/chat",
		"internal/project", "internal/thread",
		"internal/preview", "internal/terminal", "internal/desktop", "internal/tool",
	},
	3: {"internal/httpapi", "internal/slack", "internal/mcp", "internal/cli", "internal/console"},
	4: {"internal/app"},
	5: {".", "cmd/berth", "bench", "internal/testkit"},
}

// layerNames are the names of the layers in the picture of the architecture.
var layerNames = []string{"core", "seams and parts", "services", "front ends", "wiring", "programs and tests"}

// seams are the packages that define an interface with several implementations. The implementations are in folders
// below the seam, and only wirers may import them.
var seams = []string{"internal/agent", "internal/blob", "internal/driver", "internal/transcript"}

// sideways lists the allowed imports within one layer: the key may import the values. A package below an
// entry of layers may always import that entry, as each driver imports internal/driver.
var sideways = map[string][]string{
	"internal/sandbox":    {"internal/fault"},
	"internal/auth":       {"internal/store", "internal/seal"},
	"internal/store":      {"internal/seal"},
	"internal/workspace":  {"internal/blob"},
	"internal/driver":     {"internal/files", "internal/guest", "internal/egress"},
	"internal/blob":       {"internal/blob", "internal/awsaddr"},
	"internal/guest":      {"internal/guest"},
	"internal/agent":      {"internal/engine"},
	"internal/transcript": {"internal/store", "internal/transcript", "internal/awsaddr"},
	"internal/outbox":     {"internal/store"},
	"internal/hook":       {"internal/engine"},
	"internal/template":   {"internal/hook"},
	"internal/tool":       {"internal/engine", "internal/template"},
	"internal/chat":       {"internal/engine", "internal/agent", "internal/hook", "internal/template"},
	"internal/project":    {"internal/engine"},
	"internal/thread":     {"internal/engine", "internal/chat"},
	"internal/preview":    {"internal/engine"},
	"internal/terminal":   {"internal/engine"},
	"internal/desktop":    {"internal/engine", "internal/terminal"},
	"internal/httpapi":    {"internal/mcp", "internal/httpapi", "internal/console"},
	"internal/cli":        {"internal/cli"},
	"internal/testkit":    {"internal/testkit"},
	"bench":               {"internal/testkit"},
}

// everywhere lists packages that every package above layer 0 may import.
var everywhere = []string{"internal/telemetry"}

// selfContained lists packages that may import only the standard library and the packages in the value.
var selfContained = map[string][]string{
	"api":              {},
	"client":           {"api", "github.com/coder/websocket"},
	"internal/fault":   {"api"},
	"internal/sandbox": {"api", "internal/fault"},
	"internal/egress":  {"api", "internal/fault", "internal/telemetry", "golang.org/x/net/idna", "golang.org/x/net/http/httpguts"},
	"internal/testkit": {}, // only the package itself; the packages below it may import others
}

// wirers lists the packages that may import implementations of seams, to connect them.
var wirers = []string{"internal/app", "internal/blob/open", "internal/transcript/open", "bench", "internal/testkit"}

// within reports whether path equals root or is below it.
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

// place returns a package's entry in layers and the number of its layer. The level is -1 if the package has no entry.
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

// isImplementation reports whether the package implements a seam. Only wirers may import such a package.
func isImplementation(path string) bool {
	for _, seam := range seams {
		if path != seam && within(path, seam) && !isSuite(path) {
			return true
		}
	}
	return false
}

// isSuite reports whether the package is a conformance suite that other packages' tests run, such as drivertest.
func isSuite(path string) bool {
	return within(path, "internal") && !within(path, "internal/testkit") && strings.HasSuffix(path, "test")
}
