package workspace

// SetStep has f called at every step of a restore, and whenever a push has opened a file.
func SetStep(r *Repo, f func(what string)) { r.step = f }

// DecodeAny reads a manifest the slow way.
func DecodeAny(text []byte) (*Manifest, error) {
	d := new(decoded)
	if err := d.read(text); err != nil {
		return nil, err
	}
	return d.manifest()
}

// IsOwn reports whether a manifest is read the fast way.
func IsOwn(text []byte) bool {
	_, ok := decodeFast(text)
	return ok
}

// Names for tests.
var (
	ConflictName     = conflictName
	TempName         = tempName
	EncodePlain      = func(m *Manifest) []byte { return m.encode(nil, nil) }
	UnfinishedFile   = uint32(unfinishedFile)
	UnfinishedFolder = uint32(unfinishedFolder)
)
