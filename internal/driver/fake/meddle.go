package fake

import (
	"fmt"
	"os"

	"github.com/berthdev/berth/internal/driver"
)

// Live returns everything in the directory, without a call in the log and past all faults.
func (d *Driver) Live() ([]driver.Status, error) { return d.all(driver.Selector{}) }

// Vanish makes an instance disappear, as when somebody deletes it at the provider.
func (d *Driver) Vanish(id driver.ID) error {
	done, err := d.end(id)
	if err == nil && !done {
		err = driver.ErrNotFound
	}
	return err
}

// Halt stops an instance, as when its machine is restarted.
func (d *Driver) Halt(id driver.ID) error {
	return d.Become(id, driver.PhaseStopped, "halted")
}

// Become puts an instance into a phase, for a reason. A phase that is not one of driver's is shown as
// unknown.
func (d *Driver) Become(id driver.ID, phase driver.Phase, reason string) error {
	_, err := d.update(id, func(r *record) error {
		r.Phase, r.Reason = phase, reason
		return nil
	})
	return err
}

// ForgetKey takes Key, tenant and labels from an instance: it goes on, and nobody can tell whose it
// is. Its Key is free again.
func (d *Driver) ForgetKey(id driver.ID) error {
	_, err := d.update(id, func(r *record) error {
		r.Sandbox, r.Incarnation, r.Tenant, r.Labels = "", 0, "", nil
		return nil
	})
	return err
}

// Litter puts a foreign file among the instances, or damages the one of that name.
func (d *Driver) Litter(name string, data []byte) error {
	if err := os.WriteFile(d.live(driver.ID(name)), data, 0o600); err != nil {
		return fmt.Errorf("litter: %w", err)
	}
	return nil
}
