package app

import (
	"fmt"
	"os"

	"github.com/berthdev/berth/internal/config"
)

// warnings says what works but may not be meant.
func warnings(cfg *config.Loaded) (all []string) {
	if cfg.DatabaseURL != "" {
		all = append(all, fmt.Sprintf("the fake driver keeps its instances in %s; every server on this database must use the same directory (fake_driver_dir)", cfg.FakeDriverDir))
	}
	if info, err := os.Stat(cfg.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		all = append(all, fmt.Sprintf("other users may write to %s and so replace its keys and database; chmod 700 %s", cfg.DataDir, cfg.DataDir))
	}
	return all
}
