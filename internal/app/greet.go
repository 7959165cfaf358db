package app

import (
	"fmt"
	"net"
)

// greet tells the person at the terminal where the server is and what to type next.
func (s *System) greet() {
	addr := s.Server.Addr()
	fmt.Fprintf(s.Out, "\n  Berth %s is ready: http://%s/docs\n\n", s.Version, visible(addr))
	switch {
	case s.first.Made != "":
		fmt.Fprintf(s.Out, "  Admin key (shown this once, kept in %s):\n    %s\n\n", s.first.File, s.first.Made)
	case s.first.File != "":
		fmt.Fprintf(s.Out, "  Admin key: in %s\n\n", s.first.File)
	case s.first.Elsewhere:
		fmt.Fprint(s.Out, "  Admin key: this database has one already, so none was made. If nobody has it\n  any more, start the server with BERTH_API_KEY set to a new one.\n\n")
	}
	fmt.Fprint(s.Out, "  In a second terminal:\n")
	for _, line := range s.exports(addr) {
		fmt.Fprintf(s.Out, "    export %s\n", line)
	}
	fmt.Fprint(s.Out, "    bin/berth chat \"write notes.txt: hello\"\n    bin/berth create scratch\n    bin/berth shell scratch\n\n  Ctrl-C stops the server; sandboxes live on.\n\n")
}

// exports is what the second terminal must be told because it cannot guess it.
func (s *System) exports(addr string) (lines []string) {
	if addr != "127.0.0.1:7070" {
		lines = append(lines, "BERTH_SERVER=http://"+visible(addr))
	}
	if s.cfg.Origin("data_dir") != "default" && s.first.File != "" {
		lines = append(lines, "BERTH_DATA_DIR="+s.cfg.DataDir)
	}
	if s.first.File == "" {
		lines = append(lines, "BERTH_API_KEY=…    # "+s.whichKey())
	}
	return lines
}

// whichKey describes a key that the server knows by its hash alone, or that is not to be shown.
func (s *System) whichKey() string {
	if s.first.Elsewhere {
		return "a key of this database"
	}
	return "the key that this server was started with"
}

// visible replaces an address that means "all of them" by one that a browser can open.
func visible(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
