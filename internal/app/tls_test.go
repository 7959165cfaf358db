package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/testkit"
)

// certPair is the files of a certificate for 127.0.0.1 that signs itself.
type certPair struct {
	*testing.T
	cert, key string
}

func newPair(t *testing.T) certPair {
	dir := t.TempDir()
	return certPair{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// write makes a new certificate with the serial number.
func (p certPair) write(serial int64) {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "berth"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		p.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.Fatal(err)
	}
	p.put(p.key, "PRIVATE KEY", private)
	p.put(p.cert, "CERTIFICATE", cert)
}

func (p certPair) put(path, kind string, data []byte) {
	p.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.Fatal(err)
	}
}

// served is the serial number of the certificate that a server shows.
func served(url string) (int64, error) {
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestServerSpeaksHTTPS(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.write(1)
	server := start(t, append(local(t), "BERTH_TLS_CERT="+p.cert, "BERTH_TLS_KEY="+p.key))
	if !strings.HasPrefix(server.url, "https://") {
		t.Fatalf("the server is at %s", server.url)
	}
	text, err := os.ReadFile(p.cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	c := server.client(t, client.WithRootCAs(pool))
	make1(t, c, api.CreateSandbox{Name: "box"}).says("echo over TLS", "over TLS\n")
	terminal, err := c.Sandboxes.Terminal(t.Context(), "box", client.TerminalOptions{Size: api.TermSize{Cols: 80, Rows: 24}})
	if err != nil {
		t.Errorf("a terminal: %v", err)
	} else {
		_ = terminal.Close()
	}
	cmd := exec.Command(testkit.Binary(t), "ls", "-q")
	cmd.Env = append(append(os.Environ(), server.at()...), "BERTH_CA_FILE="+p.cert)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "-") {
		t.Errorf("berth ls: %v\n%s", err, out)
	}
	cmd = exec.Command(testkit.Binary(t), "ls", "-q")
	cmd.Env = append(os.Environ(), server.at()...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "BERTH_CA_FILE") {
		t.Errorf("berth ls without the authority: %v\n%s", err, out)
	}
	wantSerial(t, server.url, 1)
	p.write(2)
	wantSerial(t, server.url, 2)
	if err := os.WriteFile(p.cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n, err := served(server.url); err != nil || n != 2 {
			t.Fatalf("a bad pair is served: %d, %v", n, err)
		}
		if !strings.Contains(server.logs.String(), "the changed certificate cannot be used") {
			return fmt.Errorf("nothing is logged of the bad pair")
		}
		return nil
	})
	p.write(3)
	wantSerial(t, server.url, 3)
}

func wantSerial(t *testing.T, url string, want int64) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		n, err := served(url)
		if err == nil && n != want {
			err = fmt.Errorf("certificate %d is served, want %d", n, want)
		}
		return err
	})
}

func TestBadCertificatesRefuseTheStart(t *testing.T) {
	t.Parallel()
	good, other := newPair(t), newPair(t)
	good.write(1)
	other.write(2)
	for name, c := range map[string]struct {
		cert, key string
		words     []string
	}{
		"no key":     {good.cert, "", []string{"only one of tls_cert and tls_key", "hint:"}},
		"no cert":    {"", good.key, []string{"only one of tls_cert and tls_key"}},
		"missing":    {good.cert + ".none", good.key, []string{"no such file", "PEM files"}},
		"mismatched": {good.cert, other.key, []string{"does not match", "the key must be that of the first certificate"}},
		"no PEM":     {os.Args[0], good.key, []string{"cannot be used"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantWords(t, refused(t, append(fresh(t), "BERTH_TLS_CERT="+c.cert, "BERTH_TLS_KEY="+c.key)), c.words...)
		})
	}
}

func TestPlainHTTPForOthersIsWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.write(1)
	const words = "is plain HTTP"
	for listen, want := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		env := append(unset(fresh(t), "BERTH_LISTEN"), "BERTH_LISTEN="+listen)
		if log := run(t, env, "/").log; strings.Contains(log, words) != want {
			t.Errorf("%s:\n%s", listen, log)
		}
	}
	env := append(unset(fresh(t), "BERTH_LISTEN"), "BERTH_LISTEN=0.0.0.0:0", "BERTH_TLS_CERT="+p.cert, "BERTH_TLS_KEY="+p.key)
	if server := start(t, env); strings.Contains(server.logs.String(), words) {
		t.Errorf("with a certificate:\n%s", server.logs)
	}
}

// The admin key is shown to a person at a terminal. Anything else may be a log, which gets the name of the file.
func TestAdminKeyIsShownOnlyToATerminal(t *testing.T) {
	testkit.Proves(t, "E5")
	t.Parallel()
	env := unset(fresh(t), "BERTH_API_KEY")
	said := run(t, env, "/")
	kept, err := os.ReadFile(filepath.Join(value(env, "BERTH_DATA_DIR"), auth.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if key := strings.TrimSpace(string(kept)); strings.Contains(said.greeting+said.log, key) {
		t.Errorf("the key is in the output:\n%s\n%s", said.greeting, said.log)
	}
	wantWords(t, said.greeting, "Admin key: in "+filepath.Join(value(env, "BERTH_DATA_DIR"), auth.AdminKeyFile))

	env = unset(fresh(t), "BERTH_API_KEY")
	screen, out := terminalPair(t)
	s, err := app.NewServer(t.Context(), app.Options{Config: loaded(t, env), Out: out, Log: new(logs)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := make(chan string, 1)
	go func() {
		var text strings.Builder
		for b := make([]byte, 4096); !strings.Contains(text.String(), "sandboxes live on"); {
			n, err := screen.Read(b)
			if text.Write(b[:n]); err != nil {
				break
			}
		}
		seen <- text.String()
	}()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	kept, err = os.ReadFile(filepath.Join(value(env, "BERTH_DATA_DIR"), auth.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, <-seen, "shown this once", strings.TrimSpace(string(kept)))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// terminalPair is a terminal, and the end that its screen is read from.
func terminalPair(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}
