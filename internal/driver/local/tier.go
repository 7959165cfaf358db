package local

// Tier is what instances are made with.
type Tier string

// The tiers.
const (
	TierRoot Tier = "root" // uids, idmapped layers and cgroups of their own
	TierUser Tier = "user" // one uid, the server's; limits as far as they were delegated
	TierNone Tier = "none" // nothing can be made here
)
