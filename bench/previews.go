package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// previewCallers is the number of connections at once.
const previewCallers = 50

// previewApp is the port of the program in the sandbox.
const previewApp = 8000

// gallery has a server with a sandbox in which a program listens, the same program on the host, and two other proxies
// before that.
type gallery struct {
	sizes
	dir    string
	server *process
	others []*exec.Cmd
	routes [3]route // ours, the bare proxy, nginx
}

// route is a way to a program.
type route struct {
	base, host, cookie string
	times              []float64
	rate               []float64
}

// previewFigures prints what the proxy of previews costs: the 99th percentile of the time of a request, and requests per
// second, with all connections busy. The peers are a bare httputil.ReverseProxy and nginx before the same program.
func previewFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	g := &gallery{sizes: size}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.open(ctx); err != nil {
		return err
	}
	for round := range size.windows + 1 { // the first round is a warm-up
		for i := range g.routes {
			r := &g.routes[(i+round)%len(g.routes)]
			if err := r.load(ctx, size.loud); err != nil {
				return err
			}
			if round == 0 {
				r.times, r.rate = nil, nil
			}
		}
	}
	ours := g.routes[0]
	for i, peer := range []string{"a bare ReverseProxy", "nginx"} {
		theirs := g.routes[i+1]
		f := figure{name: fmt.Sprintf("preview, %d connections: p99, to %s", previewCallers, peer), unit: "s", n: len(ours.times),
			ours: quantile(ours.times, .99), peer: quantile(theirs.times, .99)}
		f.note = fmt.Sprintf("p50 %s to %s", amount(quantile(ours.times, .5), "s"), amount(quantile(theirs.times, .5), "s"))
		if i == 0 {
			f.goals = []goal{{ratio: 1.5}}
		}
		if err := print(f); err != nil {
			return err
		}
		err := print(figure{name: fmt.Sprintf("preview, %d connections: requests/s, to %s", previewCallers, peer), unit: "/s", n: len(ours.rate),
			ours: quantile(ours.rate, .5), peer: quantile(theirs.rate, .5), note: "more is better"})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gallery) open(ctx context.Context) (err error) {
	if g.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return err
	}
	if err = os.Chmod(g.dir, 0o755); err != nil { // nginx gives up its rights
		return err
	}
	if g.server, err = serve(ctx, g.berth, g.dir, "", "BERTH_DEFAULT_DRIVER=local"); err != nil {
		return err
	}
	if err := g.openOurs(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	app, err := g.start(ctx, self, roleApp, "127.0.0.1:0")
	if err != nil {
		return err
	}
	bare, err := g.start(ctx, self, roleProxy, app)
	if err != nil {
		return err
	}
	front, err := g.openNginx(ctx, app)
	g.routes[1], g.routes[2] = route{base: bare}, route{base: front}
	return err
}

// openOurs starts the program in a sandbox and opens a signed URL of its port.
func (g *gallery) openOurs(ctx context.Context) error {
	c, err := client.New(g.server.base, key)
	if err != nil {
		return err
	}
	if _, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: "app"}); err != nil {
		return err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	if _, _, err := c.Sandboxes.WriteFile(ctx, "app", "", "app", self, client.WriteOptions{Mode: 0o755}); err != nil {
		return err
	}
	stream, err := c.Sandboxes.ExecStream(ctx, "app", api.Exec{Command: api.Command{"/workspace/app", roleApp, fmt.Sprintf("127.0.0.1:%d", previewApp)}})
	if err != nil {
		return err
	}
	defer stream.Close()
	for said := ""; !strings.Contains(said, "\n"); {
		ev, err := stream.Next()
		if err != nil {
			return fmt.Errorf("the program in the sandbox said %q: %w", said, err)
		}
		said += string(ev.Data())
	}
	made, err := c.Sandboxes.CreatePortURL(ctx, "app", previewApp, api.CreatePortURL{})
	if err != nil {
		return err
	}
	opened, err := url.Parse(made.URL)
	if err != nil {
		return err
	}
	r := route{base: g.server.base, host: opened.Host}
	res, err := r.get(ctx, newLoader(), opened.RequestURI())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r.cookie, _, _ = strings.Cut(res.Header.Get("Set-Cookie"), ";")
	g.routes[0] = r
	return nil
}

const nginxConf = `
daemon off; worker_processes auto; pid nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
	upstream app { server %s; keepalive 64; }
	server {
		listen %s;
		location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
	}
}
`

func (g *gallery) openNginx(ctx context.Context, app string) (base string, err error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return "", fmt.Errorf("find nginx; scripts/setup bench installs it: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	conf := filepath.Join(g.dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, strings.TrimPrefix(app, "http://"), address), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, "-p", g.dir, "-c", conf, "-e", "stderr")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	g.others = append(g.others, cmd)
	r := route{base: "http://" + address}
	for end := time.Now().Add(time.Minute); ; {
		res, err := r.get(ctx, newLoader(), "/")
		if err == nil {
			return r.base, res.Body.Close()
		}
		if time.Now().After(end) {
			return "", err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// start starts a role of this program and returns the address that it prints.
func (g *gallery) start(ctx context.Context, program string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, words...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	g.others = append(g.others, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (g *gallery) close() error {
	for _, cmd := range g.others {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	return (&neighbours{dir: g.dir, server: g.server}).close()
}

func newLoader() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: previewCallers, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (r *route) get(ctx context.Context, c *http.Client, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Host = r.host
	if r.cookie != "" {
		req.Header.Set("Cookie", r.cookie)
	}
	return c.Do(req)
}

// load sends requests on all connections for a time.
func (r *route) load(ctx context.Context, lasting time.Duration) error {
	c := newLoader()
	defer c.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	var all []float64
	var wg sync.WaitGroup
	end := time.Now().Add(lasting)
	for range previewCallers {
		wg.Go(func() {
			var own []float64
			var err error
			for err == nil && time.Now().Before(end) {
				began := time.Now()
				err = r.ask(ctx, c)
				own = append(own, time.Since(began).Seconds())
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, own...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	r.times, r.rate = append(r.times, all...), append(r.rate, float64(len(all))/lasting.Seconds())
	return failed
}

func (r *route) ask(ctx context.Context, c *http.Client) error {
	res, err := r.get(ctx, c, "/")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n != appBytes) {
		err = fmt.Errorf("%s: status %d, %d bytes", r.base, res.StatusCode, n)
	}
	return err
}
