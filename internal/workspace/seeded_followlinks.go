//go:build seeded_followlinks

package workspace

const beneath = 0
