package app

import (
	"fmt"
	"os"

	"github.com/berthdev/berth/internal/config"
)

// configWarnings returns warnings about settings that are valid but may be a mistake.
func configWarnings(cfg *config.Loaded) (all []string) {
	if cfg.DatabaseURL != "" {
		all = append(all, fmt.Sprintf("the fake driver keeps its instances in %s; every server on this database must use the same directory (fake_driver_dir)", cfg.FakeDriverDir))
	}
	if info, err := os.Stat(cfg.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		all = append(all, fmt.Sprintf("other users may write to %s and so replace its keys and database; chmod 700 %s", cfg.DataDir, cfg.DataDir))
	}
	return all
}

// plainHTTP returns the warning for an address that other machines can reach without TLS.
func plainHTTP(cfg *config.Loaded) string {
	return fmt.Sprintf("%s is plain HTTP: API keys and everything else can be read on the way; set tls_cert and tls_key, or listen on 127.0.0.1 behind a proxy that speaks HTTPS", cfg.Listen)
}
