package workspace

// foreign is a file with several names that belongs to somebody else than the tree does.
type foreign struct {
	path         string
	inode, names uint64
}

// dropForeign takes out files of others that have a name outside the tree: somebody may have linked them
// here in order to have them read. One whose names are all in the tree was made in it.
func (r *ScanResult) dropForeign() {
	if len(r.foreign) == 0 {
		return
	}
	here := map[uint64]uint64{}
	for _, f := range r.foreign {
		here[f.inode]++
	}
	out := map[string]bool{}
	for _, f := range r.foreign {
		if here[f.inode] < f.names {
			out[f.path] = true
			r.Skipped = append(r.Skipped, Skipped{f.path, "it is a hard link to a file of somebody else"})
		}
	}
	kept := r.Entries[:0]
	for _, e := range r.Entries {
		if !out[e.Path] {
			kept = append(kept, e)
		}
	}
	r.Entries = kept
}
