// Package testkit is what Berth's tests share. It imports the standard library only, so that
// every package can use it without a cycle.
//
//   - [Proves] ties a test to the requirements it proves; the report joins them with
//     docs/requirements.md.
//   - [Size] reads how much work a test does from one table, short or torture.
//   - [Eventually] polls real sockets and databases with a deadline.
//   - [Golden] compares output with a file under testdata.
//
// The packages below it are larger: pgtest runs PostgreSQL, archtest checks the shape of the
// module, report and seeded are the tools behind make test and make seeded.
package testkit
