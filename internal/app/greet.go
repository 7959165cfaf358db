package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// greet prints the address of the server, the admin key and the next commands for the person at the terminal.
func (s *Server) greet() {
	addr := s.http.Addr()
	fmt.Fprintf(s.opts.Out, "\n  Berth %s is ready: %s/docs\n\n", s.opts.Version, s.address())
	switch {
	case s.adminKey.Made != "" && isTerminal(s.opts.Out):
		fmt.Fprintf(s.opts.Out, "  Admin key (shown this once, kept in %s):\n    %s\n\n", s.adminKey.File, s.adminKey.Made)
	case s.adminKey.File != "":
		fmt.Fprintf(s.opts.Out, "  Admin key: in %s\n\n", s.adminKey.File)
	case s.adminKey.Elsewhere:
		fmt.Fprint(s.opts.Out, "  Admin key: this database has one already, so none was made. If nobody has it\n  any more, start the server with BERTH_API_KEY set to a new one.\n\n")
	}
	s.greetBrowser()
	for _, warning := range s.warnings {
		fmt.Fprintf(s.opts.Out, "  Warning: %s.\n  Run the server as root, or have a cgroup delegated to its user (docs/SECURITY.md).\n\n", warning)
	}
	fmt.Fprint(s.opts.Out, "  In a second terminal:\n")
	for _, line := range s.exports(addr) {
		fmt.Fprintf(s.opts.Out, "    export %s\n", line)
	}
	fmt.Fprint(s.opts.Out, "    bin/berth chat \"write notes.txt: hello\"\n    bin/berth create scratch\n    bin/berth shell scratch\n\n  Ctrl-C stops the server; sandboxes live on.\n\n")
}

// greetBrowser prints the address of the console. Only a terminal gets a link that signs in.
func (s *Server) greetBrowser() {
	if key := cmp.Or(s.adminKey.Made, s.adminKey.Kept); key != "" && isTerminal(s.opts.Out) {
		if link, err := s.api.SignInLink(context.Background(), key); err == nil && link.Path != "" {
			fmt.Fprintf(s.opts.Out, "  Console (signs in once, within ten minutes):\n    %s%s\n\n", s.address(), link.Path)
			return
		}
	}
	fmt.Fprintf(s.opts.Out, "  Console: %s/ ('berth console' makes a link that signs in)\n\n", s.address())
}

// exports returns the environment variables that commands in a second terminal need.
func (s *Server) exports(addr string) (lines []string) {
	if addr != "127.0.0.1:7070" || s.front.Certificate != nil {
		lines = append(lines, "BERTH_SERVER="+s.address())
	}
	if s.cfg.Origin("data_dir") != "default" && s.adminKey.File != "" {
		lines = append(lines, "BERTH_DATA_DIR="+s.cfg.DataDir)
	}
	if s.adminKey.File == "" {
		lines = append(lines, "BERTH_API_KEY=…    # "+s.whichKey())
	}
	return lines
}

// address returns the URL of the server for a browser on this machine.
func (s *Server) address() string {
	scheme, _, _ := strings.Cut(s.http.URL(), "://")
	return scheme + "://" + localAddr(s.http.Addr())
}

// isTerminal reports whether the output goes to a terminal. Any other output may be a log, which must not contain the
// key.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// whichKey describes the admin key that clients must use, if the data directory has none.
func (s *Server) whichKey() string {
	if s.adminKey.Elsewhere {
		return "a key of this database"
	}
	return "the key that this server was started with"
}

// localAddr replaces the host of an address that listens on all interfaces by 127.0.0.1.
func localAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
