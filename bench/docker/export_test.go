//go:build docker

package docker

// Kill kills the daemon and nothing of what it started.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.gone
	return err
}
