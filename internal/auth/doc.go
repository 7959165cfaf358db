// Package auth says who is calling and what they may do.
//
// An API key is a secret that [Generate] makes and of which only [Hash] is stored. [Authenticator]
// turns a key that was sent into a [Principal]: a tenant, and a scope that [Includes] compares.
// [Bootstrap] makes sure that a new server has a first admin key, and [LoadSecret] gives it the root
// secret that tokens and signed addresses derive from. Both keep what they make in the data
// directory, readable by its owner alone.
package auth
