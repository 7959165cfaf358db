package httpapi

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// certEvery is the minimum time between two checks of a certificate's files.
const certEvery = time.Second

// Certificate is a certificate and its key in files. The files are read again when they change. A new pair that
// cannot be used is ignored.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  string    // stampOf the files when they were last read
	looked time.Time // time of the last check of the files
}

// LoadCertificate reads the pair of files. If a file is missing, or if the two do not belong together, it returns an
// error with a hint.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	const op = "load certificate"
	if certFile == "" || keyFile == "" {
		e := fault.Errorf(op, api.CodeInvalidConfig, "only one of tls_cert and tls_key is set")
		e.Hint = "Set both: the certificate with its chain, and its private key, as PEM files. Or neither, for plain HTTP."
		return nil, e
	}
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, stamp: stampOf(certFile, keyFile), looked: time.Now()}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		e := fault.Errorf(op, api.CodeInvalidConfig, "tls_cert %s and tls_key %s cannot be used: %w", certFile, keyFile, err)
		e.Hint = "Both must be PEM files that the server may read, and the key must be that of the first certificate."
		return nil, e
	}
	c.pair = &pair
	return c, nil
}

// stampOf returns the times and sizes of the files as a text, which changes when a file is replaced.
func stampOf(files ...string) (stamp string) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			stamp += "missing;"
			continue
		}
		stamp += fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return stamp
}

// current returns the newest pair that can be used.
func (c *Certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	stamp := stampOf(c.certFile, c.keyFile)
	if stamp == c.stamp {
		return c.pair, nil
	}
	c.stamp = stamp
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.log.Warn("the changed certificate cannot be used; the one before stays in force", "tls_cert", c.certFile, "tls_key", c.keyFile, "error", err)
		return c.pair, nil
	}
	c.pair = &pair
	c.log.Info("certificate loaded", "tls_cert", c.certFile, "valid_until", pair.Leaf.NotAfter)
	return c.pair, nil
}

// config returns the TLS configuration. It offers only HTTP/1.1: terminals and previews take over connections, which
// HTTP/2 does not allow.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.current, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}
