package workspacesync

// Opts returns the options of a syncer, for tests that change them between two steps.
func (s *Syncer) Opts() *Options { return &s.o }
