//go:build !seeded_loggap

package store

// logEnds asks whether a turn's log ends at a number. What a crash of the database lost is missed by whoever
// goes on from there, and read again.
func logEnds(turn, number string) string {
	return `coalesce((select tail.last from turn_log tail where tail.turn = ` + turn + ` order by tail.first desc limit 1), 0) = ` + number
}
