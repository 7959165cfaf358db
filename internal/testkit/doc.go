// Package testkit holds helpers for Berth's tests. It imports only the standard library, so that
// every package can use it without a cycle.
//
//   - [Proves] ties a test to the requirements it proves; the report joins them with
//     docs/requirements.md.
//   - [Size] returns the amount of work of a test from one table, for short or for torture runs.
//   - [Eventually] polls real sockets and databases with a deadline.
//   - [Golden] compares output with a file under testdata.
//
// The packages below it are larger: pgtest runs PostgreSQL, archtest checks the structure of the
// module, report and seeded are the tools of make test and make seeded.
package testkit
