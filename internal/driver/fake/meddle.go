package fake

import (
	"fmt"
	"os"

	"github.com/berthdev/berth/internal/driver"
)

// Live returns every entry in the directory. It writes no line to the log and no fault applies to it.
func (d *Driver) Live() ([]driver.Status, error) { return d.all(driver.Selector{}) }

// Vanish ends an instance, as if it was deleted at the provider.
func (d *Driver) Vanish(id driver.ID) error {
	done, err := d.end(id)
	if err == nil && !done {
		err = driver.ErrNotFound
	}
	return err
}

// Halt stops an instance, as if its machine was restarted.
func (d *Driver) Halt(id driver.ID) error {
	return d.Become(id, driver.PhaseStopped, "halted")
}

// Become sets the phase of an instance and the reason for it. The status shows a phase that package driver
// does not define as driver.PhaseUnknown.
func (d *Driver) Become(id driver.ID, phase driver.Phase, reason string) error {
	_, err := d.update(id, func(r *record) error {
		r.Phase, r.Reason = phase, reason
		return nil
	})
	return err
}

// ForgetKey removes Key, tenant and labels from the record of an instance. The instance still exists without a known
// owner. Its Key is free again.
func (d *Driver) ForgetKey(id driver.ID) error {
	_, err := d.update(id, func(r *record) error {
		r.Sandbox, r.Incarnation, r.Tenant, r.Labels = "", 0, "", nil
		return nil
	})
	return err
}

// Litter writes a foreign file into the directory of instances, or overwrites the file of an instance.
func (d *Driver) Litter(name string, data []byte) error {
	if err := os.WriteFile(d.livePath(driver.ID(name)), data, 0o600); err != nil {
		return fmt.Errorf("litter: %w", err)
	}
	return nil
}
